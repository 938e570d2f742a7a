"""Decides, when a task comes, how its plan can be generated within its time budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.budget import BudgetOptions, plan_budget
from timely_llm_ros.engines import EngineStateChanged
from timely_llm_ros.engines.tokens import PromptSize
from timely_llm_ros.errors import TaskRefusedError
from timely_llm_ros.skills import trim_scene

if TYPE_CHECKING:
    from timely_llm_ros.budget import EvictionRule, TaskBudget
    from timely_llm_ros.engines import EngineEvent, EngineInfo
    from timely_llm_ros.planner.config import PlannerConfig
    from timely_llm_ros.planner.task import Task
    from timely_llm_ros.planner.task_prompts import TaskPrompts
    from timely_llm_ros.prediction.lengths import LengthPredictor
    from timely_llm_ros.prediction.times import ExecutionTimeModel
    from timely_llm_ros.skills import Prompt, Scene, SkillSet

SMALLEST_SCENE = 0.125
"""Least share of a scene's objects that a trimmed prompt keeps."""


ENOUGH = 8
"""Plans of a skill set after which it is known how many of their tokens take a step."""

_WEIGHT = 0.1
"""What a plan counts in the mean."""

_DECAY = 0.99
"""What is left after each plan of how far the most was above the mean."""


@dataclass(slots=True)
class StepShare:
    """Which share of the tokens of a skill set's plans takes a step of the model.

    Attributes:
        mean: In the mean.
        most: Of the plan with the largest share lately.
        plans: How many plans have been seen.
    """

    mean: float = 1.0
    most: float = 1.0
    plans: int = 0

    def observe(self, share: float) -> None:
        """Learn from one plan."""
        self.plans += 1
        self.mean += max(_WEIGHT, 1 / self.plans) * (share - self.mean)
        most = self.mean + _DECAY * (self.most - self.mean)
        self.most = share if self.plans == 1 else max(share, most)

    @property
    def known(self) -> bool:
        """Whether enough plans have been seen."""
        return self.plans >= ENOUGH


@dataclass(frozen=True, slots=True)
class BudgetedTask:
    """How a task is generated within its budget.

    Attributes:
        budget: What was decided.
        prompt: The task's prompt. It names fewer objects than the task where the engine cannot
            evict and only a shorter prompt fits.
        scene: The objects that the prompt names.
        evicts: Whether the engine evicts.
        options: How careful budgets are.
        dropped_objects: How many of the task's objects the prompt leaves out.
        period_s: The budget (s) where being late costs the tasks that come meanwhile; else None.
    """

    budget: TaskBudget
    prompt: Prompt
    scene: Scene
    evicts: bool
    options: BudgetOptions
    dropped_objects: int = 0
    period_s: float | None = None

    def rule(self, received_s: float) -> EvictionRule | None:
        """Return what the engine is to ask after prefill; None where it does not evict."""
        if not self.evicts:
            return None
        budget = self.budget
        return self.options.rule(
            ends_by_s=received_s + budget.budget_s,
            expected=budget.expected_times,
            worst=budget.worst_times,
            worst_length=budget.worst_length,
            lengths=budget.lengths,
            period_s=self.period_s,
        )

    @property
    def text(self) -> str:
        """What was decided, for people."""
        budget = self.budget
        found = (
            f'{budget.prompt_tokens} prompt tokens, {budget.predicted_length} predicted, '
            f'{budget.expected_s:.2f} s expected, {budget.worst_s:.2f} s at worst'
        )
        if self.evicts:
            return f'{found}, {budget.evicted:.0%} of the KV to evict'
        dropped = f'{self.dropped_objects} objects left out' if self.dropped_objects else 'whole'
        return f'{found}, no eviction: prompt {dropped}, at most {budget.max_tokens} tokens'


class Budgets:
    """Decides on tasks with a time budget.

    Args:
        info: The engine.
        times: How long its prompts and steps take.
        predictor: Predicts plan lengths.
        config: The planner's options.
        prompts: Makes shorter prompts.
    """

    def __init__(
        self,
        info: EngineInfo,
        times: ExecutionTimeModel,
        predictor: LengthPredictor,
        config: PlannerConfig,
        prompts: TaskPrompts,
    ) -> None:
        self._prompts = prompts
        self._evicts = bool(info.eviction)
        self._times, self._predictor = times, predictor
        self.configure(config)
        self._size = PromptSize(info)
        self._live = self._kv_tokens = 0
        self._shares: dict[str, StepShare] = {}

    def configure(self, config: PlannerConfig) -> None:
        """Decide by these options from now on; what was learned stays."""
        self._config, self._options = config, config.budgets or BudgetOptions()

    def decide(self, task: Task, skill_set: SkillSet, prompt: Prompt) -> BudgetedTask | None:
        """Return how a task is generated within its budget; None where it has none.

        The worst case is that of as many generations as the engine has now, this one included,
        with nothing computed of its prompt. Tasks that come later may take engine time from it.

        Raises:
            TaskRefusedError: Not even the most that can be given up makes it fit.
        """
        if task.time_budget_s is None:
            return None
        budget_s = task.time_budget_s
        whole = found = self._try(task, budget_s, prompt, task.scene)
        objects = len(task.scene.objects)
        kept = objects // 2
        least = max(1.0, SMALLEST_SCENE * objects)
        while not found.budget.feasible and not self._evicts and kept >= least:
            scene = trim_scene(task.scene, task.instruction, kept)
            trimmed = self._prompts.build(skill_set, scene, task.instruction, task.history)
            found = self._try(task, budget_s, trimmed, scene)
            kept //= 2
        if found.budget.feasible:
            return found
        least_s = min(whole.budget.worst_s, found.budget.worst_s)
        raise TaskRefusedError(
            f'time budget {budget_s:g} s: expected at least the estimated '
            f'{least_s:.3f} s of generation ({found.text})'
        )

    def _try(self, task: Task, budget_s: float, prompt: Prompt, scene: Scene) -> BudgetedTask:
        batch = min(self._config.max_running, self._live + 1)
        others = float(self._kv_tokens) if self._live and batch > 1 else 0.0
        expected = self._times.at(batch, other_kv_tokens=others)
        worst = self._options.worst_times(self._times, batch, others)
        share = self._shares.get(task.skill_set)
        if share is not None and share.known:
            expected, worst = expected.with_steps(share.mean), worst.with_steps(share.most)
        budget = plan_budget(
            expected,
            worst,
            budget_s=budget_s,
            prompt_tokens=self._size(prompt),
            forecast=self._predictor.predict(prompt.fixed, prompt.body),
            max_tokens=self._config.max_tokens,
            options=self._options,
            evicts=self._evicts,
        )
        dropped = len(task.scene.objects) - len(scene.objects)
        return BudgetedTask(
            budget,
            prompt,
            scene,
            self._evicts,
            self._options,
            dropped,
            budget_s if task.overrun == 'skip_next' else None,
        )

    def learn(self, skill_set: str, tokens: int, forwarded: int) -> None:
        """Learn how many of a whole plan's tokens, its end included, took no step of their own."""
        self._shares.setdefault(skill_set, StepShare()).observe(1.0 - forwarded / tokens)

    def on_engine_event(self, event: EngineEvent) -> None:
        """Note how busy the engine is."""
        if isinstance(event, EngineStateChanged):
            state = event.state
            self._live = state.running + state.suspended + state.held + state.queued
            self._kv_tokens = state.kv_tokens - state.spare_kv_tokens
