"""The openai engine: the model is elsewhere, on servers with vLLM's API or with chats alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.openai.options import read_api_key
from timely_llm_ros.engines.openai.servers_engine import ServersEngine
from timely_llm_ros.engines.tokens import find_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.openai.completions import Completions, ServedModel
    from timely_llm_ros.engines.openai.config import OpenAIConfig
    from timely_llm_ros.engines.openai.sequences import ServerSequences
    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.prediction.times import ExecutionTimeModel

_logger = logging.getLogger(__name__)


class OpenAIEngine(ServersEngine):
    """Generates on servers that speak vLLM's OpenAI-compatible API, or the chats of OpenAI's."""

    def __init__(self, config: OpenAIConfig) -> None:
        options = self.options = config.servers
        super().__init__(
            config,
            start_limit_s=options.start_limit_s,
            health_period_s=options.health_period_s,
            give_up_s=options.give_up_s,
            priority=options.priority,
        )

    def _connect(self) -> Sequence[Completions]:
        from timely_llm_ros.engines.openai.client import ServerClient

        options = self.options
        key, tls = read_api_key(options.api_key_file), options.ssl_context()
        kind = ServerClient
        if self._chats:
            from timely_llm_ros.engines.openai.chat_client import ChatClient

            kind = ChatClient
            _logger.warning(
                'servers that have only chats: plans are checked but not held to a grammar, and a '
                'suspended one goes on by asking the model to, so that suspension may change it; '
                'tokens are counted by pieces of text, and nothing tells of prompts that are too '
                'long or how long steps take, so that time budgets are kept by the clock alone'
            )

        def connect(url: str) -> Completions:
            if key and url.startswith('http://') and not _is_local(url):
                _logger.warning('the API key goes to %s unencrypted: expected https', url)
            return kind(url, options, api_key=key, tls=tls)

        self._client = connect
        return [connect(url) for url in options.urls]

    def set_servers(self, urls: Sequence[str]) -> None:
        """Serve on these servers from now on; on the loop's thread, once started.

        A new one serves when it was checked as at the start. One that is left out drains: it gets
        nothing new, what it computes just now it computes to the end of the request, and the rest
        goes on elsewhere from its token ids.

        Raises:
            ConfigurationError: There is none, one twice, or what is no address.
        """
        wanted = replace(self.options, urls=tuple(urls)).urls
        for server in self._servers:
            server.drains = server.url not in wanted
        known = {server.url for server in self._servers}
        for url in wanted:
            if url not in known:
                server = self._make_server(self._client(url))
                self._servers.append(server)
                server.start()
        # One that is listed again is well already, so that nothing else would tell of it.
        self._on_well()
        self._expect_server()

    def _make_sequences(
        self, sampling: Sampling, *, observations: bool
    ) -> tuple[Any, ServerSequences]:
        if not self._chats:
            return super()._make_sequences(sampling, observations=observations)
        from timely_llm_ros.engines.openai.chat_sequences import ChatSequences, ChatTexts

        texts = ChatTexts()
        return texts, ChatSequences(texts, sampling, observations=observations)

    async def _measure(self) -> ExecutionTimeModel | None:
        return None if self._chats else await super()._measure()

    @property
    def _chats(self) -> bool:
        """Whether the servers have only chats."""
        return self.options.api == 'chat'

    def _describe(self, served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        capacity = self._config.max_kv_tokens * len(self.options.urls)
        return EngineInfo(
            'openai',
            served.name,
            0,
            'as served',
            0 if self._chats else vocabulary,
            capacity,
            load_s,
            tokenizer='' if self._chats else find_model(self._config.model_path),
            messages=self._chats,
        )


def _is_local(url: str) -> bool:
    return url.split('://')[1].split(':')[0].split('/')[0] in ('127.0.0.1', 'localhost', '[::1]')
