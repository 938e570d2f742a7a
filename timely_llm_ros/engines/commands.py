"""The commands to an engine: which generations to make, to hold, to go on with and to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from timely_llm_ros.pickling import pickled_as_call

if TYPE_CHECKING:
    from timely_llm_ros.budget import EvictionRule
    from timely_llm_ros.scheduling import SchedulingOptions
    from timely_llm_ros.skills import Prompt, Scene, SkillSet
    from timely_llm_ros.utility import TimeUtility


@pickled_as_call
@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One task's generation.

    Attributes:
        generation_id: Unique among the generations that the engine has.
        prompt: What the model reads; requests share ``prompt.fixed``.
        utility: What the first segment is worth over time.
        arrival_s: When the task was received, on the engine's clock (s).
        max_tokens: Tokens after which the generation ends with reason ``length``.
        constrained: Whether the skill set's grammar masks the model's choices.
        forced_token_ids: Tokens to generate whatever the model says (for measurements).
        background: Whether no robot waits for it. It then gets only the engine time that no robot's
            generation needs, comes as one whole plan and is never held.
        predicted_tokens: Predicted length of the plan; None to let the engine predict it.
        eviction: How much of the prompt's KV to keep once it is computed; None for all of it. An
            engine without eviction keeps all of it.
        scene_of: Name of the warm scene that its prompt may begin with; empty for none.
    """

    generation_id: str
    prompt: Prompt
    skill_set: SkillSet
    scene: Scene
    utility: TimeUtility
    arrival_s: float
    max_tokens: int = 512
    constrained: bool = True
    forced_token_ids: tuple[int, ...] | None = None
    background: bool = False
    predicted_tokens: float | None = None
    eviction: EvictionRule | None = None
    scene_of: str = ''


@dataclass(frozen=True, slots=True)
class Submit:
    """Queue a generation."""

    request: GenerationRequest


@dataclass(frozen=True, slots=True)
class Suspend:
    """Hold a generation."""

    generation_id: str


@pickled_as_call
@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a held generation."""

    generation_id: str
    observation: str | None = None


@pickled_as_call
@dataclass(frozen=True, slots=True)
class RobotIdleAt:
    """Correct when a robot runs out of work."""

    generation_id: str
    idle_at_s: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a generation."""

    generation_id: str


@dataclass(frozen=True, slots=True)
class Warm:
    """Compute the KV of what a robot's next prompt will begin with, in time that nobody needs.

    It takes the place of the one before under that name. Only engines whose ``EngineInfo.warms``
    do it.

    Attributes:
        scene_of: Its name, which requests give as ``scene_of``.
        prompt: The beginning; None where it is not wanted any more.
        skill_set: The robot's.
        scene: The objects that plans will be able to name.
    """

    scene_of: str
    prompt: Prompt | None
    skill_set: SkillSet
    scene: Scene

    @property
    def generation_id(self) -> str:
        """What the engine calls it among generations."""
        return f'scene of {self.scene_of}'


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Rank robots' generations by another policy, or with other options, from the next step on.

    Generations and what was learned of steps and lengths stay. It concerns no generation, and
    engines whose ``EngineInfo.reschedules`` is false
    ignore it.
    """

    generation_id: ClassVar[str] = ''

    policy: str
    scheduling: SchedulingOptions


Command = Submit | Suspend | Resume | RobotIdleAt | Cancel | Warm | Reschedule
"""Everything that an engine can be told."""
