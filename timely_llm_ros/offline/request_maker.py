"""Makes engine requests of offline prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.prompts import TersePrompts
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.planner.prompts import OfflinePrompt
    from timely_llm_ros.prompts import Prompts
    from timely_llm_ros.skills import SkillSet


class RequestMaker:
    """Makes engine requests of prompts; skill sets are read once.

    ``max_tokens`` limits prompts that have no limit of their own. ``prompts`` makes the texts that
    the model reads; None for those of the embedded model.
    """

    def __init__(self, max_tokens: int, prompts: Prompts | None = None) -> None:
        self._max_tokens = max_tokens
        self._prompts = prompts or TersePrompts()
        self._skill_sets: dict[str, SkillSet] = {}

    def __call__(self, prompt: OfflinePrompt) -> GenerationRequest:
        """Return the request.

        Raises:
            TimelyError: The skill set cannot be found, or the instruction is bad.
        """
        skill_set = self._skill_sets.get(prompt.skill_set)
        if skill_set is None:
            skill_set = self._skill_sets[prompt.skill_set] = find_skill_set(prompt.skill_set)
        return GenerationRequest(
            prompt.prompt_id,
            self._prompts.build(skill_set, prompt.scene, prompt.instruction, prompt.history),
            skill_set,
            prompt.scene,
            NORMAL,
            0.0,
            max_tokens=prompt.max_tokens or self._max_tokens,
            background=True,
        )
