"""Composes workloads from recorded traces: what a task costs is taken from tasks that ran.

Segments, tokens and execution times are those of recorded tasks that succeeded, so a workload needs
neither the model nor the robots that made them. When tasks come, of which kinds and for how many
robots is free.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.evaluation.workload import MAX_TASKS, SegmentShape, Workload, WorkloadTask
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lrtrace.run import RecordedSegment, RecordedTask, Run

Arrivals = Literal['poisson', 'recorded']
"""When tasks come: a Poisson process, or at the recorded moments."""

NOT_SUCCEEDED = 'did not succeed'
NOT_WHOLE = 'tokens or times of a segment are not in the trace'
NO_UTILITY = 'its time utility is none'


@dataclass(frozen=True, slots=True)
class TaskPool:
    """Recorded tasks from which workloads are composed.

    Attributes:
        tasks: Those that succeeded; each came ``at_s`` after the first run began, the runs being
            put one after another (s).
        groups: Their time utilities by the name of the group.
        robots: The most robots that one run had tasks for.
        duration_s: Of all runs together (s).
        left_out: Tasks that are not used, by the reason.
    """

    tasks: tuple[WorkloadTask, ...]
    groups: Mapping[str, TimeUtility]
    robots: int
    duration_s: float
    left_out: Mapping[str, int]

    @property
    def kinds(self) -> dict[str, int]:
        """How many tasks there are of each kind, by name in order."""
        return dict(sorted(Counter(task.kind for task in self.tasks).items()))


@dataclass(frozen=True, slots=True)
class RecordedSpec:
    """From what a workload is composed.

    Attributes:
        arrivals: When tasks come.
        robots: How many robots the fleet has; None for as many as were recorded.
        duration_s: Tasks come within this time (s); None for the recorded time.
        events_per_s: Rate of the Poisson process; None for as many tasks per robot and second as
            were recorded.
        most_tasks_per_event: An event brings 1 to this many tasks, evenly.
        mix: Weight of each kind of task; None for the recorded tasks, each as likely, and with
            recorded arrivals each at its moment.

    Raises:
        ConfigurationError: A value is out of range, or the rate of recorded arrivals is given.
    """

    arrivals: Arrivals = 'poisson'
    robots: int | None = None
    duration_s: float | None = None
    events_per_s: float | None = None
    most_tasks_per_event: int = 1
    mix: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.arrivals not in ('poisson', 'recorded'):
            raise ConfigurationError(
                f'arrivals {self.arrivals!r}: expected one of poisson, recorded'
            )
        for label, value in (
            ('robots', self.robots),
            ('duration_s', self.duration_s),
            ('events_per_s', self.events_per_s),
            ('most_tasks_per_event', self.most_tasks_per_event),
        ):
            if value is not None and not 0 < value < float('inf'):
                raise ConfigurationError(f'{label} {value!r}: expected a finite number > 0')
        if self.arrivals == 'recorded' and self.events_per_s is not None:
            raise ConfigurationError(
                f'events_per_s {self.events_per_s!r}: expected none with recorded arrivals'
            )
        if self.arrivals == 'recorded' and self.most_tasks_per_event != 1:
            raise ConfigurationError(
                f'most_tasks_per_event {self.most_tasks_per_event!r}: expected none with '
                'recorded arrivals'
            )
        for kind, weight in (self.mix or {}).items():
            if not 0 <= weight < float('inf'):
                raise ConfigurationError(
                    f'mix: {kind!r} {weight!r}: expected a finite weight of at least 0'
                )
        if self.mix is not None and not sum(self.mix.values()) > 0:
            raise ConfigurationError(f'mix {dict(self.mix)!r}: expected a weight above 0')


def task_pool(runs: Sequence[Run]) -> TaskPool:
    """Return the tasks of runs from which workloads can be composed.

    Raises:
        ConfigurationError: No task of them can be used.
    """
    tasks: list[WorkloadTask] = []
    groups: dict[str, TimeUtility] = {}
    left_out: Counter[str] = Counter()
    begin_s = 0.0
    for run in runs:
        for task in run.tasks:
            try:
                usable = _workload_task(task, begin_s, groups)
            except _LeftOutError as err:
                left_out[str(err)] += 1
            else:
                tasks.append(usable)
        begin_s += run.duration_s
    if not tasks:
        reasons = ', '.join(f'{count} of which {reason}' for reason, count in left_out.items())
        raise ConfigurationError(
            f'{left_out.total()} recorded tasks{f" ({reasons})" if reasons else ""}: expected one '
            'at least that succeeded and is recorded whole'
        )
    return TaskPool(
        tuple(tasks),
        dict(sorted(groups.items())),
        max(len(run.robots) for run in runs),
        begin_s,
        dict(left_out),
    )


def compose_recorded(
    recorded: TaskPool, spec: RecordedSpec, *, seed: int, name: str = 'recorded'
) -> Workload:
    """Compose a workload; equal arguments give the same one on every machine.

    The order of the recorded tasks matters for recorded arrivals only.

    Raises:
        ConfigurationError: The mix names a kind that was not recorded, or the workload would be
            too large or without a single task.
    """
    rng = random.Random(f'recorded:{seed}')
    robots = spec.robots if spec.robots is not None else recorded.robots
    duration_s = spec.duration_s if spec.duration_s is not None else recorded.duration_s
    drawn = _Draw(recorded, spec.mix, rng)
    if spec.arrivals == 'recorded':
        in_time = [task for task in recorded.tasks if task.at_s <= duration_s]
        in_time.sort(key=lambda task: task.at_s)
        tasks = [task if spec.mix is None else drawn.task(task.at_s) for task in in_time]
    else:
        events_per_s = spec.events_per_s
        per_event = (1 + spec.most_tasks_per_event) / 2
        if events_per_s is None:
            events_per_s = _recorded_rate(recorded) * robots / recorded.robots / per_event
        if events_per_s * duration_s * per_event > MAX_TASKS / 2:
            raise ConfigurationError(
                f'{events_per_s:g} events per s for {duration_s:g} s: expected fewer than '
                f'{MAX_TASKS // 2} tasks'
            )
        tasks = []
        at_s = rng.expovariate(events_per_s)
        while at_s <= duration_s:
            for _ in range(rng.randint(1, spec.most_tasks_per_event)):
                tasks.append(drawn.task(round(at_s, 6)))
            at_s += rng.expovariate(events_per_s)
    if not tasks:
        raise ConfigurationError(
            f'duration_s {duration_s:g}: no task comes within it: expected a longer one'
        )
    used = {task.group for task in tasks}
    groups = {group: utility for group, utility in recorded.groups.items() if group in used}
    return Workload(name, robots, groups, tuple(tasks), seed)


class _Draw:
    """Draws recorded tasks by a mix of kinds."""

    def __init__(
        self, recorded: TaskPool, mix: Mapping[str, float] | None, rng: random.Random
    ) -> None:
        kinds = recorded.kinds
        for kind in mix or {}:
            if kind not in kinds:
                raise ConfigurationError(
                    f'mix: kind {kind!r}: expected one of those recorded: {", ".join(kinds)}'
                )
        weights = {kind: float(kinds[kind] if mix is None else mix.get(kind, 0)) for kind in kinds}
        self._rng = rng
        self._kinds = [kind for kind, weight in weights.items() if weight > 0]
        self._sums = list(accumulate(weights[kind] for kind in self._kinds))
        # By content, so that it does not matter in which order the traces were named.
        ordered = sorted(recorded.tasks, key=_content)
        self._of_kind = {
            kind: [task for task in ordered if task.kind == kind] for kind in self._kinds
        }

    def task(self, at_s: float) -> WorkloadTask:
        place = self._rng.random() * self._sums[-1]
        index = min(bisect_right(self._sums, place), len(self._kinds) - 1)
        return replace(self._rng.choice(self._of_kind[self._kinds[index]]), at_s=at_s)


class _LeftOutError(Exception):
    """A task cannot be used; the text says why."""


def _workload_task(
    task: RecordedTask, begin_s: float, groups: dict[str, TimeUtility]
) -> WorkloadTask:
    if not task.succeeded:
        raise _LeftOutError(NOT_SUCCEEDED)
    if list(task.segments) and sorted(task.segments) != list(range(len(task.segments))):
        raise _LeftOutError(NOT_WHOLE)
    shapes = tuple(_shape(segment) for segment in task.ordered_segments)
    if not shapes:
        raise _LeftOutError(NOT_WHOLE)
    try:
        utility = TimeUtility(task.expected_response_s, task.slope_per_s, task.peak)
    except InvalidTaskError:
        raise _LeftOutError(NO_UTILITY) from None
    group = _group(utility)
    groups[group] = utility
    return WorkloadTask(round(begin_s + task.received_s, 6), task.kind, group, shapes)


def _shape(segment: RecordedSegment) -> SegmentShape:
    execution_s = segment.execution_s
    if execution_s is None and segment.started_s is not None and segment.ended_s is not None:
        execution_s = segment.ended_s - segment.started_s
    if execution_s is None or execution_s < 0 or segment.tokens < 1:
        raise _LeftOutError(NOT_WHOLE)
    return SegmentShape(segment.tokens, round(execution_s, 6))


def _group(utility: TimeUtility) -> str:
    if utility == NORMAL:
        return 'normal'
    if utility == URGENT:
        return 'urgent'
    return f'{utility.expected_response_s!r} s, {utility.slope_per_s!r} per s, {utility.peak!r}'


def _content(task: WorkloadTask) -> tuple[object, ...]:
    shapes = tuple((shape.tokens, shape.execution_s) for shape in task.segments)
    return (task.kind, task.group, shapes)


def _recorded_rate(recorded: TaskPool) -> float:
    """Return how many tasks came per second."""
    if recorded.duration_s <= 0:
        raise ConfigurationError(
            f'recorded time {recorded.duration_s:g} s: expected more than 0, or to be told a rate'
        )
    return len(recorded.tasks) / recorded.duration_s
