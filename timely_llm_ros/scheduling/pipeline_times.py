"""What stages and links of a pipeline cost, learned from when micro-batches go in and come out.

One that enters an empty pipeline takes ``S c + (S - 1) m`` (eq. 1), with ``c`` the time on a stage
and ``m`` on a link; one that follows others comes out as much later than the one before it as the
slower of the two takes. Two measurements, two unknowns: if the way is at least ``S`` times that
distance, stages are the slower ones, else links. Where both are possible stages are taken, for
which pipelines are built.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.fitting import fit_decode
from timely_llm_ros.scheduling.microbatch import LinearCosts

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT = 64
"""Measurements of either kind that are kept."""

ENOUGH = 4
"""Measurements of either kind before anything is said."""

_NOISE = 0.1
"""By how much less a way may seem to take than its stages without links: times are never exact."""

_REFIT = 8
"""Measurements after which costs are computed anew."""


class PipelineTimes:
    """Learns costs. Pure state: no clock.

    Args:
        stages: Stages of the pipeline.

    Raises:
        ConfigurationError: Fewer than two stages, which are no pipeline.
    """

    def __init__(self, stages: int) -> None:
        if stages < 2:
            raise ConfigurationError(f'stages {stages}: expected at least 2')
        self._stages = stages
        self._inside: deque[tuple[int, float, bool]] = deque()
        self._ways: deque[tuple[int, float]] = deque(maxlen=KEPT)
        self._gaps: deque[tuple[int, float]] = deque(maxlen=KEPT)
        self._last_out_s = 0.0
        self._new = 0
        self._costs: LinearCosts | None = None

    @property
    def inside(self) -> int:
        """Micro-batches in the pipeline."""
        return len(self._inside)

    def enter(self, tokens: int, now_s: float) -> None:
        """A micro-batch goes in; one without tokens takes no time and is not to be told."""
        self._inside.append((tokens, now_s, not self._inside))

    def leave(self, now_s: float) -> None:
        """The micro-batch that went in first comes out.

        Raises:
            IndexError: None is inside.
        """
        tokens, entered_s, alone = self._inside.popleft()
        if alone:
            self._ways.append((tokens, now_s - entered_s))
        else:
            # It may have gone in only after the one before it had come out of the last stage.
            self._gaps.append((tokens, now_s - max(self._last_out_s, entered_s)))
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
        way_token_s, way_s = _line(self._ways)
        gap_token_s, gap_s = _line(self._gaps)
        tokens = statistics.fmean(tokens for tokens, _ in self._gaps)
        share = (way_s + way_token_s * tokens) / (gap_s + gap_token_s * tokens)
        if share >= (1 - _NOISE) * stages:
            return LinearCosts(
                gap_s,
                gap_token_s,
                max(0.0, way_s - stages * gap_s) / links,
                max(0.0, way_token_s - stages * gap_token_s) / links,
            )
        return LinearCosts(
            max(0.0, way_s - links * gap_s) / stages,
            max(0.0, way_token_s - links * gap_token_s) / stages,
            gap_s,
            gap_token_s,
        )


def _line(measured: Iterable[tuple[int, float]]) -> tuple[float, float]:
    """Return time per token and time without tokens (s)."""
    tokens, times_s = zip(*measured, strict=True)
    return fit_decode(tokens, times_s)
