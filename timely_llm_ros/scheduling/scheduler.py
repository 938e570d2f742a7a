"""Chooses, before every engine step, which generations run in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from timely_llm_ros.scheduling.admission import OVERDUE_LOSS_PER_S, Candidate
from timely_llm_ros.scheduling.generation import Phase
from timely_llm_ros.scheduling.policies import (
    PINNED_RANK,
    FirstComeFirstServed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.scheduling.admission import BatchLimit
    from timely_llm_ros.scheduling.generation import (
        FloatArray,
        GenerationRow,
        GenerationTable,
        IntArray,
        TableView,
    )
    from timely_llm_ros.scheduling.policies import Policy

ServingMode = Literal['segmented', 'stream', 'whole_plan']
"""How plans are served.

``segmented``: sent segment by segment; generations are suspended between segments and ranked by the
policy. ``stream``: sent segment by segment, first come first served; each generation runs to its
end. ``whole_plan``: as ``stream``, but the plan is sent only when it is complete.
"""

FEW = 32
"""Up to about so many generations plain Python is faster than numpy."""

_QUEUED, _RUNNING, _HELD = int(Phase.QUEUED), int(Phase.RUNNING), int(Phase.HELD)

_OVERDUE_RANK = 1e12
"""Above every rank that a policy gives; the wait (s) is added for those beyond the age bound."""


class Scheduler:
    """Ranks the table's generations and picks the next step's.

    In mode ``segmented`` every generation that is not held competes for every step. A segment in
    the making is interrupted only by a rank that is better by the policy's margin. In the other
    modes generations run first come first served and keep their place until they end, unless the
    policy ranks whole plans (``srpt``). What has ``PINNED_RANK`` is never interrupted.

    Args:
        table: The generations; ``select`` writes its ``rank`` column.
        policy: How they are ranked in mode ``segmented``; in every mode where it ranks plans.
        limit: How many run together.
        mode: The serving mode.
        interrupts: Whether a generation that the policy ranks may be interrupted.
        age_bound_s: A generation whose robot has waited longer than this (s) goes before all
            others, wherever the policy ranks; None for no bound.
        few: Up to so many generations are ranked without numpy; no result depends on it.
    """

    def __init__(
        self,
        table: GenerationTable,
        policy: Policy,
        limit: BatchLimit,
        *,
        mode: ServingMode = 'segmented',
        interrupts: bool = True,
        age_bound_s: float | None = None,
        few: int = FEW,
    ) -> None:
        self._table = table
        self._segmented = mode == 'segmented'
        ranks = self._segmented or policy.ranks_plans
        self._policy = policy if ranks else FirstComeFirstServed()
        self._limit = limit
        self._pins = policy.ranks_plans
        self._interrupts = ranks and interrupts
        self._age_bound_s = age_bound_s if ranks else None
        self._factor = 1.0 + self._policy.margin
        self._few = few

    def select(self, now_s: float) -> list[str]:
        """Return the ids of the generations to run next, best rank first."""
        if len(self._table) <= self._few:
            return self._select_few(now_s)
        return self._select_many(now_s)

    def _select_few(self, now_s: float) -> list[str]:
        table, rank_one, age_bound_s = self._table, self._policy.rank_one, self._age_bound_s
        rows = table.rows()
        ranks: list[float] = []
        order: list[tuple[float, int, int]] = []
        for place, row in enumerate(rows):
            phase = row.phase
            if phase == _HELD:
                ranks.append(math.nan)
                continue
            rank = rank_one(row, now_s)
            if age_bound_s is not None and now_s - row.due_s > age_bound_s and rank < PINNED_RANK:
                rank = _OVERDUE_RANK + (now_s - row.due_s)
            if phase == _RUNNING:
                rank = self._favoured(rank)
            ranks.append(rank)
            order.append((-rank, row.sequence, place))
        table.column('rank')[:] = ranks
        order.sort()
        ids = table.ids
        if not self._segmented or len(order) < 2:
            return [ids[place] for _, _, place in order[: self._limit.max_running]]
        del order[self._limit.considered :]
        best = [rows[place] for _, _, place in order]
        kept = 0 if self._interrupts else sum(row.phase == _RUNNING for row in best)
        pinned = sum(-rank >= PINNED_RANK for rank, _, _ in order) if self._pins else 0
        candidates = [self._candidate(row, now_s) for row in best]
        return [ids[order[place][2]] for place in self._choose(candidates, kept, pinned)]

    def _select_many(self, now_s: float) -> list[str]:
        table = self._table
        view = table.view()
        phase = table.column('phase')
        ranks = self._policy.rank(view, now_s)
        if self._age_bound_s is not None and now_s - view.due_s.min() > self._age_bound_s:
            waited_s = now_s - view.due_s
            overdue = (waited_s > self._age_bound_s) & (ranks < PINNED_RANK)
            ranks = np.where(overdue, _OVERDUE_RANK + waited_s, ranks)
        running = np.flatnonzero(phase == _RUNNING)
        if len(running):
            ranks[running] = self._favoured_many(ranks[running])
        ranks[phase == _HELD] = np.nan
        table.column('rank')[:] = ranks
        best = self._best(ranks, self._limit.considered)
        ids, order = table.ids, best.tolist()
        if not self._segmented or len(order) < 2:
            return [ids[row] for row in order[: self._limit.max_running]]
        kept = 0 if self._interrupts else int(np.count_nonzero(phase[best] == _RUNNING))
        pinned = int(np.count_nonzero(ranks[best] >= PINNED_RANK)) if self._pins else 0
        candidates = self._candidates(view, best, now_s)
        return [ids[order[place]] for place in self._choose(candidates, kept, pinned)]

    def _choose(self, candidates: list[Candidate], kept: int, pinned: int) -> Sequence[int]:
        """Return the places to run: the limit's choice, and the leading ones that are pinned."""
        places = self._limit.choose(candidates, max(kept, pinned))
        if pinned:
            return sorted({*range(pinned), *places})[: self._limit.max_running]
        return places

    def _candidate(self, row: GenerationRow, now_s: float) -> Candidate:
        due_s, loss_per_s, falls_s = row.due_s, 0.0, math.inf
        if not row.segment_index:
            due_s, loss_per_s = row.arrival_s + row.ert_s, -row.alpha
            falls_s = row.worthless_s - due_s
        if self._age_bound_s is not None and now_s - row.due_s > self._age_bound_s:
            # However late its answer is expected: it is due now.
            due_s, loss_per_s, falls_s = min(due_s, now_s), OVERDUE_LOSS_PER_S, math.inf
        left = row.worst_tokens - row.generated_tokens
        return Candidate._make((due_s - now_s, left, loss_per_s, row.phase == _QUEUED, falls_s))

    def _candidates(self, view: TableView, rows: IntArray, now_s: float) -> list[Candidate]:
        """Return :meth:`_candidate` of several rows."""
        index = view.segment_index.take(rows)
        first_due_s = view.arrival_s.take(rows) + view.ert_s.take(rows)
        slack_s = np.where(index == 0, first_due_s, view.due_s.take(rows)) - now_s
        left = self._table.column('worst_tokens').take(rows) - view.generated_tokens.take(rows)
        loss_per_s = np.where(index == 0, -view.alpha.take(rows), 0.0)
        falls_s = np.where(index == 0, view.worthless_s.take(rows) - first_due_s, math.inf)
        if self._age_bound_s is not None:
            overdue = now_s - view.due_s.take(rows) > self._age_bound_s
            loss_per_s[overdue], falls_s[overdue] = OVERDUE_LOSS_PER_S, math.inf
            slack_s[overdue] = np.minimum(slack_s[overdue], 0.0)
        begins = self._table.column('phase').take(rows) == _QUEUED
        columns = (slack_s, left, loss_per_s, begins, falls_s)
        return list(map(Candidate._make, zip(*(it.tolist() for it in columns), strict=True)))

    def _favoured_many(self, ranks: FloatArray) -> FloatArray:
        """Return :meth:`_favoured` of several ranks."""
        if not self._interrupts:
            return np.full_like(ranks, math.inf)
        return np.where(ranks > 0, ranks * self._factor, ranks / self._factor)

    def _favoured(self, rank: float) -> float:
        """Return the rank of one that runs already."""
        if not self._interrupts:
            return math.inf
        return rank * self._factor if rank > 0 else rank / self._factor

    def _best(self, ranks: FloatArray, most: int) -> IntArray:
        """Return the rows of the best ranks, best first, earlier generations first among equals."""
        rows = np.flatnonzero(ranks >= _bound(ranks, most))
        order = np.lexsort((self._table.column('sequence')[rows], -ranks[rows]))[:most]
        best: IntArray = rows[order]
        return best


def _bound(ranks: FloatArray, most: int) -> float:
    """Return a rank that at least ``most`` of them reach, cheaply; -inf where there may not be.

    The ``most``-th best of the maxima of many groups is such a rank, and few others reach it.
    """
    groups = 8 * most
    size = len(ranks) // groups
    if size < 2:
        return -math.inf
    maxima = np.fmax.reduce(ranks[: size * groups].reshape(size, groups), axis=0)
    maxima = maxima[~np.isnan(maxima)]
    if len(maxima) < most:
        return -math.inf
    return float(np.partition(maxima, -most)[-most])
