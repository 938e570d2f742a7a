"""Part a of the vLLM benchmark: what segments cost, and how soon a resumed generation goes on.

Both sides are vLLM's own client, reading every token of the same plans. On one, our scheduler is
inside: it cuts each plan, suspends it at every boundary and chooses anew.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING, Any

from _vllm_clients import SETTLE_S, Job, Jobs, Stock, arguments, plugged

from lrtrace.statistics import percentile
from timely_llm_ros.engines.engine import GenerationRequest
from timely_llm_ros.engines.vllm_core import UNCUT
from timely_llm_ros.engines.vllm_request import KEY, encode_request
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable

PLANS = 24
SLOTS = 8
BLOCK = 32


async def overhead(starts: int, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure in pairs, one side after the other, on several fresh pairs of engines.

    Two starts of the same engine differ by some per cent for as long as they live, so rounds on one
    pair do not tell how far a difference is due to chance: starts do.
    """
    jobs = Jobs()
    pairs: dict[int, list[list[tuple[float, float]]]] = {1: [], 4: []}
    boundaries = 0
    resumes: list[dict[str, list[float]]] = []
    fresh_s: list[float] = []
    for start in range(starts):
        stock, ours = Stock(jobs, **arguments(SLOTS)), plugged(jobs, SLOTS)
        # Which of them starts first may matter for where the kernel puts it.
        for client in (stock, ours)[:: 1 if start % 2 else -1]:
            await client.start()
        say(f'a: start {start + 1} of {starts}')
        try:
            seeds = (await jobs.screen(stock, range(64)))[:PLANS]
            for at_once, found in pairs.items():
                found.append([])
                for number in range(rounds + 1):
                    times: dict[str, float] = {}
                    order = {'stock': stock, 'ours': ours}
                    for name in sorted(order, reverse=number % 2 == 0):
                        await asyncio.sleep(SETTLE_S)
                        times[name], boundaries = await _batches(order[name], jobs, seeds, at_once)
                    if number:  # The first round warms up.
                        found[-1].append((times['stock'], times['ours']))
                say(f'a: {at_once} at once: {_compare(found, boundaries)}')
            await asyncio.sleep(SETTLE_S)
            resumes.append(await _resumes(ours, jobs))
            await asyncio.sleep(SETTLE_S)
            fresh_s += await _fresh(stock, jobs)
            say(f'a: {_resume_figures(resumes, fresh_s)}')
        finally:
            await stock.close()
            await ours.close()
    figures: dict[str, Any] = {
        f'{at_once} at once': _compare(found, boundaries) for at_once, found in pairs.items()
    }
    return figures | {'resume': _resume_figures(resumes, fresh_s)}


def _compare(starts: list[list[tuple[float, float]]], boundaries: int) -> dict[str, Any]:
    """Return the overhead: of each start the median over its pairs, and the mean of those."""
    stock_s = statistics.median(stock for pairs in starts for stock, _ in pairs)
    added_s = [statistics.median(ours - stock for stock, ours in pairs) for pairs in starts]
    mean_s = statistics.fmean(added_s)
    error_s = statistics.stdev(added_s) / len(added_s) ** 0.5 if len(added_s) > 1 else None
    return {
        'plans': PLANS,
        'starts': len(starts),
        'pairs': sum(map(len, starts)),
        'boundaries': boundaries,
        'stock_s': stock_s,
        'overhead': mean_s / stock_s,
        'overhead_error': None if error_s is None else error_s / stock_s,
        'overhead_of_each_start': [each / stock_s for each in added_s],
        'per_boundary_ms': 1000 * mean_s / boundaries,
    }


async def _batches(client: Stock, jobs: Jobs, seeds: list[int], at_once: int) -> tuple[float, int]:
    """Generate plans, so many at once; return the time and the segments."""
    drawn = [jobs.draw(seed, NORMAL) for seed in seeds]
    requests = [
        (job, client.parameters(extra_args={KEY: encode_request(job.request, 0.0, named=False)}))
        for job in drawn
    ]
    start_s = time.monotonic()
    for first in range(0, len(drawn), at_once):
        await asyncio.gather(
            *(_plan(client, job, parameters) for job, parameters in requests[first:][:at_once])
        )
    return time.monotonic() - start_s, sum(job.segments for job in drawn)


async def _plan(client: Stock, job: Job, parameters: Any) -> None:
    async for token in client.tokens(job, parameters):
        job.segments += token in client.jobs.ends


async def _resumes(client: Stock, jobs: Jobs) -> dict[str, list[float]]:
    """Freeze a generation by the control channel again and again; time a resume to its token."""
    steps_s: list[float] = []
    resumes_s: list[float] = []
    control = client.llm.engine_core.call_utility_async
    for seed in range(30):
        job = jobs.draw(seed, NORMAL)
        request = GenerationRequest(job.name, Prompt('', ''), UNCUT, Scene(), NORMAL, 0.0)
        parameters = client.parameters(
            64,
            ignore_eos=True,
            stop_token_ids=[],
            extra_args={KEY: encode_request(request, 0.0, named=True)},
        )
        got = asyncio.Event()

        async def read(job: Job = job, parameters: Any = parameters, got: Any = got) -> None:
            async for _ in client.tokens(job, parameters):
                got.set()
            got.set()

        reading = asyncio.create_task(read())
        for _ in range(6):
            count = len(job.times_s) + 5
            while len(job.times_s) < count and not reading.done():
                got.clear()
                await got.wait()
            steps_s += [b - a for a, b in zip(job.times_s[-4:], job.times_s[-3:], strict=False)]
            await control('timely', 'suspend', job.name, None)
            # Once it answers nothing more is computed; what was is on its way here.
            await asyncio.sleep(0.01)
            seen = len(job.times_s)
            start_s = time.monotonic()
            asking = asyncio.create_task(control('timely', 'resume', job.name, None))
            while len(job.times_s) == seen and not reading.done():
                got.clear()
                await got.wait()
            await asking
            if len(job.times_s) == seen:
                break
            resumes_s.append(job.times_s[seen] - start_s)
        await reading
    return {'steps_s': steps_s, 'resumes_s': resumes_s}


async def _fresh(client: Stock, jobs: Jobs) -> list[float]:
    """Time the least that stock vLLM can do from idle: a request of one uncached token.

    That is what a resume is compared with, beside a plain step: messages there and back, and a
    step after a pause.
    """
    times_s: list[float] = []
    for seed in range(60):
        first = jobs.draw(seed % 30, NORMAL)
        # vLLM finds whole blocks again, so all but the last token.
        ids = first.ids[: (len(first.ids) - 1) // BLOCK * BLOCK + 1]
        job = Job(first.name, first.request, ids)
        await asyncio.sleep(0.01)
        start_s = time.monotonic()
        async for _ in client.tokens(job, client.parameters(1)):
            pass
        if seed >= 30:  # The first time each is computed whole.
            times_s.append(job.times_s[0] - start_s)
    return times_s


def _resume_figures(starts: list[dict[str, list[float]]], fresh_s: list[float]) -> dict[str, float]:
    steps_s = [value for start in starts for value in start['steps_s']]
    resumes_s = [value for start in starts for value in start['resumes_s']]
    return {
        'resumes': len(resumes_s),
        'step_p50_ms': 1000 * statistics.median(steps_s),
        'step_p99_ms': 1000 * percentile(steps_s, 0.99),
        'resume_p50_ms': 1000 * statistics.median(resumes_s),
        'resume_p99_ms': 1000 * percentile(resumes_s, 0.99),
        'stock_request_p50_ms': 1000 * statistics.median(fresh_s),
        'stock_request_p99_ms': 1000 * percentile(fresh_s, 0.99),
    }
