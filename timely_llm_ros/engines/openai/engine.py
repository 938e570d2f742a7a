"""The openai engine: the model is elsewhere, on one or more servers with vLLM's API."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.openai.options import read_api_key
from timely_llm_ros.engines.openai.servers_engine import ServersEngine
from timely_llm_ros.engines.tokens import find_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.openai.completions import Completions, ServedModel
    from timely_llm_ros.engines.openai.config import OpenAIConfig

_logger = logging.getLogger(__name__)


class OpenAIEngine(ServersEngine):
    """Generates on servers that speak vLLM's OpenAI-compatible API."""

    def __init__(self, config: OpenAIConfig) -> None:
        options = self._options = config.servers
        super().__init__(
            config,
            start_limit_s=options.start_limit_s,
            health_period_s=options.health_period_s,
            give_up_s=options.give_up_s,
            priority=options.priority,
        )

    def _connect(self) -> Sequence[Completions]:
        from timely_llm_ros.engines.openai.client import ServerClient

        options = self._options
        key, tls = read_api_key(options.api_key_file), options.ssl_context()
        for url in options.urls:
            if key and url.startswith('http://') and not _is_local(url):
                _logger.warning('the API key goes to %s unencrypted: expected https', url)
        return [ServerClient(url, options, api_key=key, tls=tls) for url in options.urls]

    def _describe(self, served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        capacity = self._config.max_kv_tokens * len(self._options.urls)
        return EngineInfo(
            'openai',
            served.name,
            0,
            'as served',
            vocabulary,
            capacity,
            load_s,
            tokenizer=find_model(self._config.model_path),
        )


def _is_local(url: str) -> bool:
    return url.split('://')[1].split(':')[0].split('/')[0] in ('127.0.0.1', 'localhost', '[::1]')
