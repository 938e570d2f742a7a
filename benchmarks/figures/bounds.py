"""What no schedule can exceed on the simulated engine, whatever it knows.

Everything that helps is granted: the engine is free when an event comes, nothing else is served
until that event's tasks have their first segments, a step takes no longer for a larger batch, and
choosing costs nothing. What is left is the choice when to compute which prompt: a step takes
``decode_s`` plus ``prefill_s`` for each prompt in it, for all that are under way. A programme over
all such choices gives the best value of ``n`` tasks that come together and have first segments of
equally many tokens.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from lrtrace.experiment import NETWORK_S
from lrtrace.workload import WORKLOADS, Workload, compose
from timely_llm_ros.engines.step_time import StepTimeModel, find_hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def best_value(
    count: int, tokens: int, times: StepTimeModel, value: Callable[[float], float]
) -> float:
    """Return the greatest sum of values of the response times of tasks that come together.

    Args:
        count: How many tasks.
        tokens: Tokens of each one's first segment.
        times: How long steps take; growth with the batch is ignored.
        value: What a response time (s) is worth; must not grow with it.
    """

    @cache
    def best(step: int, begun: int, under_way: tuple[int, ...]) -> float:
        """Value still to come; ``under_way[i]`` tasks have ``i + 1`` tokens left to the step."""
        if begun == count and not any(under_way):
            return 0.0
        least = 0 if any(under_way) else 1
        found = -float('inf')
        for beginning in range(least, count - begun + 1):
            end_s = (step + 1) * times.decode_s + (begun + beginning) * times.prefill_s
            line = (*under_way, beginning)
            finished = line[0]
            later = best(step + 1, begun + beginning, line[1:])
            found = max(found, (finished * value(end_s + NETWORK_S) if finished else 0.0) + later)
        return found

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    return best(0, 0, (0,) * (tokens - 1))


def greatest_utility(workload: str, hardware: str, seeds: Iterable[int]) -> float:
    """Return the greatest mean utility: urgent tasks at their best, all others at their peak."""
    times = find_hardware(hardware).step_time
    values: dict[tuple[int, int], float] = {}
    means = []
    for seed in seeds:
        drawn = compose(WORKLOADS[workload], seed)
        utilities = drawn.groups
        total = sum(utilities[task.group].peak for task in drawn.tasks if task.group != 'urgent')
        for count, tokens in bursts(drawn, 'urgent'):
            key = count, tokens
            if key not in values:
                values[key] = best_value(count, tokens, times, utilities['urgent'].first)
            total += values[key]
        means.append(total / len(drawn.tasks))
    return sum(means) / len(means)


def least_waiting_s(workload: str, hardware: str, seeds: Iterable[int]) -> float:
    """Return the least mean waiting time (s) of a workload whose tasks are all of one group."""
    times = find_hardware(hardware).step_time
    values: dict[tuple[int, int], float] = {}
    means = []
    for seed in seeds:
        drawn = compose(WORKLOADS[workload], seed)
        (group,) = drawn.groups
        total = 0.0
        for key in bursts(drawn, group):
            if key not in values:
                values[key] = best_value(*key, times, lambda response_s: -response_s)
            total -= values[key]
        means.append(total / len(drawn.tasks))
    return sum(means) / len(means)


def bursts(drawn: Workload, group: str) -> list[tuple[int, int]]:
    """Return how many tasks of a group each event brings, and their first segments' tokens.

    Raises:
        ValueError: First segments of the group differ in length.
    """
    tokens = {task.segments[0].tokens for task in drawn.tasks if task.group == group}
    if len(tokens) != 1:
        raise ValueError(f'first segments of {group}: {sorted(tokens)}, expected one length')
    events: dict[float, int] = {}
    for task in drawn.tasks:
        if task.group == group:
            events[task.at_s] = events.get(task.at_s, 0) + 1
    return [(count, *tokens) for count in events.values()]
