"""The best that any schedule could make of tasks that come in bursts, by exact search.

What is left to a schedule is when to compute which prompt. A step takes ``decode_s``, longer by
``batch_factor`` for each further one in it, plus ``prefill_s`` for each prompt in it, for all that
are under way; choosing one takes the longer the more it is chosen from. First segments have
equally many tokens and a response is worth the less the later it comes, by ever more, so whoever
came first is best begun first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.workloads import NETWORK_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from timely_llm_ros.engines.simulated import StepTimeModel

MOST_TOGETHER = 14
"""Tasks that are searched together; the search grows with about the fourth power."""

APART_S = 0.8
"""Bursts further apart than this (s) are searched apart."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Tasks that come together.

    Attributes:
        at_s: When they come (s).
        count: How many of them count.
        others: How many come with them and do not, but are chosen from.
    """

    at_s: float
    count: int
    others: int = 0


def clusters(bursts: Iterable[Burst]) -> list[tuple[Burst, ...]]:
    """Return the bursts in groups to search together.

    Any partition gives a bound: each group is granted an engine of its own.
    """
    found: list[list[Burst]] = []
    for burst in sorted(bursts, key=lambda item: item.at_s):
        near = bool(found) and burst.at_s - found[-1][-1].at_s <= APART_S
        if near and sum(item.count for item in found[-1]) + burst.count <= MOST_TOGETHER:
            found[-1].append(burst)
        else:
            found.append([burst])
    return [tuple(group) for group in found]


def best_value(
    bursts: Sequence[Burst], tokens: int, times: StepTimeModel, value: Callable[[float], float]
) -> float:
    """Return the greatest sum of values of the response times of all that count.

    Args:
        bursts: In the order in which they come.
        tokens: Tokens of each task's first segment.
        times: How long steps take; must cost a prompt more than choosing from ``others`` more.
        value: What a response time (s) is worth; must fall with it, never less steeply.
    """
    came_s = [burst.at_s for burst in bursts for _ in range(burst.count)]
    count = len(came_s)
    choosing_s = [0.0]
    for burst in bursts:
        for waiting in range(burst.count + burst.others, burst.others, -1):
            added_s = times.schedule_s + times.schedule_waiting_s * waiting
            choosing_s.append(choosing_s[-1] + added_s)
    # By tokens generated, then by (begun, tasks with 1, 2, ... tokens left): (now, value so far).
    states: dict[int, dict[tuple[int, ...], list[tuple[float, float]]]]
    states = defaultdict(lambda: defaultdict(list))
    states[0][(0,) * tokens] = [(0.0, 0.0)]
    best = 0.0 if not count else -float('inf')
    for generated in range(count * tokens + 1):
        for (begun, *left), found in states.pop(generated, {}).items():
            front = _front(found)
            for now_s, worth in front:
                if begun == count and not any(left):
                    best = max(best, worth)
                    continue
                later = [at_s for at_s in came_s[begun:] if at_s > now_s]
                if later and not any(left):
                    # It may be better to idle: a step cannot be interrupted.
                    front.append((later[0], worth))
                ready = sum(at_s <= now_s + 1e-12 for at_s in came_s[begun:])
                for beginning in range(0 if any(left) else 1, ready + 1):
                    line = (*left, beginning)
                    batch, after = sum(line), begun + beginning
                    end_s = now_s + times.decode_s * (1 + times.batch_factor * (batch - 1))
                    end_s += times.prefill_s * beginning + choosing_s[after] - choosing_s[begun]
                    ended = after - sum(line[1:])
                    gained = sum(
                        value(end_s + NETWORK_S - came_s[number])
                        for number in range(ended - line[0], ended)
                    )
                    states[generated + batch][after, *line[1:]].append((end_s, worth + gained))
    return best


def _front(found: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return those that are neither later nor worth less than another."""
    front: list[tuple[float, float]] = []
    for now_s, worth in sorted(found, key=lambda item: (item[0], -item[1])):
        if not front or worth > front[-1][1]:
            front.append((now_s, worth))
    return front
