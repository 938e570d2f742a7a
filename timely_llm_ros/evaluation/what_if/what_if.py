"""What-ifs: a recorded run again under other policies, modes, hardware or fleet sizes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, cast, get_args

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.engines.simulated import (
    Hardware,
    SimulatedConfig,
    SimulatedEngine,
    find_hardware,
)
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.what_if.fleet import (
    ReplayDriver,
    ReplayFleet,
    assigned_robots,
    plan_tokens,
    timed_skills,
)
from timely_llm_ros.evaluation.what_if.observer import RunObserver
from timely_llm_ros.evaluation.what_if.step_times import fit_hardware
from timely_llm_ros.planner import PlannerConfig
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode, find_policy
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lrtrace.run import Run
    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.evaluation.what_if.recorded import Recording

AS_RECORDED = 'recorded'
"""Name of the hardware that is fitted to the trace."""

MODES: tuple[str, ...] = get_args(ServingMode)
"""The serving modes."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One way to serve recorded tasks.

    Attributes:
        mode: The serving mode.
        policy: Name of the policy; only mode ``segmented`` has one, the others are ``fcfs``.
        hardware: A preset, the path of a profile, or ``recorded``: fitted to the trace.
        robots: Size of the fleet; None for the recorded one.
        max_running: Most generations in one step; None for the most that the trace shows.
        scheduling: Further options of the scheduler.

    Raises:
        ConfigurationError: There is no such mode or policy, or a number is out of range.
    """

    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    hardware: str = AS_RECORDED
    robots: int | None = None
    max_running: int | None = None
    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigurationError(f'mode {self.mode!r}: expected one of {", ".join(MODES)}')
        find_policy(self.policy)
        for name in ('robots', 'max_running'):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f'{name} {value!r}: expected at least 1')

    def label(self, *, hardware: bool = True) -> str:
        """Return what tables call it: its way of serving and what is not as recorded."""
        parts = [self.policy if self.mode == 'segmented' else self.mode.replace('_', ' ')]
        if hardware:
            parts.append(self.hardware)
        if self.robots is not None:
            parts.append(f'{self.robots} robots')
        return ', '.join(parts)


def own_way(recording: Recording, like: WhatIf) -> WhatIf | None:
    """Return how the run itself was served, None if the trace does not say.

    Traces hold neither the batch nor the scheduler's options: ``like`` gives both.
    """
    run = recording.run
    if run.mode not in MODES:
        return None
    mode = cast('ServingMode', run.mode)
    policy = run.policy if mode == 'segmented' else 'fcfs'
    try:
        return replace(like, mode=mode, policy=policy, hardware=AS_RECORDED, robots=None)
    except ConfigurationError:
        # A policy that this version does not know.
        return None


def what_ifs(
    *,
    policies: Sequence[str],
    modes: Sequence[str],
    hardware: Sequence[str],
    robots: Sequence[int | None],
    max_running: int | None = None,
    scheduling: SchedulingOptions | None = None,
) -> list[WhatIf]:
    """Return every combination once; a mode other than ``segmented`` has no choice of policy.

    Raises:
        ConfigurationError: A value is not known or out of range.
    """
    found: dict[WhatIf, None] = {}
    for card, size, mode, policy in product(hardware, robots, modes, policies):
        served = policy if mode == 'segmented' else 'fcfs'
        found[
            WhatIf(
                mode=cast('ServingMode', mode),
                policy=served,
                hardware=card,
                robots=size,
                max_running=max_running,
                scheduling=scheduling or SchedulingOptions(),
            )
        ] = None
    return list(found)


def hardware_of(recording: Recording, name: str) -> Hardware:
    """Return the preset or profile of that name, or what fits the trace for ``recorded``.

    Raises:
        ConfigurationError: There is no such hardware.
        TraceError: The trace does not tell how long steps took.
    """
    if name == AS_RECORDED:
        return fit_hardware(recording.run, recording.kv_tokens)
    return find_hardware(name)


def replay(recording: Recording, what_if: WhatIf, *, label: str = '') -> Run:
    """Serve the recorded tasks on the simulated engine in virtual time; return what happened.

    Equal arguments give equal runs. Times count from the begin of the recorded run. Reports call
    the run ``label``, by default the what-if's own.

    Raises:
        ConfigurationError: There is no such hardware, or the fleet is too small.
        TraceError: The hardware is to be fitted to a trace that does not tell.
    """
    hardware = hardware_of(recording, what_if.hardware)
    plans = {task.record.plan_id: plan_tokens(task) for task in recording.tasks}

    def plan_of(request: GenerationRequest) -> list[str]:
        return plans[request.generation_id]

    engine = SimulatedEngine(
        SimulatedConfig(
            plan_text=plan_of,
            step_time=hardware.step_time,
            mode=what_if.mode,
            policy=what_if.policy,
            max_running=what_if.max_running or recording.max_running,
            max_kv_tokens=hardware.kv_capacity_tokens,
            scheduling=what_if.scheduling,
        )
    )
    observer, clock = RunObserver(recording.tasks), LoopClock()
    fleet = ReplayFleet(
        recording.tasks,
        assigned_robots(recording.tasks, what_if.robots),
        {name: timed_skills(name) for name in sorted({it.skill_set for it in recording.tasks})},
        lambda _robot, _skill_set: ReplayDriver(clock),
        engine,
        clock,
        PlannerConfig(
            max_queue_per_robot=len(recording.tasks), max_tokens=1 + max(map(len, plans.values()))
        ),
        recording.network_s,
        take_over=what_if.robots is None,
        observer=observer,
    )
    run_virtual(fleet.serve())
    run = observer.run(label or what_if.label())
    run.engine, run.model = 'simulated', what_if.hardware
    run.mode, run.policy = what_if.mode, what_if.policy
    run.start_ns, run.kv_capacity_tokens = recording.run.start_ns, hardware.kv_capacity_tokens
    run.custom_data = {
        'replay_of': recording.run.path,
        'hardware': hardware.about,
        'generations_per_step': f'{what_if.max_running or recording.max_running} at most',
        'network': f'{1000 * recording.network_s:.1f} ms to a robot',
    }
    return run
