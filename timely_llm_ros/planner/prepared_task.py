"""A task that the planner can serve, with everything that its generation needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.execution import RobotLink
    from timely_llm_ros.planner.budgets import BudgetedTask
    from timely_llm_ros.planner.task import Task
    from timely_llm_ros.planner.worth import Expectation
    from timely_llm_ros.skills import Prompt, Scene, SkillSet


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """What ``Planner.prepare`` returns and ``Planner.submit`` takes.

    Attributes:
        max_tokens: Length limit of the plan.
        budgeted: How the plan is generated within its time budget, where that was planned.
        predicted_tokens: Expected length of the plan, where the engine is to be told.
        expected: What the task can expect; None as long as no plan of its like was served.
        takes_over: Whether it takes its robot from the task that the robot has.
    """

    task: Task
    skill_set: SkillSet
    link: RobotLink
    prompt: Prompt
    max_tokens: int
    budgeted: BudgetedTask | None = None
    predicted_tokens: float | None = None
    expected: Expectation | None = None
    takes_over: bool = False

    @property
    def scene(self) -> Scene:
        """The objects that the prompt names."""
        return self.task.scene if self.budgeted is None else self.budgeted.scene
