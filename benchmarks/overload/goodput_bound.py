"""What no schedule can earn more than, even one that knows what will come and may refuse.

A linear program, so more is granted than a schedule has:

* A prompt may be computed in parts, at any times in its task's window, each part worth its share
  of the utility that the response has if the rest of the prompt takes no time. Whoever earns has
  the last part no later than the first token's step, and each further token takes a step that
  lasts as long as one alone.
* A token costs what a row of a full step does, wherever it is in one. First segments of those
  whose windows end by some moment have their tokens by then, and no token comes before its task.
* Plans need not have ended when the last window ends; as many may be left as there are robots,
  with as much left as the longest has. A robot is busy for as long as its plans take, but for one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from benchmarks.workloads import NETWORK_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.simulated import StepTimeModel
    from timely_llm_ros.evaluation import Workload, WorkloadTask
    from timely_llm_ros.utility import TimeUtility

SLOT_S = 0.05
"""Within it a prompt's parts count as if they were computed at its begin."""

CHECKED_EVERY = 4
"""After how many slots it is checked that tokens are neither late nor too early."""


def greatest_goodput(
    workload: Workload, times: StepTimeModel, max_running: int, *, slot_s: float = SLOT_S
) -> float:
    """Return a bound on the sum of the positive utilities of executed plans.

    A response counts from when its task came. Costs that ``times`` has for KV, for prompt tokens
    and for waiting generations are left out, but for the one that begins.

    Raises:
        ValueError: A utility does not fall, so that its window has no end.
    """
    tasks = workload.tasks
    if not tasks:
        return 0.0
    utilities = [workload.groups[task.group] for task in tasks]
    if not all(utility.slope_per_s for utility in utilities):
        raise ValueError('utility slope 0 per s: expected one below 0')
    token_s = times.decode_s * (1 + times.batch_factor * (max_running - 1)) / max_running
    begin_s = times.prefill_s + times.schedule_s + times.schedule_waiting_s
    windows = [
        _values(task, utility, times, begin_s, slot_s)
        for task, utility in zip(tasks, utilities, strict=True)
    ]
    counts = [len(values) for _, values in windows]
    parts = sum(counts)
    due = np.array(
        [
            math.ceil((task.at_s + worthless_after_s(utility) - NETWORK_S) / slot_s)
            for task, utility in zip(tasks, utilities, strict=True)
        ]
    )
    slots = int(due.max())
    of_task = np.repeat(np.arange(len(tasks)), counts)
    of_slot = np.concatenate([first + np.arange(len(values)) for first, values in windows])
    worth = np.concatenate([values for _, values in windows])
    # The variables: each task's parts in its slots, then the tokens' time in each slot.
    rows = _Rows(parts + slots)
    part, token = np.arange(parts), parts + np.arange(slots)
    for number in range(len(tasks)):
        rows.add(part[of_task == number], 1.0, 1.0)
    order = np.argsort(of_slot, kind='stable')
    starts = np.searchsorted(of_slot[order], np.arange(slots + 1))
    for slot in range(slots):
        inside = part[order[starts[slot] : starts[slot + 1]]]
        rows.add([*inside, token[slot]], [*[begin_s] * len(inside), 1.0], slot_s)
    first_s = token_s * np.array([task.segments[0].tokens for task in tasks])
    plan_s = token_s * np.array([task.tokens for task in tasks])
    begins = np.array([first for first, _ in windows])
    for moment in range(CHECKED_EVERY, slots, CHECKED_EVERY):
        late, came = (due <= moment)[of_task], (begins < moment)[of_task]
        rows.add([*part[late], *token[:moment]], [*first_s[of_task[late]], *[-1.0] * moment], 0.0)
        rows.add([*token[:moment], *part[came]], [*[1.0] * moment, *-plan_s[of_task[came]]], 0.0)
    left_s = workload.robots * float((plan_s - first_s).max())
    rows.add([*part, *token], [*plan_s[of_task], *[-1.0] * slots], left_s)
    busy_s = np.array([task.execution_s for task in tasks])
    rows.add(part, busy_s[of_task], workload.robots * (slots * slot_s + float(busy_s.max())))
    matrix, limits = rows.matrix()
    found = linprog(
        -np.concatenate([worth, np.zeros(slots)]), A_ub=matrix, b_ub=limits, method='highs'
    )
    if not found.success:
        raise ValueError(f'bound of {len(tasks)} tasks: {found.message}')
    return float(-found.fun)


def _values(
    task: WorkloadTask,
    utility: TimeUtility,
    times: StepTimeModel,
    begin_s: float,
    slot_s: float,
) -> tuple[int, np.ndarray]:
    """Return the first slot of a task's window, and what a prompt in each slot may be worth."""
    steps_s = task.segments[0].tokens * times.decode_s + NETWORK_S
    first, values = int(task.at_s / slot_s), list[float]()
    while True:
        prompt_s = max((first + len(values)) * slot_s - task.at_s, begin_s)
        value = utility.first(prompt_s + steps_s)
        if value <= 0:
            return first, np.array(values)
        values.append(value)


def worthless_after_s(utility: TimeUtility) -> float:
    """Return the waiting time (s) from which an answer earns nothing."""
    return replace(utility, floor=0.0).worthless_after_s


class _Rows:
    """Rows of inequalities, ``sum of factors times variables <= limit``."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._columns: list[np.ndarray] = []
        self._factors: list[np.ndarray] = []
        self._limits: list[float] = []

    def add(self, columns: Sequence[int] | np.ndarray, factors: object, limit: float) -> None:
        self._columns.append(np.asarray(columns, dtype=np.int64))
        self._factors.append(np.broadcast_to(np.asarray(factors, float), len(columns)))
        self._limits.append(limit)

    def matrix(self) -> tuple[coo_array, np.ndarray]:
        lines = np.repeat(np.arange(len(self._columns)), [len(one) for one in self._columns])
        values, columns = np.concatenate(self._factors), np.concatenate(self._columns)
        shape = len(self._columns), self._width
        return coo_array((values, (lines, columns)), shape=shape), np.array(self._limits)
