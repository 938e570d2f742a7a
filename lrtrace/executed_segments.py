"""What a trace says of executed segments: their text, how long they ran, when calls began."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lrtrace.storage import scene, seconds
from lrtrace.timeline import SEGMENT_ENDED, SKILL_SEGMENT, TASK_EVENT
from timely_llm_ros.errors import TraceError
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from lrtrace.storage import Trace

ROBOT_STATE = 'timely_llm_ros/msg/RobotState'

EXECUTING = 1
"""``phase`` of ``msg/RobotState`` while a call runs."""


@dataclass(slots=True)
class ExecutedSegment:
    """One segment that robots and planner told of.

    Attributes:
        skill_set: Name of its robot's skill set.
        text: In the plan language; empty where the trace does not hold it.
        scene: The objects that its calls name, placed from the robot's start.
        states: (seconds since the segment's first call began, text of the call that ran), in
            order.
        execution_s: First call's start to the end, by the executor's clock; None where it has
            not ended.
        error_code: Of ``action/ExecuteSegment``; 0 for success.
        measured: (text of a call, how long it took (s)) by the executor's clock, in order, loops
            unrolled; empty where the trace is of a time when task events did not say.
    """

    skill_set: str = ''
    text: str = ''
    scene: Scene = field(default_factory=Scene)
    states: list[tuple[float, str]] = field(default_factory=list)
    execution_s: float | None = None
    error_code: int = 0
    measured: tuple[tuple[str, float], ...] = ()

    @property
    def starts(self) -> list[tuple[float, str]]:
        """When each call was first seen running (s since the first one began), and its text.

        Executors publish their state at the start of every call, so this is that moment but for
        a millisecond or two; it is up to 0.1 s late for a call that began less than 0.1 s after
        another state was sent. Equal calls in a row are seen as one.
        """
        found: list[tuple[float, str]] = []
        for elapsed_s, call in sorted(self.states):
            if not found or found[-1][1] != call:
                found.append((elapsed_s, call))
        return found


def read_executed(trace: Trace) -> list[ExecutedSegment]:
    """Return every segment that ended on its robot, in the order in which they became known.

    Raises:
        TraceError: The trace cannot be read, or is not one of a fleet: no segment of a plan and
            no event of a task is in it.
    """
    found: dict[tuple[str, int], ExecutedSegment] = {}
    of_a_fleet = False
    for message in trace.messages(types=(TASK_EVENT, SKILL_SEGMENT, ROBOT_STATE)):
        value = message.value
        plan_id = bytes(value.plan_id.uuid).hex()
        if message.message_type == SKILL_SEGMENT:
            of_a_fleet = True
            segment = found.setdefault((plan_id, value.index), ExecutedSegment())
            segment.skill_set, segment.text = value.skill_set, value.text
            segment.scene = scene(value.objects)
        elif message.message_type == ROBOT_STATE:
            if value.phase == EXECUTING and value.call:
                segment = found.setdefault((plan_id, value.segment), ExecutedSegment())
                segment.states.append((seconds(value.elapsed), value.call))
        else:
            of_a_fleet = True
            if value.event == SEGMENT_ENDED:
                segment = found.setdefault((plan_id, value.segment), ExecutedSegment())
                segment.skill_set = segment.skill_set or value.skill_set
                segment.execution_s = seconds(value.execution_time)
                segment.error_code = value.error_code
                segment.measured = _measured(value)
    if not of_a_fleet:
        raise TraceError(
            f'trace {str(trace.path)!r}: nothing that a fleet did: expected messages of '
            f'{TASK_EVENT} and {SKILL_SEGMENT}'
        )
    return [segment for segment in found.values() if segment.execution_s is not None]


def _measured(event: Any) -> tuple[tuple[str, float], ...]:
    # Traces carry the definitions of their own time: older ones have no such fields.
    calls = getattr(event, 'calls', ())
    durations_s = [seconds(duration) for duration in getattr(event, 'call_durations', ())]
    return tuple(zip(calls, durations_s, strict=True)) if len(calls) == len(durations_s) else ()
