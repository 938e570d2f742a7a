"""An LLM planning service for robot fleets that keeps deadlines.

These are the names that a program without ROS needs; ``docs/reference/api.md`` shows how they work
together. A name's module is imported when the name is first used: every import of a part of this
package runs this file, also in processes that have to stay small.
"""

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.clock import Clock, LoopClock, WallClock
    from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions, create_driver
    from timely_llm_ros.drivers.indy import IndyOptions
    from timely_llm_ros.drivers.tello import TelloOptions
    from timely_llm_ros.drivers.trajectory import TrajectoryOptions
    from timely_llm_ros.engines import (
        Engine,
        EngineConfig,
        EngineInfo,
        OpenAIConfig,
        ServerOptions,
        SimulatedConfig,
        TorchConfig,
        VllmConfig,
        create_engine,
    )
    from timely_llm_ros.errors import (
        ArgumentError,
        BudgetOverrunError,
        ConfigurationError,
        ContractError,
        DriverTimeoutError,
        Ending,
        EngineError,
        EnvelopeError,
        ExecutionError,
        IncompletePlanError,
        InvalidTaskError,
        ModelLoadError,
        NotAllowedError,
        NotApprovedError,
        PlanError,
        PlanLimitError,
        PlannerLostError,
        PlanSyntaxError,
        RequestRefusedError,
        RobotUnavailableError,
        ServerBusyError,
        ServerLostError,
        ShutdownError,
        SkillFailedError,
        SkillSetError,
        SupersededError,
        TaskCanceledError,
        TaskRefusedError,
        TimelyError,
        TraceError,
        UnknownSkillError,
        WorthlessError,
    )
    from timely_llm_ros.execution import (
        CallValue,
        Driver,
        LocalRobotLink,
        RobotLink,
        SegmentExecutor,
        TimedSegment,
    )
    from timely_llm_ros.planner import (
        ApprovalAsked,
        ApprovalEnded,
        CallStarted,
        PhaseChanged,
        Planner,
        PlannerConfig,
        PlannerEvent,
        PreparedTask,
        SegmentEnded,
        SegmentReady,
        SegmentStarted,
        Task,
        TaskAccepted,
        TaskEnded,
        TaskFeedback,
        TaskHandle,
        TaskPhase,
        TaskResult,
        TaskStatus,
    )
    from timely_llm_ros.skills import Call, Scene, SceneObject, Segment, SkillSet
    from timely_llm_ros.skills.loading import find_skill_set, load_skill_set, parse_skill_set
    from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility
    from timely_llm_ros.virtual_time import run_virtual

# The generated interfaces share this package's name. In a source checkout they lie in a folder of
# their own, which this joins to the hand-written one; where both are installed it changes nothing.
__path__ = extend_path(__path__, __name__)

__version__ = '0.1.0'

__all__ = [
    'NORMAL', 'URGENT', 'ApprovalAsked', 'ApprovalEnded', 'ArgumentError', 'BudgetOverrunError',
    'Call', 'CallStarted', 'CallValue',
    'Clock', 'ConfigurationError', 'ContractError', 'Driver', 'DriverTimeoutError', 'Ending',
    'Engine', 'EngineConfig', 'EngineError', 'EngineInfo', 'EnvelopeError', 'ExecutionError',
    'IncompletePlanError',
    'IndyOptions', 'InvalidTaskError', 'LocalRobotLink', 'LoopClock', 'ModelLoadError',
    'NotAllowedError', 'NotApprovedError',
    'OpenAIConfig', 'PhaseChanged', 'PlanError', 'PlanLimitError', 'PlanSyntaxError', 'Planner',
    'PlannerConfig', 'PlannerEvent', 'PlannerLostError', 'PreparedTask', 'RequestRefusedError',
    'RobotLink', 'RobotUnavailableError',
    'Scene', 'SceneObject', 'Segment', 'SegmentEnded', 'SegmentExecutor', 'SegmentReady',
    'SegmentStarted', 'ServerBusyError', 'ServerLostError', 'ServerOptions', 'ShutdownError',
    'SimulatedConfig',
    'SimulatedDriver', 'SimulatedOptions', 'SkillFailedError', 'SkillSet', 'SkillSetError',
    'SupersededError', 'Task', 'TaskAccepted', 'TaskCanceledError', 'TaskEnded', 'TaskFeedback',
    'TaskHandle', 'TaskPhase', 'TaskRefusedError', 'TaskResult', 'TaskStatus', 'TelloOptions',
    'TimeUtility', 'TimedSegment', 'TimelyError', 'TorchConfig', 'TraceError', 'TrajectoryOptions',
    'UnknownSkillError', 'VllmConfig', 'WallClock', 'WorthlessError', 'create_driver',
    'create_engine', 'find_skill_set', 'load_skill_set', 'parse_skill_set', 'run_virtual',
]  # fmt: skip

_NAMES = {
    'clock': 'Clock LoopClock WallClock',
    'drivers': 'SimulatedDriver SimulatedOptions create_driver',
    'drivers.indy': 'IndyOptions',
    'drivers.tello': 'TelloOptions',
    'drivers.trajectory': 'TrajectoryOptions',
    'engines': (
        'Engine EngineConfig EngineInfo OpenAIConfig ServerOptions SimulatedConfig '
        'TorchConfig VllmConfig create_engine'
    ),
    'errors': (
        'ArgumentError BudgetOverrunError ConfigurationError ContractError DriverTimeoutError '
        'Ending EngineError EnvelopeError ExecutionError IncompletePlanError InvalidTaskError '
        'ModelLoadError NotAllowedError NotApprovedError '
        'PlanError PlanLimitError PlanSyntaxError PlannerLostError RequestRefusedError '
        'RobotUnavailableError '
        'ServerBusyError ServerLostError ShutdownError SkillFailedError SkillSetError '
        'SupersededError '
        'TaskCanceledError TaskRefusedError TimelyError TraceError UnknownSkillError '
        'WorthlessError'
    ),
    'execution': 'CallValue Driver LocalRobotLink RobotLink SegmentExecutor TimedSegment',
    'planner': (
        'ApprovalAsked ApprovalEnded CallStarted PhaseChanged Planner PlannerConfig PlannerEvent '
        'PreparedTask SegmentEnded SegmentReady SegmentStarted Task TaskAccepted TaskEnded '
        'TaskFeedback TaskHandle TaskPhase TaskResult TaskStatus'
    ),
    'skills': 'Call Scene SceneObject Segment SkillSet',
    'skills.loading': 'find_skill_set load_skill_set parse_skill_set',
    'utility': 'NORMAL URGENT TimeUtility',
    'virtual_time': 'run_virtual',
}
"""The names that each module offers here; the imports above say the same to type checkers."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # Else type checkers would believe in every name.

    def __getattr__(name: str) -> object:
        """Import the module of a public name when it is first used (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        found = getattr(import_module(f'{__name__}.{_HOMES[name]}'), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
