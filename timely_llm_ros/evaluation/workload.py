"""Workloads: which tasks reach a fleet when, and what each of them costs.

A workload is data that anything that serves tasks can be driven with. ``timely-llm compose`` makes
one from recorded traces; ``benchmarks/workloads`` draws those of the papers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.utility import TimeUtility

FORMAT = 'timely-workload'
"""Value of a file's ``format`` key."""

VERSION = 1
"""Value of a file's ``version`` key."""

MAX_TASKS = 1_000_000
"""A file with more tasks is refused."""


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


def dumps(workload: Workload) -> str:
    """Return a workload as JSON, which is YAML too: one line per task."""
    head = {
        'format': FORMAT,
        'version': VERSION,
        'name': workload.name,
        'seed': workload.seed,
        'robots': workload.robots,
        'groups': {
            name: [utility.expected_response_s, utility.slope_per_s, utility.peak]
            for name, utility in workload.groups.items()
        },
    }
    lines = [f'{json.dumps(key)}: {json.dumps(value)},' for key, value in head.items()]
    tasks = [
        json.dumps(
            {
                'at_s': task.at_s,
                'kind': task.kind,
                'group': task.group,
                'segments': [[shape.tokens, shape.execution_s] for shape in task.segments],
            }
        )
        for task in workload.tasks
    ]
    body = ',\n  '.join(tasks)
    return '{\n' + '\n'.join(lines) + f'\n"tasks": [\n  {body}\n]\n}}\n'
