"""The engine ``vllm``: with our scheduler inside where it fits the installed vLLM, else without.

Which of the two serves is found out at start, because looking at vLLM means importing it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import Engine
from timely_llm_ros.engines.vllm.engine import VllmEngine
from timely_llm_ros.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.engine import EngineEvent, EngineInfo
    from timely_llm_ros.engines.vllm.config import VllmConfig

_logger = logging.getLogger(__name__)


class VllmWithFallback(Engine):
    """Generates with :class:`VllmEngine`, or with ``StockVllmEngine`` if vLLM is another one."""

    def __init__(self, config: VllmConfig) -> None:
        self._config = config
        self._engine: Engine = VllmEngine(config)

    @property
    def doing(self) -> str:
        """What the one that serves does while it starts."""
        return self._engine.doing

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Start vLLM and wait until its model is loaded.

        Raises:
            ConfigurationError: There is no vLLM.
            ModelLoadError: The model cannot be loaded.
        """
        try:
            return await self._engine.start(on_event)
        except ContractError as err:
            from timely_llm_ros.engines.vllm.stock import StockVllmEngine

            _logger.warning(
                "engine vllm: vLLM's own scheduler serves, a request for each segment: %s. Plans "
                'are the same; each segment costs a little more, and nothing but vLLM knows which '
                'KV it keeps',
                err,
            )
            self._engine = StockVllmEngine(self._config)
            return await self._engine.start(on_event)

    async def close(self) -> None:
        """End vLLM; no event comes after this."""
        await self._engine.close()

    def send(self, command: Command) -> None:
        """Pass a command on."""
        self._engine.send(command)
