"""Replicas of the engine ``ray`` in one process, so that they run on virtual time.

The engine of each planner, its choice of replicas, the batches between them and the replicas are
the real ones. Only Ray Serve is not there: a call reaches its replica after an assumed time.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines import create_engine
from timely_llm_ros.engines.ray import EngineReplica, RayConfig, RayEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from timely_llm_ros.engines.simulated import SimulatedConfig

CALL_S = 0.005
"""From a planner to a replica, and back (s): assumed."""


class Replicas:
    """Some replicas of a simulated engine, and what a handle of Ray Serve is to their planners.

    Args:
        config: Each replica's engine.
        number: How many there are.
    """

    def __init__(self, config: SimulatedConfig, number: int) -> None:
        self._config, self._number = config, number
        self._replicas: dict[str, EngineReplica] = {}

    def engine(self) -> RayEngine:
        """Return a planner's engine, which shares the replicas with those of others."""
        return RayEngine(RayConfig(given=self._config), create_engine, self._find)

    def options(self, *, method_name: str, stream: bool = False) -> _Method:
        """Return one of the replicas' methods."""
        return _Method(self._replicas, method_name, stream)

    async def _find(self, heard: Callable[[frozenset[str]], None]) -> Replicas:
        """Return this, with the replicas made if they are not there, and tell their names."""
        if not self._replicas:
            now = asyncio.get_running_loop().time
            for number in range(self._number):
                self._replicas[f'replica_{number}'] = one = EngineReplica.__new__(EngineReplica)
                # Serve awaits it too.
                await one.__init__(create_engine, self._config, now)  # type: ignore[misc]
        heard(frozenset(self._replicas))
        return self


@dataclass(frozen=True, slots=True)
class _Method:
    replicas: dict[str, EngineReplica]
    name: str
    stream: bool

    def remote(self, replica: str, *arguments: Any) -> Awaitable[Any] | _Stream:
        """Call it on the replica that the first argument names."""
        method = partial(getattr(self.replicas[replica], self.name), replica, *arguments)
        return _Stream(method()) if self.stream else _called(method)


async def _called(method: Callable[[], Awaitable[Any]]) -> Any:
    await asyncio.sleep(CALL_S)
    answer = await method()
    await asyncio.sleep(CALL_S)
    return answer


class _Stream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Any]:
        async with aclosing(self._stream):
            async for one in self._stream:
                await asyncio.sleep(CALL_S)
                yield one

    def cancel(self) -> None:
        """Nothing: here its reader's cancellation has ended it already."""
