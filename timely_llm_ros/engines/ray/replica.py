"""A replica: an engine as a deployment of Ray Serve, for the planners that come to it.

It runs on the cluster, where Serve starts it, watches it and replaces it. A planner has one stream
of its events and sends it batches of commands.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import Cancel, Submit
from timely_llm_ros.engines.engine import (
    EngineFailed,
    EngineReady,
    EngineStateChanged,
    GenerationEnded,
)
from timely_llm_ros.engines.ray.autoscaling import work_of
from timely_llm_ros.engines.ray.wire import HEARTBEAT_S, SILENCE_S, Hello
from timely_llm_ros.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.config import EngineConfig
    from timely_llm_ros.engines.engine import Engine, EngineEvent


class _Planner:
    """A planner's events that are not sent yet, and its generations."""

    def __init__(self, now_s: float) -> None:
        self.heard_s = now_s
        self.generations: set[str] = set()
        self._events: list[EngineEvent | Hello] = []
        self._some = asyncio.Event()

    def put(self, event: EngineEvent | Hello) -> None:
        self._events.append(event)
        self._some.set()

    async def take(self) -> list[EngineEvent | Hello]:
        """Return the events since the last call, none after a while without one."""
        heartbeat = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._some.set)
        await self._some.wait()
        heartbeat.cancel()
        self._some.clear()
        events, self._events = self._events, []
        return events


class EngineReplica:
    """An engine for several planners. If it breaks down, the replica ends and Serve makes another.

    Args:
        make: Makes an engine of its options.
        config: The engine's options.
        now: Returns the time on the engine's clock (s).
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        make: Callable[[EngineConfig], Engine],
        config: EngineConfig,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._planners: dict[str, _Planner] = {}
        self._owners: dict[str, deque[_Planner]] = {}
        self._state: EngineStateChanged | None = None
        self._engine = make(config)
        info = await self._engine.start(self._on_event)
        self._hello = Hello(info, config.max_running)

    async def events(self, replica: str, planner: str) -> AsyncIterator[bytes]:  # noqa: ARG002  the router reads the first one
        """Yield batches of a planner's events until it leaves; its generations end with that."""
        self._leave(planner)
        self._planners[planner] = one = _Planner(self._now())
        one.put(self._hello)
        if self._state is not None:
            one.put(self._state)
        try:
            while self._now() < one.heard_s + SILENCE_S:
                yield pickle.dumps(await one.take(), pickle.HIGHEST_PROTOCOL)
        finally:
            if self._planners.get(planner) is one:
                self._leave(planner)

    async def send(self, replica: str, planner: str, commands: bytes) -> float:  # noqa: ARG002
        """Do what a planner asks for, in its order; return the time on this machine's clock (s).

        Raises:
            EngineError: The planner's stream is not open.
        """
        one = self._planners.get(planner)
        if one is None:
            raise EngineError(f'planner {planner!r}: expected its stream of events to be open')
        one.heard_s = self._now()
        for command in pickle.loads(commands):  # noqa: S301 -- Ray's own calls are pickles as well
            self._apply(one, command)
        return self._now()

    async def count(self, replica: str) -> tuple[int, int]:  # noqa: ARG002
        """Return how many planners are here, and how many generations they have."""
        return len(self._planners), len(self._owners)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return what Serve's autoscaler is told of the work here; Serve calls it."""
        return work_of(None if self._state is None else self._state.state, self._hello.places)

    def _apply(self, planner: _Planner, command: Command) -> None:
        new = isinstance(command, Submit)
        name = (
            command.request.generation_id if isinstance(command, Submit) else command.generation_id
        )
        owners = self._owners.get(name)
        owner = owners[-1] if owners else None
        other = owner is not planner and owner in self._planners.values()
        if new:
            if other:
                error = f'generation {name!r}: expected an id that no other planner has'
                planner.put(GenerationEnded(name, 'error', error, 0, 0.0))
                return
            # Of two with one id the engine ends the older one first.
            self._owners.setdefault(name, deque()).append(planner)
            planner.generations.add(name)
        elif other:
            return
        self._engine.send(command)

    def _leave(self, planner: str) -> None:
        one = self._planners.pop(planner, None)
        for name in () if one is None else tuple(one.generations):
            self._engine.send(Cancel(name))

    def _on_event(self, event: EngineEvent) -> None:
        match event:
            case EngineFailed(error):
                # Its planners go on elsewhere, which they would not if it said that all had ended.
                print(f'the engine broke down: {error}', file=sys.stderr, flush=True)
                os._exit(1)
            case EngineReady():
                pass
            case EngineStateChanged():
                self._state = event
                for planner in self._planners.values():
                    planner.put(self._seen_by(planner, event))
            case _:
                owners = self._owners.get(event.generation_id)
                if owners:
                    owners[0].put(event)
                    if isinstance(event, GenerationEnded):
                        self._ended(event.generation_id, owners)

    def _ended(self, name: str, owners: deque[_Planner]) -> None:
        owner = owners.popleft()
        if owner not in owners:
            owner.generations.discard(name)
        if not owners:
            del self._owners[name]

    @staticmethod
    def _seen_by(planner: _Planner, event: EngineStateChanged) -> EngineStateChanged:
        """Return the state with that planner's generations alone; its counts are of all."""
        state = event.state
        own = tuple(one for one in state.generations if one.generation_id in planner.generations)
        return EngineStateChanged(replace(state, generations=own))
