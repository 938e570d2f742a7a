"""How long single calls of skills took, from the segments in traces.

A ``SEGMENT_ENDED`` event lists the calls that the robot made and how long each took. Older traces
do not have this. There, a segment of one call gives its time, and of several calls the robot's
states say when each began, if together they are one way through the segment's text. Segments that
fit neither case are left out and counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, PlanError, UnknownSkillError
from timely_llm_ros.skills import Call, If, Repeat, calls_of, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lrtrace.executed_segments import ExecutedSegment
    from timely_llm_ros.skills import Scene, SkillSet, Statement

MAX_PATHS = 256
"""A segment with more ways through its text is left out."""

MAX_CALLS = 10_000
"""A segment with a way of more calls is left out."""

FAILED = 'did not succeed'
NO_TEXT = 'its text is not in the trace'
NOT_A_PLAN = 'its text does not fit the skill set'
TOO_MANY_WAYS = 'too many ways through it'
NOT_SEEN = 'its calls were not all seen, or are not those of its text'
NO_TIME = 'a call of it took no time'


@dataclass(frozen=True, slots=True)
class CallSample:
    """One measured call; ``scene`` holds the objects that it may name."""

    call: Call
    scene: Scene
    duration_s: float
    """Above 0. The mean of equal calls in a row if the trace does not tell them apart."""

    @property
    def amounts(self) -> dict[str, float]:
        """What may explain its time: by argument its absolute SI value or its object's distance."""
        found: dict[str, float] = {}
        for argument in self.call.arguments:
            if not isinstance(argument.value, str):
                found[argument.name] = abs(float(argument.value))
            elif (item := self.scene.get(argument.value)) is not None:
                found[argument.name] = item.distance_m
        return found


@dataclass(slots=True)
class RecordedCalls:
    """Measured calls by skill, and how many segments were left out by reason."""

    samples: dict[str, list[CallSample]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """How many calls were measured."""
        return sum(map(len, self.samples.values()))


def measured_calls(segments: Iterable[ExecutedSegment], skill_set: SkillSet) -> RecordedCalls:
    """Return the measured calls of this skill set's segments.

    Raises:
        ConfigurationError: A segment calls a skill that the skill set does not have.
    """
    found = RecordedCalls()
    for segment in segments:
        if segment.skill_set != skill_set.name:
            continue
        try:
            samples = _samples(segment, skill_set)
        except _LeftOutError as err:
            found.left_out[str(err)] += 1
            continue
        for sample in samples:
            found.samples.setdefault(sample.call.skill, []).append(sample)
    return found


class _LeftOutError(Exception):
    """The reason why a segment gives no sample."""


def _samples(segment: ExecutedSegment, skill_set: SkillSet) -> list[CallSample]:
    if segment.error_code:
        raise _LeftOutError(FAILED)
    if not segment.text or segment.execution_s is None:
        raise _LeftOutError(NO_TEXT)
    try:
        statements = parse(segment.text, skill_set, segment.scene)
    except UnknownSkillError as err:
        raise ConfigurationError(
            f'skill set {skill_set.name!r}: a trace has another one of that name: {err}'
        ) from err
    except PlanError:
        raise _LeftOutError(NOT_A_PLAN) from None
    if segment.measured:
        return _measured_samples(segment, statements)
    starts = segment.starts
    runs = _runs_made([call for _, call in starts], _paths(statements))
    times_s = [0.0, *(start_s for start_s, _ in starts[1:]), segment.execution_s]
    samples = []
    for (call, count), start_s, end_s in zip(runs, times_s[:-1], times_s[1:], strict=True):
        if end_s <= start_s:
            raise _LeftOutError(NO_TIME)
        samples.append(CallSample(call, segment.scene, (end_s - start_s) / count))
    return samples


def _measured_samples(
    segment: ExecutedSegment, statements: Iterable[Statement]
) -> list[CallSample]:
    calls = {call.text: call for call in calls_of(statements)}
    samples = []
    for text, duration_s in segment.measured:
        if text not in calls:
            raise _LeftOutError(NOT_SEEN)
        if duration_s <= 0:
            raise _LeftOutError(NO_TIME)
        samples.append(CallSample(calls[text], segment.scene, duration_s))
    return samples


def _runs_made(
    seen: Sequence[str], paths: Sequence[tuple[Call, ...]]
) -> tuple[tuple[Call, int], ...]:
    """Return the only way that fits the calls seen; a single call need not have been seen.

    Equal calls in a row are one entry with their number.
    """
    ways = {tuple((call, len([*equal])) for call, equal in groupby(path)) for path in paths}
    fitting = [way for way in ways if [call.text for call, _ in way] == list(seen)]
    if not seen and len(ways) == 1 and len(only := next(iter(ways))) == 1:
        return only
    if len(fitting) != 1:
        raise _LeftOutError(NOT_SEEN)
    return fitting[0]


def _paths(statements: Iterable[Statement]) -> list[tuple[Call, ...]]:
    """Return every way through statements, with loops unrolled."""
    paths: list[tuple[Call, ...]] = [()]
    for statement in statements:
        match statement:
            case Call():
                paths = _joined(paths, [(statement,)])
            case Repeat():
                body = _paths(statement.body)
                for _ in range(statement.count):
                    paths = _joined(paths, body)
            case If():
                branches = [*_paths(statement.then), *_paths(statement.otherwise)]
                paths = _joined(paths, [(statement.condition, *branch) for branch in branches])
    return paths


def _joined(
    paths: list[tuple[Call, ...]], options: list[tuple[Call, ...]]
) -> list[tuple[Call, ...]]:
    longest = max(map(len, paths)) + max(map(len, options))
    if len(paths) * len(options) > MAX_PATHS or longest > MAX_CALLS:
        raise _LeftOutError(TOO_MANY_WAYS)
    # Different branches may hold the same calls.
    return list(dict.fromkeys(path + option for path in paths for option in options))
