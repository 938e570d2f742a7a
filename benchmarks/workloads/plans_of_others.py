"""The right plans of VirtualHome and BEHAVIOR as a fleet's load: lengths, times, when they come."""

from __future__ import annotations

import random
import statistics
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from timely_llm_ros.engines.texts import load_texts
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import PlanError
from timely_llm_ros.evaluation import SegmentShape, Workload, WorkloadTask
from timely_llm_ros.evaluation.suites import SUITES, SuiteArchives, constrained_tokens, suite_folder
from timely_llm_ros.skills import Call, parse
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.texts import TokenCodec
    from timely_llm_ros.evaluation.suites import Suite, SuiteTask
    from timely_llm_ros.skills import SkillSet, Statement

ROBOTS = 150

OF_OTHERS = ('virtualhome', 'behavior')
"""The suites whose right plans somebody else wrote."""

URGENT_SHARE = 0.25
"""The suites know no urgency; this share of the tasks, drawn, has that of a robot in danger."""

MOST_TASKS = 8
"""An event brings 1 to so many tasks, evenly, as in TimelyLLM's WID1."""

EVENTS_PER_TASK = 2 / (1 + MOST_TASKS)


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


def shape_of(
    suite: Suite,
    task: SuiteTask,
    statements: Sequence[Statement],
    texts: TokenCodec,
    ids: Sequence[int],
) -> Shape:
    """Return what a task's right plan costs that is written in these tokens."""
    calls = (it for it in statements if isinstance(it, Call))
    ends = [place for place, token in enumerate(ids, 1) if b';' in texts.bytes_of(token)]
    tokens = tuple(end - begun for begun, end in zip([0, *ends], ends, strict=False))
    return Shape(suite.name, tokens, tuple(calls), task, suite.skill_set)


@cache
def shapes_of_others() -> tuple[Shape, ...]:
    """Return what every right plan of others costs; it takes a minute to write them in tokens.

    Raises:
        ConfigurationError: The suites are not there.
    """
    archives, texts = SuiteArchives(suite_folder()), load_texts(find_model(''))
    found = []
    for name in OF_OTHERS:
        suite = SUITES[name](archives)
        for task in map(suite.task, track(suite.names(), name, console=Console(stderr=True))):
            with suppress(PlanError):
                statements = parse(task.gold, suite.skill_set, task.scene)
                ids = constrained_tokens(texts, task, suite.skill_set) or texts.encode(task.gold)
                found.append(shape_of(suite, task, statements, texts, ids))
    return tuple(found)


def compose_of_others(
    shapes: Sequence[Shape], tasks_per_s: float, robots: int, duration_s: float, seed: int
) -> Workload:
    """Draw a load: bursts in a Poisson process, each task one of the suites', each as likely."""
    rng = random.Random(f'suites:{tasks_per_s}:{seed}')
    events_per_s = tasks_per_s * EVENTS_PER_TASK
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


def describe_plans(shapes: Sequence[Shape]) -> dict[str, float]:
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
