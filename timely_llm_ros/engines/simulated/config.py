"""The options of the simulated engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from timely_llm_ros.engines.config import EngineConfig, StepOptions
from timely_llm_ros.engines.simulated.step_time import StepTimeModel

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest

PlanText = Callable[['GenerationRequest'], str | Sequence[str]]
"""A request's plan: its text, or its tokens, of which the last one also ends the plan."""


class LengthSource(Protocol):
    """Predicts how long named generations will be, given how long they really are (tokens)."""

    def predict(self, name: str, length: int) -> float:
        """Return the first prediction of a plan's length."""
        ...

    def refine(self, name: str, age: int, length: int) -> float | None:
        """Return the prediction at that age of what is left; None where there is none."""
        ...


def safe_action_plan(request: GenerationRequest) -> str:
    """Return the plan that does nothing but the skill set's safe action."""
    return f'{request.skill_set.safe_action};'


@dataclass(frozen=True, kw_only=True)
class SimulatedConfig(StepOptions, EngineConfig):
    """Options of :class:`SimulatedEngine`.

    Attributes:
        plan_text: Returns a request's plan.
        step_time: How long a step takes.
        lengths: Predicts how long plans are; None for no prediction but the requests' own.
        forwarded: Share of a plan's tokens, spread evenly, that take no step of their own, as where
            a grammar leaves no choice; 0 up to 1.
        host_kv_tokens: Room for KV in the host's memory (tokens), for plans that lost theirs; it is
            used as far as ``step_time`` says that this pays.
    """

    name: ClassVar[str] = 'simulated'
    default_chunk: ClassVar[int] = 2048

    plan_text: PlanText = safe_action_plan
    step_time: StepTimeModel = StepTimeModel()
    lengths: LengthSource | None = None
    forwarded: float = 0.0
    host_kv_tokens: int = 0

    @property
    def paced(self) -> StepTimeModel:
        """How long a step takes, ``min_step_s`` at least with one generation."""
        decode_s = max(self.min_step_s, self.step_time.decode_s)
        return replace(self.step_time, decode_s=decode_s)
