"""The vLLM engine without our scheduler inside: for every vLLM that the plug-in does not fit.

vLLM schedules as it likes what it is given, and it is given only what is to run: a request for
each segment, by the same code that serves from servers elsewhere. Its prefix cache keeps the KV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.openai import ServersEngine
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.vllm.options import VllmOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.engines.openai import Completions, ServedModel


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

    Args:
        options: Those of :class:`VllmOptions`.

    Raises:
        ConfigurationError: An option is out of range.
        TypeError: There is no such option.
    """

    def __init__(self, **options: Any) -> None:
        self._options = given = VllmOptions(**options)
        super().__init__(
            model_path=find_model(given.model_path),
            mode=given.mode,
            policy=given.policy,
            max_running=given.max_running,
            max_kv_tokens=given.kv_tokens,
            scheduling=given.scheduling,
            patience=_Patience(),
            sampling=given.sampling,
            measure=given.measure,
        )

    def _connect(self) -> Sequence[Completions]:
        from timely_llm_ros.engines.vllm.completions import VllmCompletions
        from timely_llm_ros.engines.vllm.start import prepare_environment

        prepare_environment(self._options.threads)
        return [VllmCompletions(self._arguments, self._options.more)]

    def _arguments(self) -> Mapping[str, Any]:
        from timely_llm_ros.engines.vllm.text import context_limit

        return self._options.arguments(
            self._model_path,
            slots=self._options.max_running,
            context_limit=self._options.context_limit(context_limit(self._model_path)),
        )

    def _describe(self, served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        from timely_llm_ros.engines.vllm.text import count_parameters

        parameters = count_parameters(self._model_path)
        return EngineInfo(
            'vllm',
            self._model_path,
            parameters,
            self._options.dtype,
            vocabulary,
            self._max_kv_tokens,
            load_s,
        )
