"""The suites' tasks as a fleet's load: when they come, their plans' lengths and what they take."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.timelyllm import LOOKAHEAD, PAPER, Summary, mean, summarise
from benchmarks.workloads import System, check_all_succeeded, run_workload
from timely_llm_ros.evaluation import SegmentShape, Workload, WorkloadTask
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from timely_llm_ros.evaluation.suites import SuiteTask
    from timely_llm_ros.skills import Call, SkillSet

URGENT_SHARE = 0.25
"""The suites know no urgency; this share of the tasks, drawn, has that of a robot in danger."""

MOST_TASKS = 8
"""An event brings 1 to so many tasks, evenly, as in TimelyLLM's WID1."""

CAPS = (4, 6, 8, 12, 16, 24, 32)
OURS = 'least_loss, lookahead'
AT_MOST = ', at most '
"""Joins a way's name and its largest batch."""

OTHERS = ('fcfs', 'edf', 'utility')


@dataclass(frozen=True, slots=True)
class Shape:
    """What a right plan costs.

    Attributes:
        suite: Whose task it is.
        tokens: For each statement, how many a model writes for it.
        calls: For each statement, what the robot does.
        task: The task.
        skill_set: The robot's.
    """

    suite: str
    tokens: tuple[int, ...]
    calls: tuple[Call, ...]
    task: SuiteTask
    skill_set: SkillSet

    def drawn(self, rng: random.Random) -> tuple[SegmentShape, ...]:
        """Return its segments with execution times drawn from the skills' durations."""
        skills = self.skill_set.skills
        return tuple(
            SegmentShape(
                tokens, round(skills[it.skill].duration.sample_s(it, self.task.scene, rng), 3)
            )
            for tokens, it in zip(self.tokens, self.calls, strict=True)
        )


def compose(
    shapes: Sequence[Shape], tasks_per_s: float, robots: int, duration_s: float, seed: int
) -> Workload:
    """Draw a load: bursts in a Poisson process, each task one of the suites', each as likely."""
    rng = random.Random(f'suites:{tasks_per_s}:{seed}')
    events_per_s = tasks_per_s * 2 / (1 + MOST_TASKS)
    tasks: list[WorkloadTask] = []
    at_s = rng.expovariate(events_per_s)
    while at_s <= duration_s:
        for _ in range(rng.randint(1, MOST_TASKS)):
            shape = rng.choice(shapes)
            group = 'urgent' if rng.random() < URGENT_SHARE else 'normal'
            tasks.append(WorkloadTask(round(at_s, 6), shape.suite, group, shape.drawn(rng)))
        at_s += rng.expovariate(events_per_s)
    groups = {'normal': NORMAL, 'urgent': URGENT}
    return Workload(f'suites at {tasks_per_s:g}/s', robots, groups, tuple(tasks), seed)


def systems(caps: Iterable[int] = CAPS) -> list[System]:
    """Return what is compared: ours, and each other policy at each largest batch.

    The others are scheduled as TimelyLLM describes it. The policy ``utility`` also has our options
    in their place, which make no difference to ``fcfs`` and ``edf``.
    """
    ours = replace(LOOKAHEAD, admission='fixed')
    ways = [(policy, policy, PAPER) for policy in OTHERS]
    ways.append(('utility', 'utility, our options', ours))
    return [System(OURS, policy='least_loss', max_running=32, scheduling=LOOKAHEAD)] + [
        System(f'{name}{AT_MOST}{cap}', policy=policy, max_running=cap, scheduling=options)
        for policy, name, options in ways
        for cap in caps
    ]


def serve(system: System, workloads: Iterable[Workload], hardware: str) -> Summary:
    """Return how a system serves several draws, each weighing the same."""
    found = []
    for workload in workloads:
        records = run_workload(workload, system, hardware=hardware)
        check_all_succeeded(records)
        found.append(summarise(records, workload.groups))
    return mean(found)


def best_of(utilities: Mapping[str, float]) -> list[str]:
    """Return each way's system at the largest batch with which it earns most."""
    best: dict[str, str] = {}
    for name, utility in utilities.items():
        way = name.partition(AT_MOST)[0]
        if way not in best or utility > utilities[best[way]]:
            best[way] = name
    return list(best.values())


def describe(shapes: Sequence[Shape]) -> dict[str, float]:
    """Return how long plans are and how long they take."""
    rng = random.Random(0)
    execution_s = [sum(it.execution_s for it in shape.drawn(rng)) for shape in shapes]
    return {
        'tasks': len(shapes),
        'mean_actions': statistics.fmean(len(shape.calls) for shape in shapes),
        'mean_tokens': statistics.fmean(sum(shape.tokens) for shape in shapes),
        'most_tokens': max(sum(shape.tokens) for shape in shapes),
        'mean_execution_s': statistics.fmean(execution_s),
    }
