"""What robots cannot earn more than with the tasks that named them, whatever the engine does.

In a fleet whose robots are the bottleneck the linear program of ``goodput_bound`` grants that a
robot does parts of plans. Here each robot does whole ones, one after the other, each chosen with
knowledge of what will come; the engine has every first segment as soon as one alone can have it.
Which robot a task names depends on how those before it were served, so this bound belongs to a run.

A plan that takes its robot for less long than its task has to begin is granted in any case.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from benchmarks.overload.goodput_bound import worthless_after_s
from benchmarks.workloads import NETWORK_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from timely_llm_ros.engines.simulated import StepTimeModel
    from timely_llm_ros.evaluation import WorkloadTask
    from timely_llm_ros.utility import TimeUtility

GRID_S = 0.02
"""A plan that begins within it is worth what it would be at its begin, and ends so much earlier."""


def greatest_named(
    tasks: Iterable[tuple[str, WorkloadTask]],
    utilities: Mapping[str, TimeUtility],
    times: StepTimeModel,
    *,
    grid_s: float = GRID_S,
) -> float:
    """Return a bound on the sum of the positive utilities of executed plans.

    ``tasks`` are tasks with the robots that they name; ``utilities`` are those of their groups. A
    response counts from when its task came.
    """
    of_robot = defaultdict(list)
    for robot, task in tasks:
        of_robot[robot].append(task)
    return sum(_of_robot(found, utilities, times, grid_s) for found in of_robot.values())


def _of_robot(
    tasks: Sequence[WorkloadTask],
    utilities: Mapping[str, TimeUtility],
    times: StepTimeModel,
    grid_s: float,
) -> float:
    granted, ends = 0.0, 0
    begins = defaultdict(list)
    for task in tasks:
        utility = utilities[task.group]
        alone_s = times.prefill_s + task.segments[0].tokens * times.decode_s + NETWORK_S
        window_s = worthless_after_s(utility)
        if task.execution_s < window_s - alone_s + grid_s:
            granted += max(0.0, utility.first(alone_s))
            continue
        first, last = (math.floor((task.at_s + s) / grid_s) for s in (alone_s, window_s))
        for place in range(first, last + 1):
            value = utility.first(max(alone_s, place * grid_s - task.at_s))
            if value > 0:
                begins[place].append((value, math.floor(task.execution_s / grid_s)))
                ends = max(ends, place)
    # What can be earned from each place of the grid on; a plan is over within one place of its end.
    most = [0.0] * (ends + 2)
    for place in range(ends, -1, -1):
        most[place] = most[place + 1]
        for value, length in begins.get(place, ()):
            most[place] = max(most[place], value + most[min(place + length, ends + 1)])
    return granted + most[0]
