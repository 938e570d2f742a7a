"""Times a model behind a server of completions, coarsely and within some seconds.

The times are those that a planner waits: they include the way to the server and back, and whatever
else the server does meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from timely_llm_ros.errors import EngineError, TimelyError
from timely_llm_ros.prediction.times import ProfilePlan, fit_profile, measure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
    from concurrent.futures import Future

    from timely_llm_ros.engines.openai.completions import Chunk
    from timely_llm_ros.prediction.times import ExecutionTimeModel

    Tokens = Callable[[dict[str, Any]], AsyncGenerator[Chunk, None]]

_T = TypeVar('_T')

_logger = logging.getLogger(__name__)

ROUNDS = 5
"""Rounds of the profile: the fewest with a margin of 95 %."""

LONGEST = 1024
"""Longest context that is measured (tokens)."""

MOST_S = 20.0
"""How long measuring should take at most (s); a slow server is measured less often."""

_STEPS = 6
"""Steps timed in one go after all of a batch have begun."""


async def measure_times(
    tokens: Tokens,
    *,
    vocabulary: int,
    context_limit: int,
    max_running: int,
    kv_tokens: int,
) -> ExecutionTimeModel:
    """Return how long prompts and steps take.

    Args:
        tokens: Sends a request, as ``Completions.tokens`` does.
        vocabulary: Token ids are below this.
        context_limit: Most tokens of one context.
        max_running: Most generations in one step.
        kv_tokens: Tokens whose KV fits.

    Raises:
        EngineError: The server does not serve, or has too little room.
        ConfigurationError: The times cannot be fitted.
    """
    batches = tuple(sorted({1, min(max_running, 8)}))
    longest = min(LONGEST, context_limit // 2, kv_tokens // (2 * batches[-1]))
    if longest < 16:
        raise EngineError(f'contexts of {longest} tokens: expected room for at least 16')
    stopwatch = CompletionStopwatch(tokens, vocabulary)
    sizes = longest // 16, longest // 4, longest
    plan = ProfilePlan(sizes, sizes[::2], batches, 1)

    def run() -> ExecutionTimeModel:
        stopwatch.steps_s(1, sizes[1])
        started_s = time.monotonic()
        stopwatch.steps_s(batches[-1], sizes[1])
        visit_s = max(1e-6, time.monotonic() - started_s)
        rounds = int(MOST_S / (visit_s * len(plan.points))) - 1
        repeats = max(1, min(ROUNDS, rounds))
        return fit_profile(measure(ProfilePlan(sizes, sizes[::2], batches, repeats), stopwatch))

    try:
        return await asyncio.to_thread(run)
    except asyncio.CancelledError:
        stopwatch.stop()
        raise


async def times_or_none(
    server: str, times: Awaitable[ExecutionTimeModel]
) -> ExecutionTimeModel | None:
    """Await :func:`measure_times`; where that fails, warn of that server and return None."""
    try:
        return await times
    except TimelyError as err:
        _logger.warning('no predictions for time budgets: %s: %s', server, err)
        return None


class CompletionStopwatch:
    """Times requests; made on the loop that sends them, used on any other thread.

    Prompts are random tokens. They are new where a prompt is timed. Where steps are timed they are
    always the same, so that a server with a prefix cache computes them only once.
    """

    def __init__(self, tokens: Tokens, vocabulary: int) -> None:
        self._tokens, self._vocabulary = tokens, vocabulary
        self._loop = asyncio.get_running_loop()
        self._seeds = itertools.count(1000)
        self._work: Future[Any] | None = None
        self._stopped = False

    def stop(self) -> None:
        """End this request and all that follow with ``CancelledError``."""
        self._stopped = True
        if self._work is not None:
            self._work.cancel()

    def prefill_s(self, tokens: int, cached: int) -> float:
        """Return how long a prompt takes beyond its cached part, first token included (s)."""
        ids = self._ids(next(self._seeds), tokens)
        if cached:
            self._do(self._arrivals(ids[:cached], 1))
        started_s = time.perf_counter()
        return self._do(self._arrivals(ids, 1))[0] - started_s

    def steps_s(self, batch: int, kv_tokens: int) -> Sequence[float]:
        """Return how long steps of ``batch`` take, each with about ``kv_tokens`` of context (s)."""
        length = _STEPS + 2 * batch
        prompts = [self._ids(row, max(1, kv_tokens - length // 2)) for row in range(batch)]

        async def together() -> list[list[float]]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._arrivals(ids, length)) for ids in prompts]
            return [task.result() for task in tasks]

        try:
            arrivals = self._do(together())
        except ExceptionGroup as err:
            raise EngineError(f'measuring steps of {batch}: {err.exceptions[0]}') from err
        begun_s = max(times_s[0] for times_s in arrivals)
        end_s = min(times_s[-1] for times_s in arrivals)
        steps_s = [
            after_s - before_s
            for times_s in arrivals
            for before_s, after_s in itertools.pairwise(times_s)
            if begun_s <= before_s and after_s <= end_s and after_s > before_s
        ]
        # Streams that hardly overlap still say how long a step takes at worst.
        return steps_s or [
            max(1e-9, times_s[-1] - times_s[0]) / (length - 1) for times_s in arrivals
        ]

    async def _arrivals(self, ids: list[int], length: int) -> list[float]:
        """Return when a completion's tokens came, spreading a chunk's evenly."""
        body = {
            'prompt': ids,
            'max_tokens': length,
            'temperature': 0,
            'ignore_eos': True,
            'stop_token_ids': [],
        }
        times_s: list[float] = []
        async with aclosing(self._tokens(body)) as chunks:
            async for chunk in chunks:
                now_s = time.perf_counter()
                count = len(chunk.token_ids)
                since_s = times_s[-1] if times_s else now_s
                times_s += [since_s + (now_s - since_s) * n / count for n in range(1, count + 1)]
        if not times_s:
            raise EngineError('a completion without a token: expected one to measure')
        return times_s

    def _ids(self, seed: int, count: int) -> list[int]:
        ids: list[int] = np.random.default_rng(seed).integers(self._vocabulary, size=count).tolist()
        return ids

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        self._work = future = asyncio.run_coroutine_threadsafe(work, self._loop)
        if self._stopped:
            future.cancel()
        return future.result()
