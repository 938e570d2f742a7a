"""The openai engine: the model is elsewhere, on one or more servers with vLLM's API."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.openai.options import ServerOptions
from timely_llm_ros.engines.openai.servers_engine import ServersEngine
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from timely_llm_ros.engines.engine import GenerationRequest
    from timely_llm_ros.engines.openai.completions import Completions, ServedModel
    from timely_llm_ros.scheduling import SchedulingOptions, ServingMode

_logger = logging.getLogger(__name__)


class OpenAIEngine(ServersEngine):
    """Generates on servers that speak vLLM's OpenAI-compatible API.

    Args:
        server_urls: The servers' addresses.
        model_path: Folder with the tokenizer of the servers' model, or a shipped model's name.
        mode: The serving mode.
        policy: Name of the policy.
        max_running: Most generations that one server serves at once.
        max_kv_tokens: Tokens whose KV one server is taken to keep.
        scheduling: Further options of the scheduler.
        sampling: Returns how a request's tokens are chosen, in the names of vLLM's API, for example
            a :class:`Sampling`; greedily without. A seed holds for a segment, not for a whole plan.
        measure: Time the first server at start, which takes some seconds; it is
            ``EngineInfo.times``.
        server_options: The other options of :class:`ServerOptions`.

    Raises:
        ConfigurationError: An option cannot be used.
    """

    def __init__(
        self,
        *,
        server_urls: Sequence[str],
        model_path: str = SHIPPED_MODEL,
        mode: ServingMode = 'segmented',
        policy: str = 'utility',
        max_running: int = 8,
        max_kv_tokens: int = 1 << 20,
        scheduling: SchedulingOptions | None = None,
        sampling: Callable[[GenerationRequest], Mapping[str, Any]] | None = None,
        measure: bool = False,
        **server_options: Any,
    ) -> None:
        self._options = ServerOptions(tuple(server_urls), **server_options)
        super().__init__(
            model_path=model_path,
            mode=mode,
            policy=policy,
            max_running=max_running,
            max_kv_tokens=max_kv_tokens,
            scheduling=scheduling,
            patience=self._options,
            sampling=sampling,
            measure=measure,
        )

    def _connect(self) -> Sequence[Completions]:
        from timely_llm_ros.engines.openai.client import ServerClient

        options = self._options
        key, tls = options.read_api_key(), options.ssl_context()
        for url in options.urls:
            if key and url.startswith('http://') and not _is_local(url):
                _logger.warning('the API key goes to %s unencrypted: expected https', url)
        return [ServerClient(url, options, api_key=key, tls=tls) for url in options.urls]

    def _describe(self, served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        capacity = self._max_kv_tokens * len(self._options.urls)
        return EngineInfo(
            'openai',
            served.name,
            0,
            'as served',
            vocabulary,
            capacity,
            load_s,
            tokenizer=find_model(self._model_path),
        )


def _is_local(url: str) -> bool:
    return url.split('://')[1].split(':')[0].split('/')[0] in ('127.0.0.1', 'localhost', '[::1]')
