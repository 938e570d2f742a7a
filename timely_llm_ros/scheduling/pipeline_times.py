"""What stages and links of a pipeline cost, learned from when micro-batches go in and come out.

A micro-batch that enters an empty pipeline takes ``S c + (S - 1) m`` (eq. 1), where ``c`` is the
time on a stage and ``m`` on a link. One that follows others comes out later than the one before it
by what the slower of the two takes. So there are two measurements for two unknowns: if the way is
at least ``S`` times that distance, stages are the slower ones, else links. Where both are possible,
stages are taken, for which pipelines are built. The sampled token's way back to the first stage is
a part of every way that can be measured here, and so of what links are taken to cost.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times import nonnegative_least_squares
from timely_llm_ros.scheduling.microbatch import LinearCosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KEPT = 64
"""Measurements of either kind that are kept."""

ENOUGH = 4
"""Measurements of either kind before anything is said."""

_NOISE = 0.1
"""By how much less a way may seem to take than its stages without links: times are never exact."""

_REFIT = 8
"""Measurements after which costs are computed anew."""


class _Measured(NamedTuple):
    tokens: int
    context_tokens: int
    took_s: float


class PipelineTimes:
    """Learns costs. Pure state: no clock.

    Raises:
        ConfigurationError: Fewer than two stages, which are no pipeline.
    """

    def __init__(self, stages: int) -> None:
        if stages < 2:
            raise ConfigurationError(f'stages {stages}: expected at least 2')
        self._stages = stages
        self._inside: deque[tuple[int, int, float, bool]] = deque()
        self._ways: deque[_Measured] = deque(maxlen=KEPT)
        self._gaps: deque[_Measured] = deque(maxlen=KEPT)
        self._last_out_s = 0.0
        self._new = 0
        self._costs: LinearCosts | None = None
        # Loads the solver now, because the first fit happens while the pipeline works.
        nonnegative_least_squares([[1.0]], [1.0])

    @property
    def inside(self) -> int:
        """Micro-batches in the pipeline."""
        return len(self._inside)

    def enter(self, tokens: int, now_s: float, context_tokens: int = 0) -> None:
        """Note that a micro-batch goes in, whose tokens attend to so many computed ones.

        Leave out one without tokens: it takes no time.
        """
        self._inside.append((tokens, context_tokens, now_s, not self._inside))

    def leave(self, now_s: float) -> None:
        """Note that the micro-batch that went in first comes out.

        Raises:
            IndexError: None is inside.
        """
        tokens, context, entered_s, alone = self._inside.popleft()
        if alone:
            self._ways.append(_Measured(tokens, context, now_s - entered_s))
        else:
            # It may have gone in only after the one before it had come out of the last stage.
            took_s = now_s - max(self._last_out_s, entered_s)
            self._gaps.append(_Measured(tokens, context, took_s))
        self._last_out_s = now_s
        self._new += 1

    @property
    def costs(self) -> LinearCosts | None:
        """What a micro-batch costs; None before enough was measured."""
        if min(len(self._ways), len(self._gaps)) < ENOUGH:
            return None
        if self._costs is None or self._new >= _REFIT:
            self._costs, self._new = self._fit(), 0
        return self._costs

    def _fit(self) -> LinearCosts:
        stages, links = self._stages, self._stages - 1
        ways, gaps = _Rows(self._ways), _Rows(self._gaps)
        gap = gaps.fit(gaps.took_s)
        typical = gaps.columns.mean(axis=0)
        if typical @ ways.fit(ways.took_s) >= (1 - _NOISE) * stages * (typical @ gap):
            compute = gap
            transfer = ways.fit(ways.took_s - stages * ways.columns @ compute, 2) / links
        else:
            # Contexts stay on their stage: no link takes longer for them.
            transfer = gaps.fit(gaps.took_s, 2)
            compute = ways.fit(ways.took_s - links * ways.columns[:, :2] @ transfer) / stages
        base_s, token_s, context_s = compute.tolist()
        link_base_s, link_token_s = transfer.tolist()
        return LinearCosts(base_s, token_s, link_base_s, link_token_s, context_token_s=context_s)


class _Rows:
    """Measurements as the rows of a fit: of one, of tokens and of tokens of context."""

    def __init__(self, measured: Sequence[_Measured]) -> None:
        tokens, contexts, took_s = np.array(measured, np.float64).T
        # What does not vary counts as the cost of a micro-batch, not of its tokens: of equally
        # good columns the first one is taken.
        self.columns: Floats = np.stack((np.ones_like(tokens), tokens, contexts), axis=1)
        self.took_s: Floats = took_s

    def fit(self, took_s: Floats, columns: int = 3) -> Floats:
        """Return what each of the first columns costs (s), 0 at least."""
        return nonnegative_least_squares(self.columns[:, :columns], took_s)
