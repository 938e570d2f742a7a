"""A step of the background that gave way to robots before its end.

Its tokens' KV has its place and is accounted for, but not all of it is computed, and the step has
brought no token yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.engines.core.step import Row, StepPlan


@dataclass(slots=True, eq=False)
class InterruptedStep:
    """The step, and the time that it has taken so far (s)."""

    plan: StepPlan
    spent_s: float
    _computed: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._computed = tuple(row.generation.context.computed for row in self.plan.rows)

    def intact(self) -> list[Row]:
        """Return the rows whose KV is as it was: whose generations have not ended or lost it."""
        return [
            row
            for row, computed in zip(self.plan.rows, self._computed, strict=True)
            if row.generation.context.computed == computed
        ]

    @property
    def lost(self) -> bool:
        """Whether it cannot go on, because one of its generations has ended or lost its KV."""
        return len(self.intact()) < len(self.plan.rows)
