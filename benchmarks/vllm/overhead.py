"""Part a of the vLLM benchmark: what segments cost, in all and per boundary.

Both sides are vLLM's own client, reading every token of the same plans. On one, our scheduler is
inside: it cuts each plan, suspends it at every boundary and chooses anew.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING, Any

from benchmarks.vllm.clients import SETTLE_S, Job, Jobs, Stock, arguments, plugged
from benchmarks.vllm.resumes import Resumes
from timely_llm_ros.engines.vllm.plugin import KEY, encode_request
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable

PLANS = 24
SLOTS = 8


async def overhead(starts: int, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure in pairs, one side after the other, on several fresh pairs of engines.

    Two starts of the same engine differ by some per cent for as long as they live, so rounds on one
    pair do not tell how far a difference is due to chance: starts do.
    """
    jobs = Jobs()
    pairs: dict[int, list[list[tuple[float, float]]]] = {1: [], 4: []}
    boundaries = 0
    resumes = Resumes()
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
            await resumes.ask(ours, jobs)
            await asyncio.sleep(SETTLE_S)
            await resumes.begin(stock, jobs)
            say(f'a: {resumes.figures()}')
        finally:
            await stock.close()
            await ours.close()
    await resumes.choose(jobs, seeds, rounds)
    figures: dict[str, Any] = {
        f'{at_once} at once': _compare(found, boundaries) for at_once, found in pairs.items()
    }
    return figures | {'resume': resumes.figures()}


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
