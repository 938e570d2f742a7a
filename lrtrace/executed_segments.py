"""Reads what a trace says of executed segments: their texts, calls and durations."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lrtrace.storage import FOREIGN, plan_id_of, scene, seconds
from lrtrace.timeline import SEGMENT_ENDED, SKILL_SEGMENT, TASK_EVENT
from timely_llm_ros.errors import TraceError
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from lrtrace.storage import Trace, TraceMessage

ROBOT_STATE = 'timely_llm_ros/msg/RobotState'

EXECUTING = 1
"""``phase`` of ``msg/RobotState`` while a call runs."""


@dataclass(slots=True)
class ExecutedSegment:
    """One segment. Its durations are by its executor's clock."""

    skill_set: str = ''
    text: str = ''
    """In the plan language; empty if the trace does not hold it."""

    scene: Scene = field(default_factory=Scene)
    """The objects that its calls name, placed from the robot's start."""

    states: list[tuple[float, str]] = field(default_factory=list)
    """Seconds since its first call began, and the text of the call that ran then."""

    execution_s: float | None = None
    """None if it has not ended."""

    error_code: int = 0
    """Of ``action/ExecuteSegment``; 0 for success."""

    measured: tuple[tuple[str, float], ...] = ()
    """The text of each call made, in order, and how long it took (s). Older traces have none."""

    @property
    def starts(self) -> list[tuple[float, str]]:
        """When each call was first seen running (s since the first began), and its text.

        Executors publish their state when a call begins, so this is 1 to 2 ms late, and up to
        0.1 s if another state was sent less than 0.1 s before. Equal calls in a row count as one.
        """
        return [next(seen) for _, seen in groupby(sorted(self.states), key=itemgetter(1))]


SEGMENT_BYTES, STATE_BYTES, LETTER_BYTES = 1000, 250, 6
"""What is kept of a message takes about this much memory, and that of its letters."""


def read_executed(trace: Trace) -> list[ExecutedSegment]:
    """Return every segment that ended on its robot, in the order in which they became known.

    Raises:
        TraceError: The trace cannot be read, holds neither segments nor task events, or more than
            its room.
    """
    found: dict[tuple[str, int], ExecutedSegment] = {}
    of_a_fleet = False
    room = trace.room()
    try:
        for message in trace.messages(types=(TASK_EVENT, SKILL_SEGMENT, ROBOT_STATE)):
            of_a_fleet = of_a_fleet or message.message_type != ROBOT_STATE
            if not room.take(_add(found, message)):
                raise TraceError(f'trace {str(trace.path)!r}: {room.damage}: expected less')
    except FOREIGN as err:
        raise TraceError(f'trace {str(trace.path)!r}: messages of another package: {err}') from err
    if not of_a_fleet:
        raise TraceError(
            f'trace {str(trace.path)!r}: nothing that a fleet did: expected messages of '
            f'{TASK_EVENT} and {SKILL_SEGMENT}'
        )
    return [segment for segment in found.values() if segment.execution_s is not None]


def _add(found: dict[tuple[str, int], ExecutedSegment], message: TraceMessage) -> int:
    """Take what a message says of a segment, and return how much memory that takes."""
    value = message.value
    plan_id = plan_id_of(value)
    if message.message_type == SKILL_SEGMENT:
        segment = found.setdefault((plan_id, int(value.index)), ExecutedSegment())
        segment.skill_set, segment.text = str(value.skill_set), str(value.text)
        segment.scene = scene(value.objects)
        return SEGMENT_BYTES + LETTER_BYTES * len(message.data)
    if message.message_type == ROBOT_STATE:
        if value.phase != EXECUTING or not value.call:
            return 0
        segment = found.setdefault((plan_id, int(value.segment)), ExecutedSegment())
        segment.states.append((seconds(value.elapsed), str(value.call)))
        return STATE_BYTES + LETTER_BYTES * len(value.call)
    if value.event != SEGMENT_ENDED:
        return 0
    segment = found.setdefault((plan_id, int(value.segment)), ExecutedSegment())
    segment.skill_set = segment.skill_set or str(value.skill_set)
    segment.execution_s = seconds(value.execution_time)
    segment.error_code = int(value.error_code)
    segment.measured = _measured(value)
    return SEGMENT_BYTES + LETTER_BYTES * len(message.data)


def _measured(event: Any) -> tuple[tuple[str, float], ...]:
    # Traces carry the definitions of their own time, and older ones do not have these fields.
    calls = [str(call) for call in getattr(event, 'calls', ())]
    durations_s = [seconds(duration) for duration in getattr(event, 'call_durations', ())]
    return tuple(zip(calls, durations_s, strict=True)) if len(calls) == len(durations_s) else ()
