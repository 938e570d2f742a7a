"""Between ROS messages and records, continued: segments, their outcomes, and states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.errors import Ending, PlanSyntaxError
from timely_llm_ros.execution import SegmentOutcome, SegmentProgress
from timely_llm_ros.msg import (
    GenerationState,
    RobotState,
    SchedulerState,
    SkillCall,
    SkillSegment,
)
from timely_llm_ros.ros.conversions.tasks import (
    duration,
    object_message,
    scene_record,
    seconds,
    uuid_message,
)
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.skills import Segment, read_statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.engines import EngineInfo, EngineState
    from timely_llm_ros.execution import ExecutorState, TimedSegment
    from timely_llm_ros.skills import Call, Scene, SkillSet


# Segments


def call_message(call: Call, skill_set: SkillSet, scene: Scene) -> SkillCall:
    """Return a call's message."""
    skill = skill_set.skills[call.skill]
    return SkillCall(
        skill=call.skill,
        argument_names=[argument.name for argument in call.arguments],
        argument_texts=[argument.text for argument in call.arguments],
        argument_values=[
            math.nan if isinstance(argument.value, str) else float(argument.value)
            for argument in call.arguments
        ],
        blocking=skill.blocking,
        expected_execution=duration(skill.duration.expected_s(call, scene)),
    )


def segment_message(timed: TimedSegment, *, robot: str, skill_set: SkillSet) -> SkillSegment:
    """Return a segment's message; its header is left empty."""
    segment, scene = timed.segment, timed.scene
    calls = segment.calls
    named = dict.fromkeys(
        argument.value
        for call in calls
        for argument in call.arguments
        if isinstance(argument.value, str) and argument.value in scene
    )
    objects = [item for name in named if (item := scene.get(str(name))) is not None]
    return SkillSegment(
        plan_id=uuid_message(timed.plan_id),
        robot=robot,
        skill_set=skill_set.name,
        index=segment.index,
        text=segment.text,
        calls=[call_message(call, skill_set, scene) for call in calls],
        objects=[object_message(item) for item in objects],
        is_last=segment.is_last,
        awaits_value=segment.awaits_value,
        tokens=segment.tokens,
        generation_time=duration(timed.generation_s),
        expected_execution=duration(timed.expected_execution_s),
    )


def segment_record(message: SkillSegment, skill_set: SkillSet) -> tuple[Segment, Scene]:
    """Check a segment that came over ROS against a robot's own skill set.

    Only its text counts; its list of calls is for people and recorders.

    Raises:
        PlanError: Its text must not reach a robot.
        InvalidTaskError: Its objects are malformed.
    """
    scene = scene_record(message.objects)
    statements = read_statements(message.text, skill_set, scene)
    if not statements:
        raise PlanSyntaxError('no statement: expected at least one', 0)
    segment = Segment(
        message.index,
        message.text,
        statements,
        message.tokens,
        message.is_last,
        message.awaits_value,
    )
    return segment, scene


def progress_message(progress: SegmentProgress) -> ExecuteSegment.Feedback:
    """Return a segment's feedback message."""
    return ExecuteSegment.Feedback(
        call=progress.current_call,
        call_number=progress.call_number,
        elapsed=duration(progress.elapsed_s),
        expected_remaining=duration(progress.remaining_s),
    )


def progress_record(index: int, message: ExecuteSegment.Feedback) -> SegmentProgress:
    """Return a segment's progress."""
    return SegmentProgress(
        index,
        message.call,
        seconds(message.elapsed),
        seconds(message.expected_remaining),
        message.call_number,
    )


def outcome_message(outcome: SegmentOutcome) -> ExecuteSegment.Result:
    """Return the result message of a segment."""
    return ExecuteSegment.Result(
        error_code=outcome.ending.code,
        error_msg=outcome.ending.message,
        calls=list(outcome.calls),
        call_durations=list(map(duration, outcome.call_durations_s)),
        execution_time=duration(outcome.execution_s),
        value=outcome.value or '',
    )


def outcome_record(
    index: int, message: ExecuteSegment.Result, *, awaits_value: bool
) -> SegmentOutcome:
    """Return the outcome of the segment with that index."""
    return SegmentOutcome(
        index,
        Ending(message.error_code, message.error_msg),
        tuple(message.calls),
        tuple(map(seconds, message.call_durations)),
        seconds(message.execution_time),
        message.value if awaits_value else None,
    )


# States

ROBOT_PHASES = {
    'idle': RobotState.IDLE,
    'executing': RobotState.EXECUTING,
    'waiting': RobotState.WAITING,
    'safe': RobotState.SAFE,
    'lost': RobotState.LOST,
}
"""The phases of robots, as the program names them and as messages do."""


def robot_state_message(
    state: ExecutorState, robot: str, skill_set: SkillSet, *, halted: bool, inactive: bool
) -> RobotState:
    """Return a robot's state message; its header is left empty."""
    return RobotState(
        robot=robot,
        skill_set=skill_set.name,
        phase=ROBOT_PHASES[state.phase],
        plan_id=uuid_message(state.plan_id),
        segment=state.index,
        call=state.call,
        elapsed=duration(state.elapsed_s),
        expected_remaining=duration(state.remaining_s),
        queued_segments=state.queued,
        halted=halted,
        inactive=inactive,
    )


_GENERATION_PHASES = {
    Phase.QUEUED: GenerationState.QUEUED,
    Phase.RUNNING: GenerationState.RUNNING,
    Phase.SUSPENDED: GenerationState.SUSPENDED,
    Phase.HELD: GenerationState.HELD,
    Phase.ENDED: GenerationState.ENDED,
}


def scheduler_state_message(
    state: EngineState, info: EngineInfo, *, mode: str, policy: str, robot_of: Mapping[str, str]
) -> SchedulerState:
    """Return the engine's state message; its header is left empty."""
    return SchedulerState(
        engine=info.engine,
        model=info.model,
        mode=mode,
        policy=policy,
        running=state.running,
        suspended=state.suspended,
        held=state.held,
        queued=state.queued,
        kv_tokens=state.kv_tokens,
        kv_capacity_tokens=state.kv_capacity_tokens,
        step_time=duration(state.step_s),
        generations=[
            GenerationState(
                plan_id=uuid_message(item.generation_id),
                robot=robot_of.get(item.generation_id, ''),
                phase=_GENERATION_PHASES[item.phase],
                rank=float(item.rank),
                waiting=duration(item.waiting_s),
                segments=item.segments,
                kv_tokens=item.kv_tokens,
            )
            for item in state.generations
        ],
    )
