"""One server of the engine: its generations, their streams, and whether it is well."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import ServerState
from timely_llm_ros.engines.openai import retries
from timely_llm_ros.engines.openai.completions import Chunk
from timely_llm_ros.errors import (
    EngineError,
    ModelLoadError,
    RequestRefusedError,
    ServerBusyError,
    ServerLostError,
)
from timely_llm_ros.processes import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from timely_llm_ros.engines.core import Generation
    from timely_llm_ros.engines.openai.completions import Completions, ServedModel
    from timely_llm_ros.engines.openai.core import ServerCore
    from timely_llm_ros.engines.openai.sequences import ServerSequences
    from timely_llm_ros.engines.texts import ServerTexts

_logger = logging.getLogger(__name__)

FIRST_RETRY_S, LAST_RETRY_S = 0.25, 15.0
"""Pause before a lost server is tried again; it doubles up to the last."""

MOST_FAILURES = 3
"""Requests in a row without a token, of any generations, for which a server counts as lost."""

_NEW = 'not connected yet'

DOUBT_S = 0.05
"""Pause before a failed question for a server's health is asked again (s)."""


@dataclass(slots=True, eq=False)
class _Stream:
    """A request under way, which is read only as long as none of its tokens was missed.

    ``closes`` where no server is asked, because its plan is ended here.
    """

    generation: Generation
    task: asyncio.Task[None] | None = None
    length: int = 0
    latest_s: float = 0.0
    begun: bool = False
    closes: bool = False


class Server:
    """A server, which counts as lost until it was found well. Only :meth:`close` waits.

    Args:
        client: Speaks to it.
        core: Its generations.
        sequences: Their token ids.
        texts: The tokenizer that it must have.
        segmented: Whether generations are suspended between segments.
        priority: Whether requests carry their due time.
        health_period_s: How often it is asked whether it is well (s).
        give_up_s: How long a generation may be put off (s).
        on_change: Called when there may be events or its state changed.
        on_lost: Called when it is well no more.
        on_unreached: Called when it cannot be reached the first time that it is tried.
        on_trouble: Called with a generation that another server had better go on with.
        on_well: Called when it is well again, or for the first time.
    """

    def __init__(
        self,
        client: Completions,
        core: ServerCore,
        sequences: ServerSequences,
        texts: ServerTexts,
        *,
        segmented: bool,
        priority: bool,
        health_period_s: float,
        give_up_s: float,
        on_change: Callable[[], None],
        on_lost: Callable[[Server], None],
        on_unreached: Callable[[Server], None],
        on_trouble: Callable[[Server, Generation], None],
        on_well: Callable[[], None],
    ) -> None:
        self.url = client.url
        self.core = core
        self.served: ServedModel | None = None
        self.well = False
        self.error = _NEW
        self.mismatch: ModelLoadError | None = None
        """Why it can never serve as it is; None where it can or was never reached."""
        self.drains = False
        """Whether it gets nothing new, because it was taken off the list of servers."""
        self.client = client
        self._sequences = sequences
        self._texts = texts
        self._segmented = segmented
        self._priority = priority
        self._health_period_s, self._give_up_s = health_period_s, give_up_s
        self._on_change, self._on_lost, self._on_well = on_change, on_lost, on_well
        self._on_trouble, self._on_unreached = on_trouble, on_unreached
        self._streams: dict[str, _Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._troubles: dict[str, retries.Trouble] = {}
        self._failures = 0
        self._losses = 0
        self._watch: asyncio.Task[None] | None = None
        self._doubt = asyncio.Event()

    def start(self) -> None:
        """Begin to look after it."""
        self._watch = asyncio.create_task(self._look_after(), name=f'watch {self.url}')

    async def close(self) -> None:
        """End its streams and connections; what goes wrong there is logged."""
        self.well = False
        tasks = [*self._tasks, *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._streams.clear()
        try:
            await self.client.close()
        except Exception:
            _logger.exception('close %s', self.url)

    @property
    def state(self) -> ServerState:
        """Its state, for people."""
        state = self.core.generations.state(time.monotonic())
        return ServerState(
            self.url,
            self.well,
            ('drains' if self.drains else '') if self.well else self.error,
            len(state.generations),
            state.running if self.well else 0,
            state.step_s,
            self._losses,
        )

    def pump(self) -> None:
        """Serve those that the policy chooses, and only those."""
        if not self.well:
            return
        core = self.core
        chosen = core.choose(time.monotonic())
        for name, stream in tuple(self._streams.items()):
            if not core.is_running(name) or core.generations.get(name) is not stream.generation:
                self._drop(name)
        for name in chosen:
            if name not in self._streams and not self._is_put_off(name):
                self._open(name)

    def lose(self, error: str) -> None:
        """Note that it is not well; the engine moves its generations."""
        if not self.well:
            return
        _logger.warning('server lost: %s', error)
        self.well, self.error = False, error
        self._losses += 1
        self._failures = 0
        self._doubt.set()
        for name in tuple(self._streams):
            self._drop(name)
        self._on_lost(self)

    # Its health ----------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        """Ask for its health while it is well, and try it again and again while it is lost."""
        backoff = Backoff(FIRST_RETRY_S, LAST_RETRY_S)
        while True:
            try:
                if self.well:
                    await self._stay_well()
                    await asyncio.sleep(FIRST_RETRY_S)
                    continue
                self.served = await self.client.check(self._texts)
            except ServerLostError as err:
                if retries.is_untrusted(err):
                    wanted = 'a certificate that server_ca_file vouches for, or else the system'
                    self._refuse(ModelLoadError(f'{err}: expected {wanted}'))
                else:
                    new, self.error, self.mismatch = self.error == _NEW, str(err), None
                    if new:
                        self._on_unreached(self)
            except ModelLoadError as err:
                self._refuse(err)
            except Exception as err:
                self.error = f'{self.url}: fault in the client: {err!r}'
                _logger.exception('server %s', self.url)
            else:
                self.well, self.error, self.mismatch = True, '', None
                limit = min(self._sequences.context_limit, self.served.context_limit)
                self._sequences.context_limit = limit
                backoff.reset()
                self.core.limit_context(self.served.context_limit)
                self.core.forget_times()
                _logger.info('server %s serves %s', self.url, self.served.name)
                self._on_well()
                continue
            self._on_change()
            await asyncio.sleep(backoff.next_s())

    def _refuse(self, error: ModelLoadError) -> None:
        self.error, self.mismatch = str(error), error
        _logger.error('server not used: %s', error)

    async def _stay_well(self) -> None:
        """Ask for its health, at once where a request failed, until it is lost."""
        doubts = 0
        while self.well:
            self._doubt.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(DOUBT_S if doubts else self._health_period_s):
                    await self._doubt.wait()
            asked_s = time.monotonic()
            try:
                if self.well:
                    await self.client.check_health()
                doubts = 0
            except ServerLostError as err:
                doubts += 1
                if doubts > retries.HERE_AGAIN or time.monotonic() > asked_s + retries.SLOW_S:
                    self.lose(str(err))

    # Its streams ---------------------------------------------------------------------------------

    def _open(self, name: str) -> None:
        generation = self.core.generations.get(name)
        if generation is None:
            return
        stream = _Stream(generation, length=self._sequences.length(name))
        self._streams[name] = stream
        # Where others wait it will give way at its next segment. The server ends the request there
        # itself, which leaves no token uncounted and the connection open.
        stop = self._segmented and self.core.generations.waiting > 0
        stream.task = asyncio.create_task(self._read(name, stream, stop), name=f'stream of {name}')
        self._tasks.add(stream.task)
        stream.task.add_done_callback(self._tasks.discard)

    def _drop(self, name: str) -> None:
        """Read no more of a stream; the server frees what it holds for it."""
        task = self._streams.pop(name).task
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _read(self, name: str, stream: _Stream, stop: bool) -> None:
        stream.latest_s = time.monotonic()
        try:
            async with aclosing(self._tokens(name, stream, stop)) as chunks:
                async for chunk in chunks:
                    if self._streams.get(name) is stream:
                        self._take(name, stream, chunk)
                    if self._streams.get(name) is not stream and not chunk.finish:
                        return
        except ServerLostError as err:
            if self._streams.get(name) is stream:
                del self._streams[name]
                self._fail(name, stream, err)
        except RequestRefusedError as err:
            if self._streams.get(name) is stream:
                self.core.end(name, 'error', str(err), refused=True)
        except EngineError as err:
            self.core.end(name, 'error', str(err))
        except Exception as err:
            _logger.exception('stream of %s', name)
            self.core.end(name, 'error', f'fault in the client: {err!r}')
        finally:
            if self._streams.get(name) is stream:
                del self._streams[name]
            self._on_change()

    async def _tokens(self, name: str, stream: _Stream, stop: bool) -> AsyncGenerator[Chunk, None]:
        """Yield the next tokens of a generation: the server's, or those that end its plan."""
        closing = self._sequences.closing(name)
        if closing is not None:
            stream.closes = True
            yield Chunk(closing, 'stop')
            return
        body = self._sequences.body(name, stop_at_statement=stop)
        if self._priority:
            # Planners that share a server have only the date in common.
            due_s = self.core.generations.due_s(stream.generation) - time.monotonic()
            body['priority'] = round(1000 * (due_s + time.time()))
        async with aclosing(self.client.tokens(body, session=name)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _take(self, name: str, stream: _Stream, chunk: Chunk) -> None:
        """Take a chunk's tokens, as far as they are wanted."""
        core, find, now_s = self.core, self.core.generations.get, time.monotonic()
        each_s = (now_s - stream.latest_s) / max(1, len(chunk.token_ids))
        if stream.closes:
            each_s = 0.0
        stream.latest_s = now_s
        for token in chunk.token_ids:
            if not core.is_running(name):
                # Its segment ended. If it goes on at once, so does the stream.
                self.pump()
            wanted = core.is_running(name) and find(name) is stream.generation
            if not wanted or stream.length != self._sequences.length(name):
                break
            if not stream.closes and not self._sequences.accepts(name, token):
                # The server's request ends here; another one, which asks nobody, ends the plan.
                stream.begun = True
                self._drop(name)
                break
            output = self._sequences.take(name, token)
            stream.length += not output.ended
            self._troubles.pop(name, None)
            self._failures = 0
            begins, stream.begun = not stream.begun, True
            core.take(stream.generation, output, elapsed_s=each_s, begins=begins, now_s=now_s)
            if find(name) is None:
                break
        if chunk.finish:
            self._finish(name, stream, chunk)
        elif not core.is_running(name):
            self.pump()
        self._on_change()

    def _finish(self, name: str, stream: _Stream, chunk: Chunk) -> None:
        """Leave a request that the server ended; the rest of the generation needs another one."""
        self._streams.pop(name, None)
        if self.core.generations.get(name) is not stream.generation:
            return
        limit = self.served.context_limit if self.served else 0
        counts = self._sequences.counts_tokens
        if chunk.finish == 'length' and not counts and self._sequences.end_here(name):
            return
        if chunk.finish == 'length' and (stream.length >= limit or not counts):
            self.core.generations.cut(stream.generation, time.monotonic())
        elif not stream.begun:
            self._fail(name, stream, ServerLostError(f'{self.url}: a completion without a token'))

    # Requests that fail --------------------------------------------------------------------------

    def _is_put_off(self, name: str) -> bool:
        trouble = self._troubles.get(name)
        return trouble is not None and time.monotonic() < trouble.until_s

    def _fail(self, name: str, stream: _Stream, error: ServerLostError) -> None:
        """Repeat a request that failed: later, elsewhere if that was not enough, or never.

        A server that puts requests off is well. Any other failure is a reason to ask for its
        health, and several in a row without a token are as good as an answer.
        """
        now_s, known = time.monotonic(), self.core.generations
        self._troubles = {one: it for one, it in self._troubles.items() if one in known}
        trouble = self._troubles.setdefault(name, retries.Trouble(now_s))
        trouble.add(error, begun=stream.begun)
        due_s = known.due_s(stream.generation) - now_s
        pause_s = trouble.pause_s(error, begun=stream.begun, first_s=FIRST_RETRY_S, due_s=due_s)
        trouble.until_s = now_s + pause_s
        if problem := trouble.end(error, now_s, self._give_up_s):
            self.core.end(name, 'error', problem)
        else:
            _logger.info('generation %s: again in %.2f s: %s', name, pause_s, error)
            asyncio.get_running_loop().call_later(pause_s, self._on_change)
        if not isinstance(error, ServerBusyError):
            self._doubt.set()
            self._failures += not stream.begun
        # What it asks for says how busy it is, though a segment that is due is not put off so long.
        asked_s = (isinstance(error, ServerBusyError) and error.retry_after_s) or 0.0
        slow = max(now_s - stream.latest_s, pause_s, asked_s) > retries.SLOW_S
        if self._failures >= MOST_FAILURES:
            self.lose(str(error))
        elif slow or trouble.tries > retries.HERE_AGAIN:
            self._on_trouble(self, stream.generation)

    @property
    def idle_generations(self) -> list[Generation]:
        """Those for which no request is under way."""
        return [it for it in self.core.generations if it.generation_id not in self._streams]

    def take_over(self, generation: Generation, other: Server) -> None:
        """Go on with a generation of another server."""
        name = generation.generation_id
        if name in other._streams:
            other._drop(name)
        self.core.adopt(other.core.release(generation))
        trouble = other._troubles.pop(name, None)
        if trouble is not None:
            # What the other server asked for does not bind this one, the first time.
            trouble.until_s *= trouble.tries > retries.HERE_AGAIN
            self._troubles[name] = trouble
