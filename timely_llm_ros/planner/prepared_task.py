"""A task that the planner can serve, with everything that its generation needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.errors import (
    BudgetOverrunError,
    Ending,
    PlanError,
    RobotUnavailableError,
    WorthlessError,
)

if TYPE_CHECKING:
    from timely_llm_ros.execution import RobotLink
    from timely_llm_ros.planner.budgets import BudgetedTask
    from timely_llm_ros.planner.config import PlannerConfig
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

    def request(self, received_s: float, config: PlannerConfig) -> GenerationRequest:
        """Return what an engine is asked for, of a task that came then (s)."""
        return GenerationRequest(
            generation_id=self.task.task_id,
            prompt=self.prompt,
            skill_set=self.skill_set,
            scene=self.scene,
            utility=self.task.utility,
            arrival_s=received_s,
            max_tokens=self.max_tokens,
            constrained=config.constrained,
            predicted_tokens=self.predicted_tokens,
            eviction=None if self.budgeted is None else self.budgeted.rule(received_s),
            scene_of=self.task.robot,
        )

    def without_end(self, tokens: int, config: PlannerConfig) -> Ending:
        """Return how it ends where its plan has none after so many tokens."""
        limit, code = f'expected at most {self.max_tokens}', PlanError.code
        if self.max_tokens < config.max_tokens:
            limit += f', for a time budget of {self.task.time_budget_s:g} s'
            code = BudgetOverrunError.code
        return Ending(code, f'plan has no end after {tokens} tokens: {limit}')

    def overran(self, tokens: int, segments: int) -> Ending:
        """Return how it ends where its budget passed with so much generated."""
        text = (
            f'time budget {self.task.time_budget_s:g} s: the generation had {tokens} tokens in '
            f'{segments} segments by then, expected it to have ended'
        )
        return Ending.of(BudgetOverrunError(text))

    def worthless(self, waited: str) -> Ending:
        """Return how it ends where it is worth no more than its floor, and what it waited for."""
        utility = self.task.utility
        text = (
            f'{waited} after {utility.worthless_after_s:.2f} s, from when its utility is no more '
            f'than {utility.floor:g}: expected a first action before'
        )
        return Ending.of(WorthlessError(text))

    def robot_lost(self) -> Ending:
        """Return how it ends where its robot went away."""
        text = f'robot {self.task.robot!r}: its executor does not answer, expected it to'
        return Ending.of(RobotUnavailableError(text))
