"""A step of the background that gave way to robots before its end.

Its tokens' KV has its place and is accounted for, but not all of it is computed, and nothing came
out of it: as far as anybody can see, it has not happened yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.engines.core.step import Row, StepPlan


def may_be_interrupted(plan: StepPlan) -> bool:
    """Return whether others may run in the middle of a step.

    Robots may need a prefix that it computes, and what is to be evicted is chosen by what a step
    looks at, so neither may be done by halves or twice.
    """
    return not plan.prefixes and not any(row.generation.evicts for row in plan.rows)


@dataclass(slots=True, eq=False)
class InterruptedStep:
    """What is known of it.

    Attributes:
        plan: The step.
        spent_s: Time that it has taken so far (s).
    """

    plan: StepPlan
    spent_s: float
    _computed: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._computed = tuple(row.generation.context.computed for row in self.plan.rows)

    def intact(self) -> list[Row]:
        """Return the rows whose KV is as it was; what ends or is dropped has none."""
        return [
            row
            for row, computed in zip(self.plan.rows, self._computed, strict=True)
            if row.generation.context.computed == computed
        ]

    @property
    def lost(self) -> bool:
        """Whether it cannot go on, because one of its generations has ended or lost its KV."""
        return len(self.intact()) < len(self.plan.rows)
