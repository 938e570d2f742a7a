"""An engine whose model is elsewhere, on servers of completions.

It schedules and cuts segments by the same code as every other engine. It suspends a generation by
ending its request and resumes it by a new one with all its token ids; the server's prefix cache has
the KV. So a server that dies loses nothing: another one goes on from the token ids, or the same one
when it is back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import Cancel, Reschedule, RobotIdleAt, Submit, Suspend
from timely_llm_ros.engines.core import STATE_PERIOD_S
from timely_llm_ros.engines.engine import (
    MEASURING,
    Engine,
    EngineFailed,
    EngineReady,
    EngineState,
    EngineStateChanged,
    GenerationEnded,
    deliver,
)
from timely_llm_ros.engines.openai.core import UNKNOWN_STEP_S, ServerCore
from timely_llm_ros.errors import EngineError, ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.config import ModelConfig
    from timely_llm_ros.engines.core import Generation
    from timely_llm_ros.engines.engine import EngineEvent, EngineInfo
    from timely_llm_ros.engines.openai.completions import Completions, ServedModel
    from timely_llm_ros.engines.openai.sequences import ServerSequences
    from timely_llm_ros.engines.openai.server import Server
    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.prediction.times import ExecutionTimeModel

_logger = logging.getLogger(__name__)

_WHOLE_PROMPT = 1 << 30


class ServersEngine(Engine):
    """Generates on servers, which a subclass names by :meth:`_connect` and :meth:`_describe`.

    Args:
        config: The options of an engine with a model; ``model_path`` is the folder of the servers'
            tokenizer, and the bounds are those of each server.
        start_limit_s: How long the first server may take to be well (s).
        health_period_s: How often each is asked whether it is well (s).
        give_up_s: With no server for so long (s), every generation ends with an error.
        priority: Whether requests carry their due time.
        adapters: Skill sets whose requests name them as their ``model``.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        start_limit_s: float,
        health_period_s: float,
        give_up_s: float,
        priority: bool = False,
        adapters: Collection[str] = (),
    ) -> None:
        self._config = config
        self._start_limit_s, self._health_period_s = start_limit_s, health_period_s
        self._give_up_s, self._priority, self._adapters = give_up_s, priority, adapters
        self._servers: list[Server] = []
        self._server_of: dict[str, Server] = {}
        self._on_event: Callable[[EngineEvent], None] | None = None
        self._info: EngineInfo | None = None
        self._doing = 'waiting for a server'
        self._changed, self._first = asyncio.Event(), asyncio.Event()
        self._given_up = False
        self._run: asyncio.Task[None] | None = None
        self._give_up: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._state_at_s = 0.0
        self._state_timer: asyncio.TimerHandle | None = None

    @property
    def doing(self) -> str:
        """What it does while it starts."""
        return self._doing

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Connect, and wait until one server is well; the others may come later.

        Raises:
            ModelLoadError: No server is in time, or one serves something else than it should.
            ConfigurationError: The API key or the certificates cannot be read.
            EngineError: It was started before.
        """
        if self._on_event is not None or self._servers:
            raise EngineError('start() a second time: expected one call')
        started_s = time.monotonic()
        self._on_event = on_event
        try:
            self._make_servers()
            self._run = asyncio.create_task(self._serve(), name='servers engine')
            for server in self._servers:
                server.start()
            await self._first_server()
            times = await self._measure() if self._config.measure else None
        except BaseException:
            await self.close()
            raise
        served = next(server.served for server in self._servers if server.served)
        load_s = time.monotonic() - started_s
        self._info = replace(
            self._describe(served, self._vocabulary, load_s),
            times=times,
            context_tokens=min(served.context_limit, self._config.max_kv_tokens),
        )
        self._changed.set()
        return self._info

    async def close(self) -> None:
        """Leave every server; no event comes after this."""
        self._on_event = None
        for timer in (self._give_up, self._state_timer):
            if timer is not None:
                timer.cancel()
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)
        await asyncio.gather(*(server.close() for server in self._servers), *self._closing)

    def send(self, command: Command) -> None:
        """Pass a command to its generation's server; a new one goes where it ends soonest."""
        if isinstance(command, Reschedule):
            # A server that is added later begins with it.
            self._config = replace(
                self._config, policy=command.policy, scheduling=command.scheduling
            )
            for each in self._servers:
                each.core.generations.apply(command)
                each.pump()
            self._changed.set()
            return
        if isinstance(command, Submit):
            server = self._server_for(command.request.generation_id)
        else:
            server = self._server_of.get(command.generation_id)
        if server is None:
            return
        server.core.generations.apply(command)
        if isinstance(command, Suspend | Cancel):
            server.pump()
        if not isinstance(command, RobotIdleAt):
            self._changed.set()

    def _server_for(self, name: str) -> Server | None:
        """Return the server for a new generation, which ends with ``error`` if there is none."""
        if self._info is None or self._given_up:
            ended = GenerationEnded(name, 'error', 'the engine is not running', 0, 0.0)
            asyncio.get_running_loop().call_soon(self._tell, ended)
            return None
        server = self._server_of.get(name) or self._soonest()
        self._server_of[name] = server
        return server

    # Servers -------------------------------------------------------------------------------------

    def _connect(self) -> Sequence[Completions]:
        """Return the servers, not connected yet; a TimelyError where what they need is missing."""
        raise NotImplementedError

    def _make_sequences(
        self, sampling: Sampling, *, observations: bool
    ) -> tuple[Any, ServerSequences]:
        """Return the tokenizer, and what keeps generations; ModelLoadError for a bad folder."""
        from timely_llm_ros.engines.openai.sequences import ServerSequences
        from timely_llm_ros.engines.texts import ServerTexts

        texts = ServerTexts(self._config.model_path)
        return texts, ServerSequences(
            texts, sampling, observations=observations, adapters=self._adapters
        )

    def _describe(self, served: ServedModel, vocabulary: int, load_s: float) -> EngineInfo:
        """Return what runs there; called once one server is well."""
        raise NotImplementedError

    async def _measure(self) -> ExecutionTimeModel | None:
        """Time a server that is well; None where that cannot be done."""
        from timely_llm_ros.engines.openai.served_times import measure_times, times_or_none

        server = next(server for server in self._servers if server.well)
        self._doing = MEASURING
        times = measure_times(
            server.client.tokens,
            vocabulary=self._vocabulary,
            context_limit=server.served.context_limit if server.served else 0,
            max_running=self._config.max_running,
            kv_tokens=self._config.max_kv_tokens,
        )
        return await times_or_none(server.url, times)

    def _make_servers(self) -> None:
        # Only engines like this one need these packages.
        try:
            from timely_llm_ros.engines.openai.server import Server

            clients = self._connect()
            texts, sequences = self._make_sequences(
                self._config.sampling, observations=self._config.mode != 'whole_plan'
            )
        except ImportError as err:
            raise ModelLoadError(f'{err}; expected the packages of the extra "openai"') from err
        self._vocabulary = texts.size

        def make(client: Completions) -> Server:
            options = replace(self._config.core_options(), prefill_chunk=_WHOLE_PROMPT)
            return Server(
                client,
                ServerCore(sequences, options),
                sequences,
                texts,
                segmented=self._config.mode == 'segmented',
                priority=self._priority,
                health_period_s=self._health_period_s,
                give_up_s=self._give_up_s,
                on_change=self._changed.set,
                on_lost=self._on_lost,
                on_unreached=self._on_unreached,
                on_trouble=self._on_trouble,
                on_well=self._on_well,
            )

        self._make_server = make
        self._servers += map(make, clients)

    async def _first_server(self) -> None:
        """Wait for the first server that is well."""
        end_s = time.monotonic() + self._start_limit_s
        while True:
            for server in self._servers:
                if server.mismatch is not None:
                    raise server.mismatch
            if any(server.well for server in self._servers):
                return
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                errors = '; '.join(server.error for server in self._servers)
                raise ModelLoadError(
                    f'no server after {self._start_limit_s:g} s: {errors}; expected a '
                    'server there, started for example by "timely-llm serve"'
                )
            self._first.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._first.wait()

    @property
    def _takers(self) -> list[Server]:
        """The servers that are well and get new generations."""
        return [server for server in self._servers if server.well and not server.drains]

    def _soonest(self, servers: Sequence[Server] = ()) -> Server:
        """Return which of these, or of those well, has one more generation's token first."""
        servers = servers or self._takers or [it for it in self._servers if not it.drains]
        # A server never seen at work counts as the fastest, so that it is tried and known.
        steps_s = [server.core.generations.step_times.expected_s(1) for server in servers]
        usual_s = min((step_s for step_s in steps_s if step_s), default=UNKNOWN_STEP_S)
        most = self._config.max_running
        return min(servers, key=lambda it: (it.core.token_s(most, usual_s), it.core.contenders))

    def _on_lost(self, lost: Server) -> None:
        """Move a lost server's generations to the others; without one they wait."""
        if self._takers:
            self._move(lost, list(lost.core.generations))
        self._expect_server()

    def _on_unreached(self, server: Server) -> None:
        """Say at once of whom nothing is heard: the start may wait for long."""
        limit = (
            f'for up to {self._start_limit_s:g} s' if self._info is None else 'until it is there'
        )
        _logger.warning('server not reached: %s; it is tried again %s', server.error, limit)

    def _expect_server(self) -> None:
        """Let the time run after which generations end, if there is no server that is well."""
        if not self._takers and self._give_up is None and self._info is not None:
            loop = asyncio.get_running_loop()
            self._give_up = loop.call_later(self._give_up_s, self._give_up_all)
        self._changed.set()

    def _on_well(self) -> None:
        """Move the generations of lost servers to a server that is well now."""
        self._changed.set()
        if not self._takers:
            return
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        for other in self._servers:
            if not other.well:
                self._move(other, list(other.core.generations))
        if self._given_up and self._info is not None:
            self._given_up = False
            self._tell(EngineReady(self._info))

    def _on_trouble(self, server: Server, generation: Generation) -> None:
        """Move a generation whose requests fail where it is, if there is another server."""
        others = [other for other in self._takers if other is not server]
        if others and generation.generation_id in server.core.generations:
            self._move(server, [generation], others)

    def _move(
        self, source: Server, generations: Sequence[Generation], to: Sequence[Server] = ()
    ) -> None:
        for generation in generations:
            server = self._soonest(to)
            server.take_over(generation, source)
            self._server_of[generation.generation_id] = server
        if generations:
            _logger.warning('%d generations of %s go on elsewhere', len(generations), source.url)
            self._changed.set()

    def _drain(self) -> None:
        """Move what servers that drain do not compute just now, if there is another server."""
        for server in self._servers:
            if server.drains and self._takers:
                self._move(server, server.idle_generations)

    def _leave_drained(self) -> None:
        """Leave servers that drain and have nothing more to do."""
        for server in tuple(self._servers):
            if server.drains and not list(server.core.generations):
                _logger.info('server %s: drained', server.url)
                self._servers.remove(server)
                task = asyncio.create_task(server.close(), name=f'close {server.url}')
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    def _give_up_all(self) -> None:
        """Report that no server came for too long, and end every generation."""
        self._give_up = None
        if self._takers:
            return
        self._given_up = True
        error = f'no server for {self._give_up_s:g} s: ' + '; '.join(
            server.error for server in self._servers
        )
        self._tell(EngineFailed(error))
        for server in self._servers:
            for generation in list(server.core.generations):
                server.core.generations.end(generation, 'error', error)
        self._changed.set()

    # Events --------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Let the policy choose whenever something changed, and send events."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._first.set()
            self._drain()
            for server in self._servers:
                server.pump()
            for server in self._servers:
                for event in server.core.generations.take_events():
                    if isinstance(event, GenerationEnded):
                        self._forget(event)
                    self._tell(event)
            self._leave_drained()
            now_s = time.monotonic()
            if now_s >= self._state_at_s + STATE_PERIOD_S:
                self._state_at_s = now_s
                self._tell(EngineStateChanged(self._state(now_s)))
            elif self._state_timer is None:
                self._state_timer = asyncio.get_running_loop().call_later(
                    self._state_at_s + STATE_PERIOD_S - now_s, self._state_due
                )

    def _state_due(self) -> None:
        self._state_timer = None
        self._changed.set()

    def _forget(self, event: GenerationEnded) -> None:
        server = self._server_of.get(event.generation_id)
        if server is not None and event.generation_id not in server.core.generations:
            del self._server_of[event.generation_id]

    def _tell(self, event: EngineEvent) -> None:
        known = self._info is not None or not isinstance(event, EngineStateChanged)
        if self._on_event is not None and known:
            deliver(self._on_event, event)

    def _state(self, now_s: float) -> EngineState:
        """Return the state of all servers together."""
        states = [server.core.generations.state(now_s) for server in self._servers]
        return EngineState.together(states, tuple(server.state for server in self._servers))
