"""What plans that ended tell of the next: how long they are, and the least time that one took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import TaskRefusedError
from timely_llm_ros.prediction.lengths import EmpiricalLengths

if TYPE_CHECKING:
    from timely_llm_ros.engines import GenerationEnded
    from timely_llm_ros.planner.task import Task
    from timely_llm_ros.prediction.lengths import LengthPredictor
    from timely_llm_ros.skills import Prompt


class Experience:
    """Learns from whole plans.

    Args:
        predictor: Predicts their lengths; None to learn them from the plans that end.
    """

    def __init__(self, predictor: LengthPredictor | None) -> None:
        self.predictor = predictor or EmpiricalLengths()
        self._shortest_s: dict[str, float] = {}
        """Least engine time of a whole plan so far, by skill set."""

    def learn(self, skill_set: str, prompt: Prompt, event: GenerationEnded) -> None:
        """Remember how long a whole plan was and how much engine time it took."""
        if isinstance(self.predictor, EmpiricalLengths):
            self.predictor.observe(prompt.fixed, prompt.body, event.tokens + 1)
        shortest_s = self._shortest_s.get(skill_set, event.generation_s)
        self._shortest_s[skill_set] = min(shortest_s, event.generation_s)

    def expected_tokens(self, prompt: Prompt, most: int) -> float:
        """Return a plan's expected length (tokens), of ``most`` tokens at most."""
        return float(self.predictor.predict(prompt.fixed, prompt.body).predicted(most))

    def require_time(self, task: Task) -> None:
        """Check a time budget against the shortest plan of the task's skill set.

        Raises:
            TaskRefusedError: No plan has been as short.
        """
        least_s = self._shortest_s.get(task.skill_set, 0.0)
        if task.time_budget_s is not None and least_s > task.time_budget_s:
            raise TaskRefusedError(
                f'time budget {task.time_budget_s:g} s: '
                f'expected at least the estimated {least_s:.3f} s of generation'
            )
