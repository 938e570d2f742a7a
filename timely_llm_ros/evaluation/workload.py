"""Workloads: which tasks reach a fleet when, and what each of them costs.

A workload is data: anything that can serve tasks can be driven with it. :func:`compose` draws one
from a :class:`WorkloadSpec` as TimelyLLM's LRTrace does: events arrive as a Poisson process, each
of them is a burst of tasks, and each task is of a kind drawn evenly from those given.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.paper_tasks import PROFILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.utility import TimeUtility


@dataclass(frozen=True, slots=True)
class SegmentShape:
    """One segment of a plan, without its words.

    Attributes:
        tokens: How many the engine generates for it, at least 1.
        execution_s: How long the robot takes for it (s).
    """

    tokens: int
    execution_s: float


@dataclass(frozen=True, slots=True)
class WorkloadTask:
    """One task of a workload.

    Attributes:
        at_s: When it comes, after the workload's begin (s).
        kind: Name of its kind.
        group: Under which its utility is averaged; names one of ``Workload.groups``.
        segments: Its plan.
    """

    at_s: float
    kind: str
    group: str
    segments: tuple[SegmentShape, ...]

    @property
    def tokens(self) -> int:
        """Tokens of its plan."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def execution_s(self) -> float:
        """Execution time of its plan (s)."""
        return sum(segment.execution_s for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Workload:
    """Tasks for a fleet, in the order in which they come.

    Attributes:
        name: What tables call it.
        robots: How many robots the fleet has.
        groups: The time utility of each group of tasks.
        tasks: The tasks.
        seed: What it was drawn from; None if it was not drawn.
    """

    name: str
    robots: int
    groups: Mapping[str, TimeUtility]
    tasks: tuple[WorkloadTask, ...]
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """From what a workload is drawn (TimelyLLM, Table 3).

    Attributes:
        name: What tables call it.
        events_per_s: Rate of the Poisson process of events.
        most_tasks_per_event: An event brings 1 to this many tasks, evenly.
        kinds: Numbers of the kinds that a task may have, evenly.
        robots: How many robots the fleet has.
        duration_s: Events come within this time (s).

    Raises:
        ConfigurationError: A value is out of range.
    """

    name: str
    events_per_s: float
    most_tasks_per_event: int
    kinds: tuple[int, ...]
    robots: int
    duration_s: float

    def __post_init__(self) -> None:
        for label, value in (
            ('events_per_s', self.events_per_s),
            ('most_tasks_per_event', self.most_tasks_per_event),
            ('robots', self.robots),
            ('duration_s', self.duration_s),
        ):
            if not 0 < value < float('inf'):
                raise ConfigurationError(f'{label} {value!r}: expected a finite number > 0')
        unknown = [kind for kind in self.kinds if kind not in PROFILES]
        if unknown or not self.kinds:
            raise ConfigurationError(
                f'kinds {unknown or "()"}: expected one or more of 1 to {len(PROFILES)}'
            )


def fleet_spec(robots: int, duration_s: float) -> WorkloadSpec:
    """Return a fleet's load: for each robot as many tasks as in ``wid1``, in bursts like its.

    Args:
        robots: How many robots the fleet has.
        duration_s: Tasks come within this time (s).

    Raises:
        ConfigurationError: A value is out of range.
    """
    wid1 = WORKLOADS['wid1']
    share = robots / wid1.robots
    return replace(
        wid1,
        name=f'fleet of {robots}',
        events_per_s=share * wid1.events_per_s,
        robots=robots,
        duration_s=duration_s,
    )


_DRONE_KINDS = tuple(range(1, 9))

WORKLOADS: Mapping[str, WorkloadSpec] = {
    spec.name: spec
    for spec in (
        WorkloadSpec('wid1', 0.25, 8, _DRONE_KINDS, 25, 260.0),
        WorkloadSpec('wid2', 0.25, 16, _DRONE_KINDS, 42, 300.0),
        WorkloadSpec('wid3', 0.1, 8, (9, 10, 11), 40, 900.0),
    )
}
"""TimelyLLM's workloads: drones at low and at high load, and arms."""


def compose(spec: WorkloadSpec, seed: int) -> Workload:
    """Draw a workload; the same seed gives the same one on every machine."""
    rng = random.Random(f'{spec.name}:{seed}')
    tasks: list[WorkloadTask] = []
    at_s = rng.expovariate(spec.events_per_s)
    while at_s <= spec.duration_s:
        for _ in range(rng.randint(1, spec.most_tasks_per_event)):
            profile = PROFILES[rng.choice(spec.kinds)]
            segments = tuple(
                SegmentShape(tokens, round(rng.uniform(profile.shortest_s, profile.longest_s), 3))
                for tokens in profile.segment_tokens
            )
            tasks.append(WorkloadTask(round(at_s, 6), profile.name, profile.group, segments))
        at_s += rng.expovariate(spec.events_per_s)
    groups = {PROFILES[kind].group: PROFILES[kind].utility for kind in spec.kinds}
    return Workload(spec.name, spec.robots, groups, tuple(tasks), seed)
