"""How a planner serves its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.budget import BudgetOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerConfig:
    """The options of a planner.

    Attributes:
        max_queue_per_robot: Tasks that may queue behind a robot's current one; a further one is
            refused.
        max_tokens: Length limit of a plan (tokens).
        constrained: Whether the skill set's grammar masks the model's choices.
        stop_limit_s: How long a robot may take to confirm that it stopped (s).
        budgets: How carefully time budgets are checked when a task comes; None to keep them by the
            clock alone, as is also done where nobody knows how long the engine takes.
        predicts_lengths: Whether the engine is told each plan's predicted length, to rank by it.
        max_running: Most generations in one engine step, for the worst case of a time budget.
    """

    max_queue_per_robot: int = 8
    max_tokens: int = 512
    constrained: bool = True
    stop_limit_s: float = 5.0
    budgets: BudgetOptions | None = None
    predicts_lengths: bool = False
    max_running: int = 8
