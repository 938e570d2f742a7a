"""The planner's end of one replica: a stream of its events, and batches of commands to it."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import RobotIdleAt
from timely_llm_ros.engines.ray.routing import ReplicaLoad
from timely_llm_ros.engines.ray.wire import HEARTBEAT_S, SILENCE_S, ClockDifference, Hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.engine import EngineEvent, EngineState

CORRECTION_S = 0.05
"""How long a correction of when a robot is idle waits for other commands to go with (s)."""


class Link:
    """A replica as a planner has it.

    Args:
        name: The replica's name.
        calls: Calls methods of replicas, and streams of them.
        planner: This planner's name.
        on_event: Called with each of its events.
        on_ready: Called once its clock and what it runs are known.
        on_lost: Called once, with the reason; it is closed then.
    """

    def __init__(
        self,
        name: str,
        calls: Calls,
        planner: str,
        *,
        on_event: Callable[[Link, EngineEvent], None],
        on_ready: Callable[[Link], None],
        on_lost: Callable[[Link, str], None],
    ) -> None:
        self.name = name
        self._calls, self._planner = calls, planner
        self._on_event, self._on_ready, self._on_lost = on_event, on_ready, on_lost
        self.hello: Hello | None = None
        """What it runs; None before its first word."""
        self.load: ReplicaLoad | None = None
        """Its work; None before its first word."""
        self.state: EngineState | None = None
        """Its latest state."""
        self.ready = False
        """Whether generations can be sent there."""
        self.draining = False
        """Whether it takes no new ones, because it is to stop."""
        self._clock = ClockDifference()
        self._commands: list[Command] = []
        self._correction: asyncio.TimerHandle | None = None
        """Sends the corrections that wait for other commands."""
        self._some = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._now_s = loop.time
        self._tasks = [
            loop.create_task(self._guard(part), name=f'replica {name}')
            for part in (self._read, self._write)
        ]

    def send(self, command: Command) -> None:
        """Queue a command; it goes with the next batch, for which a correction may wait a little.

        There is a correction for every segment, and a call costs more than it is worth.
        """
        self._commands.append(command)
        if not isinstance(command, RobotIdleAt):
            self._some.set()
        elif self._correction is None:
            loop = asyncio.get_running_loop()
            self._correction = loop.call_later(CORRECTION_S, self._some.set)

    async def close(self) -> None:
        """Leave the replica, which ends the generations that are still there."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _guard(self, part: Callable[[], Any]) -> None:
        try:
            await part()
            error = 'it ended its stream'
        except TimeoutError:
            error = f'not a word for {SILENCE_S:g} s'
        except Exception as err:  # noqa: BLE001  Ray has many; each means that it is gone
            lines = str(err).splitlines()
            error = f'{type(err).__name__}: {lines[0] if lines else ""}'
        if self._tasks:
            me, others = asyncio.current_task(), self._tasks
            self._tasks = []
            for task in others:
                if task is not me:
                    task.cancel()
            self._on_lost(self, error)

    async def _read(self) -> None:
        async with aclosing(self._calls.stream('events', self.name, self._planner)) as stream:
            while True:
                async with asyncio.timeout(SILENCE_S if self.hello else None):
                    data = await anext(stream, None)
                if data is None:
                    return
                for event in pickle.loads(data):  # noqa: S301 -- of a replica of ours
                    if isinstance(event, Hello):
                        self.hello = event
                        self.load = ReplicaLoad(event.info, event.places)
                        self._some.set()
                    else:
                        self._on_event(self, self._clock.ours(event))

    async def _write(self) -> None:
        """Send one batch after the other, so that no command overtakes another."""
        loop = asyncio.get_running_loop()
        while True:
            heartbeat = loop.call_later(HEARTBEAT_S, self._some.set)
            await self._some.wait()
            heartbeat.cancel()
            self._some.clear()
            if self.hello is None:
                continue
            batch, self._commands = self._commands, []
            if self._correction is not None:
                self._correction.cancel()
                self._correction = None
            data = pickle.dumps([self._clock.theirs(one) for one in batch], -1)
            asked_s = self._now_s()
            async with asyncio.timeout(SILENCE_S):
                theirs_s = await self._calls.call('send', self.name, self._planner, data)
            self._clock.observe(asked_s, self._now_s(), theirs_s)
            if not self.ready:
                self.ready = True
                self._on_ready(self)


class Calls:
    """Calls of replicas through a deployment's handle; each names its replica first."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method and return what it returns."""
        return await self._handle.options(method_name=method).remote(*arguments)

    async def stream(self, method: str, *arguments: Any) -> Any:
        """Yield what a method yields; leaving early ends it there."""
        answer = self._handle.options(method_name=method, stream=True).remote(*arguments)
        try:
            async for one in answer:
                yield one
        finally:
            answer.cancel()
