"""Part c of the vLLM benchmark: many suspended generations, with room for their KV and without.

So many generations are held after a few tokens. Beside them one more runs alone: its steps should
be as short as ever. Then each is resumed by itself, and its next token timed. At the end all have
said what they say undisturbed, token by token.
"""

from __future__ import annotations

import asyncio
import pickle
import random
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.vllm.clients import SETTLE_S, Job, Jobs, Stock, plugged
from lrtrace.statistics import percentile
from timely_llm_ros.engines import EngineStateChanged, GenerationRequest, Resume, Suspend
from timely_llm_ros.engines.torch import FrameReader
from timely_llm_ros.engines.vllm.plugin import KEY, UNCUT_TEXT, encode_request
from timely_llm_ros.skills import Prompt, Scene
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 32
MOST_RESUMED = 48
"""Of more than these only so many are resumed one by one; the others all at once."""

TOKENS_BEFORE = 3
RUNNING = 8

POOLS = {'ample': 1 << 13, 'tight': 1 << 9}
"""Blocks of KV: for all of them, and for about a tenth of the largest number."""


class Spills:
    """Hears from the engine core how many generations have lost their KV."""

    def __init__(self) -> None:
        self.count = 0
        self._folder = tempfile.TemporaryDirectory(prefix='bench-vllm-')
        self._server: asyncio.Server | None = None
        self.path = str(Path(self._folder.name) / 'report')

    async def __aenter__(self) -> Spills:
        self._server = await asyncio.start_unix_server(self._listen, self.path)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self._folder.cleanup()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        while data := await reader.read(1 << 18):
            for event in frames.push(data):
                if isinstance(event, EngineStateChanged):
                    self.count = event.state.spilled
        writer.close()


async def suspended(counts: list[int], say: Callable[[str], None]) -> dict[str, Any]:
    """Measure with a pool that has room for all and with one that has not."""
    found: dict[str, Any] = {}
    expected: dict[int, list[int]] = {}
    for name, blocks in POOLS.items():
        jobs = Jobs()
        async with Spills() as spills:
            client = plugged(
                jobs,
                RUNNING,
                report=spills.path,
                max_num_seqs=max(counts) + 2 * RUNNING,
                num_gpu_blocks_override=blocks,
            )
            await client.start()
            try:
                for count in (0, *counts):
                    before = spills.count
                    figures = await _measure(client, jobs, count, expected)
                    figures['spilled'] = spills.count - before
                    found[f'{name} {count}'] = figures
                    say(f'c: {name} pool, {count} suspended: {figures}')
            finally:
                await client.close()
    return found


async def _measure(
    client: Stock, jobs: Jobs, count: int, expected: dict[int, list[int]]
) -> dict[str, Any]:
    """Hold so many, time steps beside them, resume them and compare what they said."""
    control = client.llm.engine_core.call_utility_async
    seeds = range(1000, 1000 + count)
    missing = [seed for seed in seeds if seed not in expected]
    alone = [_Held(client, jobs, seed) for seed in missing]
    for first in range(0, len(alone), RUNNING):
        await asyncio.gather(*(one.read(hold=False) for one in alone[first : first + RUNNING]))
    expected |= {one.seed: one.job.got for one in alone}
    await client.forget()
    held = [_Held(client, jobs, seed) for seed in seeds]
    reading = [asyncio.create_task(one.read(hold=True)) for one in held]
    await asyncio.gather(*(one.still.wait() for one in held))
    await asyncio.sleep(SETTLE_S)
    steps_s: list[float] = []
    for seed in range(8):
        beside = _Held(client, jobs, seed)
        await beside.read(hold=False)
        times_s = beside.job.times_s
        steps_s += [after - before for before, after in pairwise(times_s[1:])]
    resumes_s: list[float] = []
    order = [one for one in random.Random(0).sample(held, count) if not one.done.is_set()]
    for one in order[:MOST_RESUMED]:
        seen, start_s = len(one.job.times_s), time.monotonic()
        await control('timely', pickle.dumps(Resume(one.job.name)))
        await one.done.wait()
        if len(one.job.times_s) > seen:
            resumes_s.append(one.job.times_s[seen] - start_s)
    for one in order[MOST_RESUMED:]:
        await control('timely', pickle.dumps(Resume(one.job.name)))
    await asyncio.gather(*reading)
    figures: dict[str, Any] = {
        'step_p50_ms': 1000 * statistics.median(steps_s),
        'step_p99_ms': 1000 * percentile(steps_s, 0.99),
        'held_at_once': len(order),
        'wrong': sum(one.job.got != expected[one.seed] for one in held),
    }
    if resumes_s:
        figures |= {
            'resumes': len(resumes_s),
            'resume_p50_ms': 1000 * statistics.median(resumes_s),
            'resume_p99_ms': 1000 * percentile(resumes_s, 0.99),
        }
    return figures


class _Held:
    """A generation that may be held after its first tokens; its text is never cut."""

    def __init__(self, client: Stock, jobs: Jobs, seed: int) -> None:
        self.seed = seed
        self.job: Job = jobs.draw(seed, NORMAL)
        self.still = asyncio.Event()
        self.done = asyncio.Event()
        self._client = client

    async def read(self, *, hold: bool) -> None:
        """Generate to the end; hold it on the way."""
        job, client = self.job, self._client
        request = GenerationRequest(job.name, Prompt('', ''), UNCUT_TEXT, Scene(), NORMAL, 0.0)
        extra = {KEY: encode_request(request, 0.0, named=True)}
        asking: asyncio.Task[None] | None = None
        async for token in client.tokens(job, client.parameters(extra_args=extra)):
            job.got.append(token)
            if hold and asking is None and len(job.got) == TOKENS_BEFORE:
                asking = asyncio.create_task(self._hold())
        self.done.set()
        self.still.set()

    async def _hold(self) -> None:
        control = self._client.llm.engine_core.call_utility_async
        await control('timely', pickle.dumps(Suspend(self.job.name)))
        self.still.set()
