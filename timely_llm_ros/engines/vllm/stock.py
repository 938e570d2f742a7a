"""The vLLM engine without our scheduler inside: for every vLLM that the plug-in does not fit.

vLLM schedules as it likes what it is given, and it is given only what is to run: a request for
each segment, by the same code that serves from servers elsewhere. Its prefix cache keeps the KV.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.openai import ServersEngine
from timely_llm_ros.engines.tokens import find_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.engines.openai import Completions, ServedModel
    from timely_llm_ros.engines.vllm.config import VllmConfig


@dataclass(frozen=True, slots=True)
class _Patience:
    """A vLLM of our own: its start says itself when it fails, and its death is seen at once."""

    start_limit_s: float = 3600.0
    health_period_s: float = 0.2
    give_up_s: float = 120.0
    priority: bool = False


class StockVllmEngine(ServersEngine):
    """Generates with vLLM through its public interface alone.

    If vLLM's engine core dies it is started anew, and generations go on from their token ids.
    """

    def __init__(self, config: VllmConfig) -> None:
        model = find_model(config.model_path)
        served = replace(config, model_path=model, max_kv_tokens=config.kv_tokens)
        super().__init__(served, patience=_Patience())
        self._vllm = config

    def _connect(self) -> Sequence[Completions]:
        from timely_llm_ros.engines.vllm.completions import VllmCompletions
        from timely_llm_ros.engines.vllm.start import prepare_environment

        prepare_environment(self._vllm.threads)
        return [VllmCompletions(self._arguments, self._vllm.vllm)]

    def _arguments(self) -> Mapping[str, Any]:
        from timely_llm_ros.engines.vllm.model_sizes import context_limit

        return self._vllm.arguments(
            self._config.model_path,
            slots=self._vllm.max_running,
            context_limit=self._vllm.context_limit(context_limit(self._config.model_path)),
        )

    def _describe(
        self,
        served: ServedModel,  # noqa: ARG002  the base's signature; vLLM has the one model
        vocabulary: int,
        load_s: float,
    ) -> EngineInfo:
        from timely_llm_ros.engines.vllm.model_sizes import count_parameters

        parameters = count_parameters(self._config.model_path)
        return EngineInfo(
            'vllm',
            self._config.model_path,
            parameters,
            self._vllm.dtype,
            vocabulary,
            self._config.max_kv_tokens,
            load_s,
        )
