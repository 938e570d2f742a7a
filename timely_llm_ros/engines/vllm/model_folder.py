"""A model's folder as vLLM is given it: its base model, and one adapter for each skill set.

vLLM adds adapters' weights as it computes, so generations of several skill sets share a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from timely_llm_ros.engines.tokens import find_adapter, find_adapters
from timely_llm_ros.engines.vllm.adapter_check import check_weights, highest_rank
from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.engines.tokens import Adapter

EVERY = ''
"""Stands for every skill set: ``model_path`` is an adapter's folder itself."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What is in a folder.

    Attributes:
        path: The folder, which has the tokenizer.
        base: The base model's folder; the same one, unless it is an adapter's.
        adapters: The adapters by skill sets' names.
    """

    path: str
    base: str
    adapters: Mapping[str, Adapter]

    @classmethod
    def read(cls, path: str) -> ModelFolder:
        """Look for adapters in a model's folder.

        Raises:
            ModelLoadError: An adapter lacks a file or its base model.
        """
        adapter = find_adapter(path)
        if adapter is not None:
            return cls(path, adapter.base, {EVERY: adapter})
        return cls(path, path, find_adapters(path))

    @property
    def prompts(self) -> dict[str, str]:
        """The folders with skill sets' own prompts, see ``EngineInfo.adapters``."""
        return {name: adapter.path for name, adapter in self.adapters.items() if name != EVERY}

    def arguments(self) -> dict[str, Any]:
        """Check the adapters and return what vLLM is to be started with; imports vLLM.

        Raises:
            ModelLoadError: One does not fit its base model, or its rank is above vLLM's.
        """
        if not self.adapters:
            return {'model': self.base}
        from vllm.config.lora import MaxLoRARanks
        from vllm.platforms import current_platform

        ranks = get_args(MaxLoRARanks)
        for adapter in self.adapters.values():
            check_weights(adapter, max(ranks))
        rank = max(highest_rank(adapter) for adapter in self.adapters.values())
        return {
            'model': self.base,
            'tokenizer': self.path,
            'enable_lora': True,
            'max_lora_rank': min(each for each in ranks if each >= rank),
            # On a CPU, in a step that has tokens with an adapter, vLLM computes those without one
            # with what is in the last place (index -1 in its torch_ops). So that stays empty.
            'max_loras': len(self.adapters) + bool(current_platform.is_cpu()),
        }

    def request(self, skill_set: str) -> Any:
        """Return vLLM's ``LoRARequest`` for a skill set; None where the base model writes."""
        name = skill_set if skill_set in self.adapters else EVERY
        if name not in self.adapters:
            return None
        from vllm.lora.request import LoRARequest

        # What it is called is a part of the keys of vLLM's prefix cache.
        path = self.adapters[name].path
        return LoRARequest(path, 1 + sorted(self.adapters).index(name), path)

    async def load(self, llm: Any) -> None:
        """Have vLLM load the adapters, so that it refuses at start what it cannot serve.

        Raises:
            ModelLoadError: It refuses one; names its folder and the reason.
        """
        for name, adapter in self.adapters.items():
            try:
                await llm.add_lora(self.request(name))
            except Exception as err:
                raise ModelLoadError(f'adapter {adapter.path!r}: vLLM: {err}') from err
