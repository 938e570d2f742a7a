"""The vLLM engine without our scheduler, for every vLLM that the plug-in does not fit.

It gives vLLM only the generations that are to run, a request for each segment, by the same code
that serves from servers elsewhere. vLLM's prefix cache keeps the KV.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.openai import ServersEngine
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.vllm.model_folder import ModelFolder
from timely_llm_ros.engines.vllm.model_sizes import count_parameters
from timely_llm_ros.engines.vllm.start import engine_arguments, prepare_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.openai import Completions, ServedModel
    from timely_llm_ros.engines.vllm.config import VllmConfig


class StockVllmEngine(ServersEngine):
    """Generates with vLLM through its public interface alone.

    If vLLM's engine core dies it is started anew, and generations go on from their token ids.
    """

    def __init__(self, config: VllmConfig) -> None:
        model = find_model(config.model_path)
        served = replace(config, model_path=model, max_kv_tokens=config.kv_tokens)
        # Its start fails by itself, and its death is seen at once.
        self._folder = ModelFolder.read(model)
        super().__init__(
            served,
            start_limit_s=3600.0,
            health_period_s=0.2,
            give_up_s=120.0,
            adapters=self._folder.prompts,
        )
        self._vllm = served

    def _connect(self) -> Sequence[Completions]:
        from timely_llm_ros.engines.vllm.completions import VllmCompletions

        prepare_environment(self._vllm.threads)
        return [VllmCompletions(self._arguments, self._vllm.vllm, self._folder)]

    def _arguments(self) -> dict[str, Any]:
        config = self._vllm
        return engine_arguments(config, self._folder, slots=config.max_running)

    def _describe(self, _served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        config = self._vllm
        return EngineInfo(
            'vllm',
            config.model_path,
            count_parameters(self._folder.base),
            config.dtype,
            vocabulary,
            config.max_kv_tokens,
            load_s,
            adapters=self._folder.prompts,
        )
