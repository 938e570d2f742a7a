"""A policy: the generation whose next segment takes the least time goes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.scheduling import Policy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from timely_llm_ros.scheduling import GenerationRow, TableView


@dataclass(frozen=True, slots=True)
class ShortestSegmentFirst(Policy):
    """By the expected time to generate the next segment."""

    def rank(self, view: TableView, now_s: float) -> NDArray[np.float64]:  # noqa: ARG002
        """Return ranks that fall with that time."""
        return -view.expected_generation_s

    def rank_one(self, row: GenerationRow, now_s: float) -> float:  # noqa: ARG002
        """Return the same for one generation."""
        return -row.expected_generation_s


SHORTEST_SEGMENT_FIRST = ShortestSegmentFirst()
