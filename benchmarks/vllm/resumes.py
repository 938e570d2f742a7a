"""Part a of the vLLM benchmark: how soon a generation that was suspended has its next token.

Three ways, all seen by vLLM's own client, beside a plain step of the same engine:

chosen  Our scheduler lets it go on, as it does with every plan between two segments: more plans
        than places, so that at most boundaries another plan gets the place.
asked   A message of the control channel wakes the engine, as a robot's answer to a question does.
fresh   The least that stock vLLM can do from idle: a request of one uncached token.
"""

from __future__ import annotations

import asyncio
import pickle
import statistics
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from benchmarks.vllm.clients import SETTLE_S, Job, Jobs, Stock, plugged
from lrtrace.statistics import percentile
from timely_llm_ros.engines import GenerationRequest, Resume, Suspend
from timely_llm_ros.engines.vllm.plugin import KEY, UNCUT_TEXT, encode_request
from timely_llm_ros.skills import Prompt, Scene
from timely_llm_ros.utility import NORMAL

BLOCK = 32
SHARING = 4
"""Plans that share one place: between two segments of one of them others are served."""

PAUSE_S = 0.01
"""Between a suspension and the message that ends it: what was computed is here by then."""


@dataclass
class Resumes:
    """Times to the next token (s), and plain steps beside them."""

    chosen_s: list[float] = field(default_factory=list)
    chosen_steps_s: list[float] = field(default_factory=list)
    asked_s: list[float] = field(default_factory=list)
    asked_steps_s: list[float] = field(default_factory=list)
    fresh_s: list[float] = field(default_factory=list)

    async def choose(self, jobs: Jobs, seeds: list[int], rounds: int) -> None:
        """Let plans share the one place of an engine of their own."""
        client = plugged(jobs, 1)
        await client.start()
        try:
            for number in range(rounds + 1):
                await asyncio.sleep(SETTLE_S)
                for first in range(0, len(seeds), SHARING):
                    drawn = [jobs.draw(seed, NORMAL) for seed in seeds[first:][:SHARING]]
                    await asyncio.gather(*(_plan(client, job) for job in drawn))
                    if number:  # The first round warms up.
                        steps_s, resumes_s = steps_and_resumes([job.times_s for job in drawn])
                        self.chosen_steps_s += steps_s
                        self.chosen_s += resumes_s
        finally:
            await client.close()

    async def ask(self, client: Stock, jobs: Jobs) -> None:
        """Hold a generation by the control channel again and again, and resume it."""
        control = client.llm.engine_core.call_utility_async
        for seed in range(30):
            job = jobs.draw(seed, NORMAL)
            request = GenerationRequest(job.name, Prompt('', ''), UNCUT_TEXT, Scene(), NORMAL, 0.0)
            got = asyncio.Event()
            reading = asyncio.create_task(_read(client, job, request, got))
            for _ in range(6):
                await _reach(job, len(job.times_s) + 5, got, reading)
                self.asked_steps_s += [
                    b - a for a, b in zip(job.times_s[-4:], job.times_s[-3:], strict=False)
                ]
                await control('timely', pickle.dumps(Suspend(job.name)))
                # Once it answers nothing more is computed.
                await asyncio.sleep(PAUSE_S)
                seen, start_s = len(job.times_s), time.monotonic()
                asking = asyncio.create_task(control('timely', pickle.dumps(Resume(job.name))))
                await _reach(job, seen + 1, got, reading)
                await asking
                if len(job.times_s) == seen:
                    break
                self.asked_s.append(job.times_s[seen] - start_s)
            await reading

    async def begin(self, client: Stock, jobs: Jobs) -> None:
        """Have stock vLLM compute one token, all but one before it in its prefix cache."""
        for seed in range(60):
            first = jobs.draw(seed % 30, NORMAL)
            # vLLM finds whole blocks again, so all but the last token.
            ids = first.ids[: (len(first.ids) - 1) // BLOCK * BLOCK + 1]
            job = Job(first.name, first.request, ids)
            await asyncio.sleep(PAUSE_S)
            start_s = time.monotonic()
            async for _ in client.tokens(job, client.parameters(1)):
                pass
            if seed >= 30:  # The first time each is computed whole.
                self.fresh_s.append(job.times_s[0] - start_s)

    def figures(self) -> dict[str, Any]:
        """Return medians and 99th percentiles (ms) of what was measured, and how many there are."""
        named = {
            'chosen': self.chosen_s,
            'chosen_step': self.chosen_steps_s,
            'asked': self.asked_s,
            'asked_step': self.asked_steps_s,
            'stock_request': self.fresh_s,
        }
        found: dict[str, Any] = {}
        for name, times_s in named.items():
            if times_s:
                found[f'{name}_count'] = len(times_s)
                found[f'{name}_p50_ms'] = 1000 * statistics.median(times_s)
                found[f'{name}_p99_ms'] = 1000 * percentile(times_s, 0.99)
        return found


def steps_and_resumes(plans: list[list[float]]) -> tuple[list[float], list[float]]:
    """Return what the tokens of plans that share one place took: plain steps, and resumes.

    A token's time counts from the one before it, whosever that was. If it was the same plan's, it
    is a step; if another's, a resume. A plan's first token is neither: it has its prompt's time.

    Args:
        plans: When each token of each plan came (s).
    """
    tokens = sorted(
        (time_s, plan, place) for plan, times_s in enumerate(plans)
        for place, time_s in enumerate(times_s)
    )  # fmt: skip
    steps_s: list[float] = []
    resumes_s: list[float] = []
    for (before_s, other, _), (time_s, plan, place) in pairwise(tokens):
        if place:
            (steps_s if plan == other else resumes_s).append(time_s - before_s)
    return steps_s, resumes_s


async def _plan(client: Stock, job: Job) -> None:
    extra = {KEY: encode_request(job.request, 0.0, named=False)}
    async for _ in client.tokens(job, client.parameters(extra_args=extra)):
        pass


async def _read(client: Stock, job: Job, request: GenerationRequest, got: asyncio.Event) -> None:
    parameters = client.parameters(
        64,
        ignore_eos=True,
        stop_token_ids=[],
        extra_args={KEY: encode_request(request, 0.0, named=True)},
    )
    async for _ in client.tokens(job, parameters):
        got.set()
    got.set()


async def _reach(job: Job, count: int, got: asyncio.Event, reading: asyncio.Task[None]) -> None:
    """Wait until a generation has so many tokens, or has ended."""
    while len(job.times_s) < count and not reading.done():
        got.clear()
        await got.wait()
