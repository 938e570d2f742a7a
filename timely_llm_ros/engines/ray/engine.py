"""The engine ``ray``: other engines as replicas on a Ray cluster.

Each replica schedules for itself, next to its model. This end chooses the replica of each new
generation and passes everything else on. Where a replica is lost, its generations go on elsewhere.
This module imports no Ray.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import Cancel, Resume, RobotIdleAt, Submit, Warm
from timely_llm_ros.engines.core import REPEATED, STATE_PERIOD_S
from timely_llm_ros.engines.engine import (
    Engine,
    EngineFailed,
    EngineReady,
    EngineStateChanged,
    GenerationEnded,
    deliver,
)
from timely_llm_ros.engines.ray.journey import Journey
from timely_llm_ros.engines.ray.link import Calls, Link
from timely_llm_ros.engines.ray.running import listen, unlisten
from timely_llm_ros.engines.ray.summary import summary
from timely_llm_ros.engines.ray.warm_at import WarmAt
from timely_llm_ros.errors import EngineError, ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.engines.config import EngineConfig
    from timely_llm_ros.engines.engine import EndReason, EngineEvent, EngineInfo
    from timely_llm_ros.engines.ray.config import RayConfig
    from timely_llm_ros.engines.ray.running import Listener

_logger = logging.getLogger(__name__)

MOST_LOSSES = 5
"""A generation with which more replicas were lost is not tried again."""

RELINK_S = 1.0
"""Pause before a replica that runs but was lost is tried again (s)."""


class RayEngine(Engine):
    """Generates on replicas, which the first planner of an app starts.

    Args:
        config: The options of the cluster and of the replicas.
        make: Makes a replica's engine of its options.
        find: Returns a handle of the replicas, as Ray Serve's are, and has what it is given told
            the names of those that run; None for the cluster's.
    """

    def __init__(
        self,
        config: RayConfig,
        make: Callable[[EngineConfig], Engine],
        find: Callable[[Listener], Awaitable[Any]] | None = None,
    ) -> None:
        self._options, self._config, self._make = config.ray, config.replica, make
        self._find = find or self._on_cluster
        self._name = uuid.uuid4().hex[:12]
        self._on_event: Callable[[EngineEvent], None] | None = None
        self._begun = False
        self._info: EngineInfo | None = None
        self._calls: Calls | None = None
        self._running: frozenset[str] = frozenset()
        self._links: dict[str, Link] = {}
        self._losses: dict[str, int] = {}
        self._journeys: dict[str, Journey] = {}
        self._scenes = WarmAt()
        self._first = asyncio.Event()
        self._give_up: asyncio.TimerHandle | None = None
        self._failed = False
        self._state_timer: asyncio.TimerHandle | None = None
        self._state_at_s = -STATE_PERIOD_S
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def doing(self) -> str:
        """What it does while it starts."""
        return 'waiting for a replica'

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Join the cluster, have replicas started where there are none, and wait for the first.

        Raises:
            ConfigurationError: There is no Ray Serve here.
            ModelLoadError: There is no such cluster, or no replica is there in time.
            EngineError: This is a second call.
        """
        if self._begun:
            raise EngineError('start() a second time: expected one call')
        self._begun = True
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        started_s = self._loop.time()
        try:
            self._calls = Calls(await self._find(self._heard))
            # Where another engine of this process has a router, they are known already.
            self._replicas(self._running)
            await self._first_replica()
        except BaseException:
            await self.close()
            raise
        hello = next(link.hello for link in self._links.values() if link.ready)
        assert hello is not None  # noqa: S101  A link that is ready has heard it.
        load_s = self._loop.time() - started_s
        self._info = replace(hello.info, engine='ray', load_s=load_s, reschedules=False)
        self._state_due()
        return self._info

    async def close(self) -> None:
        """Leave the replicas, which stay; no event comes after this."""
        self._on_event = None
        for timer in (self._give_up, self._state_timer):
            if timer is not None:
                timer.cancel()
        unlisten(self._options.app, self._heard)
        links, self._links = self._links, {}
        await asyncio.gather(*(link.close() for link in links.values()), *self._closing)

    def send(self, command: Command) -> None:
        """Pass a command to its generation's replica; a new one goes where it is served soonest."""
        match command:
            case Submit(request):
                self._submit(request)
            case Warm():
                self._warm(command)
            case _:
                journey = self._journeys.get(command.generation_id)
                if journey is None:
                    return
                link = self._links.get(journey.replica)
                for one in journey.command(command):
                    if link is not None:
                        link.send(one)
                    elif isinstance(one, Cancel):
                        self._end(one.generation_id, 'canceled', '')

    # Generations ---------------------------------------------------------------------------------

    def _submit(self, request: GenerationRequest) -> None:
        name = request.generation_id
        if self._info is None or self._failed:
            ended = GenerationEnded(name, 'error', 'the engine is not running', 0, 0.0)
            asyncio.get_running_loop().call_soon(self._tell, ended)
            return
        old = self._journeys.get(name)
        if old is None:
            self._journeys[name] = journey = Journey(request)
            self._place(journey)
            return
        ended = GenerationEnded(name, 'error', REPEATED, 0, 0.0)
        asyncio.get_running_loop().call_soon(self._tell, ended)
        link = self._links.get(old.replica)
        self._journeys[name] = Journey(request) if link is None else old.repeat(request)
        if link is not None:
            link.send(Submit(request))

    def _place(self, journey: Journey) -> None:
        """Send a generation to a replica, or let it wait where there is none."""
        link = self._soonest(journey.request)
        if link is None or link.load is None:
            return
        warm = link.name == self._scenes.of(journey.request)
        link.load.sent(journey.request, self._loop.time(), warm=warm)
        for command in journey.begin(link.name):
            link.send(command)

    def _place_waiting(self) -> None:
        for journey in self._journeys.values():
            if not journey.replica:
                self._place(journey)

    def _soonest(self, request: GenerationRequest) -> Link | None:
        """Return the replica that is predicted to have its first segment soonest."""
        warm_at, now_s = self._scenes.of(request), self._loop.time()
        found = [
            (
                link.load.first_segment_s(request, now_s, warm=link.name == warm_at),
                link.load.generations,
                name,
            )
            for name, link in self._links.items()
            if link.ready and not link.draining and link.load is not None
        ]
        return self._links[min(found)[2]] if found else None

    def _warm(self, command: Warm) -> None:
        """Have a scene warmed where it was before, else where the fewest are."""
        open_to_new = [name for name, one in self._links.items() if one.ready and not one.draining]
        there = self._scenes.place(command, self._links, open_to_new)
        if there:
            self._links[there].send(command)

    def _end(self, name: str, reason: EndReason, error: str) -> None:
        if self._journeys.pop(name, None) is not None:
            self._tell(GenerationEnded(name, reason, error, 0, 0.0))

    # Replicas ------------------------------------------------------------------------------------

    async def _on_cluster(self, heard: Listener) -> Any:
        return await asyncio.to_thread(self._connected, heard)

    def _connected(self, heard: Listener) -> Any:
        """Return the handle of the cluster's replicas, started where there are none."""
        from timely_llm_ros.engines.ray.cluster import connect, deploy, find

        connect(self._options.address)
        handle = find(self._options.app)
        if handle is None:
            handle = deploy(self._make, self._config, self._options)
        listen(self._options.app, heard)
        # That makes its router, and with it the list of replicas. Calls go from process to process:
        # through Ray's store of objects they take longer and cost a planner more.
        return handle.options(method_name='send', _by_reference=False)

    def _heard(self, names: frozenset[str]) -> None:
        """Take the names of the running replicas, on whichever thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._replicas, names)

    def _replicas(self, names: frozenset[str]) -> None:
        if self._on_event is None:
            return
        self._running = names
        for name in sorted(names - self._links.keys()):
            self._link(name)
        for name in names & self._links.keys():
            self._links[name].draining = False
        for name in sorted(self._links.keys() - names):
            self._links[name].draining = True
            self._leave_if_empty(name)
        # One that was to stop may run on after all.
        self._place_waiting()
        self._state_due()

    def _link(self, name: str) -> None:
        if self._on_event is None or self._calls is None or name not in self._running:
            return
        if name not in self._links:
            self._links[name] = Link(
                name,
                self._calls,
                self._name,
                on_event=self._on_replica_event,
                on_ready=self._on_ready,
                on_lost=self._on_lost,
            )

    async def _first_replica(self) -> None:
        from timely_llm_ros.engines.ray.cluster import trouble

        app, limit_s = self._options.app, self._options.start_limit_s
        end_s = self._loop.time() + limit_s
        while not self._first.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._first.wait()
                    return
            error = await asyncio.to_thread(trouble, app)
            if error or self._loop.time() > end_s:
                raise ModelLoadError(
                    f'no replica of {app!r} after {limit_s:g} s: {error or "none is running"}; '
                    'expected one, see "timely-llm cluster status"'
                )

    def _on_ready(self, link: Link) -> None:
        _logger.info('replica %s is there', link.name)
        self._state_due()
        self._first.set()
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        self._place_waiting()
        if self._failed and self._info is not None:
            self._failed = False
            self._tell(EngineReady(self._info))

    def _on_lost(self, link: Link, error: str) -> None:
        """Have a lost replica's generations go on elsewhere."""
        if self._links.get(link.name) is not link:
            return
        del self._links[link.name]
        self._losses[link.name] = self._losses.get(link.name, 0) + 1
        self._later(link.close())
        moved = [one for one in self._journeys.values() if one.replica == link.name]
        _logger.warning(
            'replica %s is lost: %s; %d generations go on elsewhere', link.name, error, len(moved)
        )
        for journey in moved:
            journey.replica = ''
            journey.losses += 1
            if journey.losses > MOST_LOSSES:
                # It may be what they die of.
                text = f'{journey.losses} replicas were lost with it, the last one: {error}'
                self._end(journey.request.generation_id, 'error', text)
            else:
                self._place(journey)
        for command in self._scenes.at(link.name):
            self._warm(command)
        self._loop.call_later(RELINK_S, self._link, link.name)
        self._left(error)

    def _left(self, error: str) -> None:
        """Note that there is one replica less; where it was the last, one has to come in time."""
        if self._give_up is None and not any(one.ready for one in self._links.values()):
            self._give_up = self._loop.call_later(self._options.give_up_s, self._give_up_all, error)
        self._state_due()

    def _give_up_all(self, error: str) -> None:
        """Report that no replica came for too long, and end every generation."""
        self._give_up = None
        if self._info is None:
            return
        self._failed = True
        error = f'no replica for {self._options.give_up_s:g} s: {error}'
        self._tell(EngineFailed(error))
        for name in sorted(self._journeys):
            self._end(name, 'error', error)

    def _leave_if_empty(self, name: str) -> None:
        """Leave a replica that drains once this planner has nothing there: it can stop then."""
        link = self._links.get(name)
        if link is None or not link.draining:
            return
        if not any(journey.replica == name for journey in self._journeys.values()):
            del self._links[name]
            self._later(link.close())
            self._left(f'replica {name} was drained')

    def _later(self, closing: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # Events --------------------------------------------------------------------------------------

    def _on_replica_event(self, link: Link, event: EngineEvent) -> None:
        match event:
            case EngineStateChanged(state):
                link.state = state
                if link.load is not None:
                    link.load.report(state, self._loop.time())
                self._state_due()
            case EngineFailed() | EngineReady():
                pass
            case _:
                name = event.generation_id
                journey = self._journeys.get(name)
                if journey is None or journey.replica != link.name:
                    return
                for one in journey.event(event):
                    if isinstance(one, Cancel | Resume | RobotIdleAt):
                        link.send(one)
                    else:
                        self._pass(link, one)

    def _pass(self, link: Link, event: EngineEvent) -> None:
        match event:
            case GenerationEnded(name):
                self._journeys.pop(name, None)
                self._tell(event)
                self._leave_if_empty(link.name)
            case _:
                self._tell(event)

    def _state_due(self) -> None:
        if self._state_timer is None and self._info is not None and self._on_event is not None:
            due_s = self._state_at_s + STATE_PERIOD_S
            self._state_timer = self._loop.call_at(due_s, self._tell_state)

    def _tell_state(self) -> None:
        self._state_timer = None
        self._state_at_s = self._loop.time()
        waiting = sum(not one.replica for one in self._journeys.values())
        counts = Counter(one.replica for one in self._journeys.values())
        self._tell(EngineStateChanged(summary(self._links, counts, self._losses, waiting)))

    def _tell(self, event: EngineEvent) -> None:
        if self._on_event is not None:
            deliver(self._on_event, event)
