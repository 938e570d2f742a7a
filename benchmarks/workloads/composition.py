"""Draws the workloads of TimelyLLM's LRTrace.

Events arrive as a Poisson process, each of them is a burst of tasks, and each task is of a kind
drawn evenly from those given.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.workloads.paper_tasks import PROFILES
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation import SegmentShape, Workload, WorkloadTask

if TYPE_CHECKING:
    from collections.abc import Mapping


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
