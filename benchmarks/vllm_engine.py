"""vLLM with our scheduler beside vLLM without, on the embedded model.

    make bench-vllm [ARGS='--only a d']

a  overhead of segments, in all and per boundary; a resume to the next token against a plain step
b  contention of 16 and 64 robots with mixed time utilities: stock vLLM first come first served,
   stock with priorities, stock streaming, segments made outside of vLLM, and ours, each at its best
   largest batch
d  what choosing costs per step

All run in one process tree, in turns: every round has every way. Figures of parts that are not run
again stay in the file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

# A script's folder comes first on the path: nothing in it may be named as a package it uses.
from _results import FOLDER, Target, save
from _vllm_clients import Job, Jobs, Ours, Stock, arguments, plugged
from _vllm_plots import draw
from rich.console import Console
from rich.table import Table

from lrtrace.statistics import percentile
from timely_llm_ros.engines.engine import GenerationRequest
from timely_llm_ros.engines.vllm_core import UNCUT, FreezeCore, New, Work
from timely_llm_ros.engines.vllm_request import KEY, encode_request
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.utility import NORMAL, URGENT

PICTURE = Path(__file__).resolve().parent.parent / 'docs' / 'images' / 'vllm_contention.png'

URGENT_SHARE = 0.25
LOAD = 0.9
"""Offered load as a share of what stock vLLM serves at most."""

BUSY = 0.6
"""Share of the time that robots act."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# a


async def overhead(rounds: int) -> dict[str, Any]:
    """The same plans on stock vLLM and, cut and suspended at every boundary, on ours."""
    jobs = Jobs()
    stock, ours = Stock(jobs, **arguments(8)), plugged(jobs, 8)
    await asyncio.gather(stock.start(), ours.start())
    say('a: both started')
    found: dict[str, Any] = {}
    try:
        seeds = (await jobs.screen(stock, range(32)))[:24]
        for at_once in (1, 4):
            times: dict[str, list[float]] = {'stock': [], 'ours': []}
            boundaries = 0
            for number in range(rounds + 1):
                for name in sorted(times, reverse=number % 2 == 0):
                    client = stock if name == 'stock' else ours
                    spent_s, boundaries = await _batches(client, jobs, seeds, at_once)
                    if number:  # The first round warms up.
                        times[name].append(spent_s)
                say(f'a: {at_once} at once, round {number} of {rounds}')
            best = {name: statistics.median(each) for name, each in times.items()}
            differences = [o - s for o, s in zip(times['ours'], times['stock'], strict=True)]
            per_boundary_s = statistics.median(differences) / boundaries
            found[f'{at_once} at once'] = {
                'plans': len(seeds), 'rounds': rounds, 'boundaries': boundaries,
                'stock_s': best['stock'], 'ours_s': best['ours'],
                'overhead': statistics.median(differences) / best['stock'],
                'per_boundary_ms': 1000 * per_boundary_s,
            }  # fmt: skip
        found['resume'] = await _resumes(ours, jobs)
    finally:
        await stock.close()
        await ours.close()
    return found


async def _batches(client: Stock, jobs: Jobs, seeds: list[int], at_once: int) -> tuple[float, int]:
    """Generate plans, so many at once; return the time and the segments."""
    drawn = [jobs.draw(seed, NORMAL) for seed in seeds]
    start_s = time.monotonic()
    for first in range(0, len(drawn), at_once):
        await asyncio.gather(*(_plan(client, job) for job in drawn[first : first + at_once]))
    return time.monotonic() - start_s, sum(job.segments for job in drawn)


async def _plan(client: Stock, job: Job) -> None:
    extra = {KEY: encode_request(job.request, job.request.arrival_s, named=False)}
    async for token in client.tokens(job, client.parameters(extra_args=extra)):
        job.segments += token in client.jobs.ends


async def _resumes(client: Stock, jobs: Jobs) -> dict[str, float]:
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
    return {
        'resumes': len(resumes_s),
        'step_p50_ms': 1000 * statistics.median(steps_s),
        'step_p99_ms': 1000 * percentile(steps_s, 0.99),
        'resume_p50_ms': 1000 * statistics.median(resumes_s),
        'resume_p99_ms': 1000 * percentile(resumes_s, 0.99),
    }


# b


async def contention(
    fleets: list[int], batches: list[int], seconds: float, rounds: int
) -> dict[str, Any]:
    """Every way at every largest batch, in turns, under the same arrivals."""
    jobs = Jobs()
    rate: float | None = None
    seeds: list[int] = []
    runs: list[dict[str, Any]] = []
    for batch in batches:
        fcfs = Stock(jobs, **arguments(batch))
        ranked = Stock(jobs, **arguments(batch, scheduling_policy='priority'))
        ours = Ours(batch)
        await asyncio.gather(fcfs.start(), ranked.start(), ours.start())
        say(f'b: all started, batch {batch}')
        ways = _ways(fcfs, ranked, ours)
        try:
            seeds = seeds or await jobs.screen(fcfs, range(400))
            for way in ways.values():
                await _fleet(jobs, way, seeds, 16, 20.0, 1.0, 0)
            if rate is None:
                await fcfs.forget()
                rate = LOAD * await _most(jobs, ways['stock fcfs'], seeds[:96])
            for robots in fleets:
                for number in range(rounds):
                    for name, way in ways.items():
                        for client in (fcfs, ranked, ours):
                            await client.forget()
                        served = await _fleet(jobs, way, seeds, robots, rate, seconds, 7 + number)
                        runs.append(
                            {'way': name, 'batch': batch, 'robots': robots} | _figures(served)
                        )
                    say(f'b: batch {batch}, {robots} robots, round {number + 1} of {rounds}')
        finally:
            for client in (fcfs, ranked, ours):
                await client.close()
    return {
        'arrivals_per_s': rate, 'seconds': seconds, 'rounds': rounds,
        'runs': [_mean(runs, key) for key in sorted({_key(run) for run in runs})],
    }  # fmt: skip


def _ways(fcfs: Stock, ranked: Stock, ours: Ours) -> dict[str, Any]:
    return {
        'stock fcfs': lambda job, on: fcfs.whole(job, on, ranked=False),
        'stock priority': lambda job, on: ranked.whole(job, on, ranked=True),
        'stock streaming': fcfs.stream,
        'outside': ranked.outside,
        'ours': ours.serve,
    }


async def _most(jobs: Jobs, way: Any, seeds: list[int]) -> float:
    """Return how many plans per second are served when all come at once."""
    drawn = [jobs.draw(seed, NORMAL) for seed in seeds]
    start_s = time.monotonic()
    await asyncio.gather(*(way(job, lambda: None) for job in drawn))
    return len(drawn) / (time.monotonic() - start_s)


async def _fleet(
    jobs: Jobs, way: Any, seeds: list[int], robots: int, rate: float, seconds: float, seed: int
) -> list[Job]:
    """Serve Poisson arrivals of so many tasks per second, at most one per robot.

    A plan keeps its robot so long that robots are busy for ``BUSY`` of the time.
    """
    rng = random.Random(seed)
    order = rng.sample(seeds, len(seeds))
    executes_s = BUSY * robots / rate
    free, done = robots, asyncio.Event()
    tasks: list[asyncio.Task[None]] = []
    drawn: list[Job] = []

    async def serve(job: Job) -> None:
        nonlocal free

        def on_segment() -> None:
            job.first_s = job.first_s or time.monotonic()

        await way(job, on_segment)
        job.end_s = time.monotonic()
        job.first_s = job.first_s or job.end_s
        await asyncio.sleep(max(0.0, job.first_s + executes_s - time.monotonic()))
        free += 1
        done.set()

    start_s = time.monotonic()
    at_s = 0.0
    while at_s < seconds:
        at_s += rng.expovariate(rate)
        utility = URGENT if rng.random() < URGENT_SHARE else NORMAL
        job = jobs.draw(order[len(drawn) % len(order)], utility)
        job.executes_s = executes_s
        await asyncio.sleep(max(0.0, start_s + at_s - time.monotonic()))
        # A task counts from its arrival, also while every robot has one.
        job.at_s = start_s + at_s
        while not free:
            done.clear()
            await done.wait()
        free -= 1
        drawn.append(job)
        tasks.append(asyncio.create_task(serve(job)))
    await asyncio.gather(*tasks)
    return drawn


def _figures(served: list[Job]) -> dict[str, float]:
    responses = {
        name: [
            job.first_s - job.at_s for job in served if (job.request.utility is URGENT) == urgent
        ]
        for name, urgent in (('urgent', True), ('normal', False))
    }
    utilities = [job.request.utility.first(job.first_s - job.at_s) for job in served]
    span_s = max(job.end_s for job in served) - min(job.at_s for job in served)
    return {
        'tasks': len(served),
        'failed': sum(job.failed for job in served),
        'utility': statistics.fmean(utilities),
        'plans_per_s': len(served) / span_s,
        'urgent_p50_ms': 1000 * statistics.median(responses['urgent']),
        'urgent_p99_ms': 1000 * percentile(responses['urgent'], 0.99),
        'normal_p50_ms': 1000 * statistics.median(responses['normal']),
        'normal_p99_ms': 1000 * percentile(responses['normal'], 0.99),
    }


def _key(run: dict[str, Any]) -> tuple[int, str, int]:
    return run['robots'], run['way'], run['batch']


def _mean(runs: list[dict[str, Any]], key: tuple[int, str, int]) -> dict[str, Any]:
    """Return the median over the rounds."""
    same = [run for run in runs if _key(run) == key]
    first = same[0]
    return {
        name: value if name in ('way', 'batch', 'robots') else statistics.median(
            run[name] for run in same
        )
        for name, value in first.items()
    }  # fmt: skip


def best(runs: list[dict[str, Any]], robots: int) -> dict[str, dict[str, Any]]:
    """Return each way at its best largest batch."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        if run['robots'] == robots and (
            run['way'] not in found or run['utility'] > found[run['way']]['utility']
        ):
            found[run['way']] = run
    return found


# d


def ordering(counts: tuple[int, ...] = (8, 64, 512, 4096)) -> dict[str, Any]:
    """Time the choice of the next step's generations, with so many in the table."""

    class Texts:
        end_ids = frozenset({1})

        def bytes_of(self, token: int) -> bytes:
            return b'x'

    found = {}
    for count in counts:
        core = FreezeCore(
            Texts(), append=lambda name, ids: None, kv_tokens=lambda: 0, max_running=4,
            policy='least_loss',
        )  # type: ignore[arg-type]  # fmt: skip
        for number in range(count):
            request = GenerationRequest(
                f'{number}', Prompt('', ''), UNCUT, Scene(), NORMAL, number / count
            )
            core.add(request, 10, 0.0)
        choices, steps = [], []
        for number in range(300):
            now_s = 1.0 + number / 1000
            start_s = time.perf_counter()
            chosen = core.choose(now_s)
            middle_s = time.perf_counter()
            step = core.begin_step([Work(name, 1, 10 + number) for name in chosen], now_s)
            core.finish_step(step, [New(name, [2]) for name in chosen], now_s + 0.003)
            end_s = time.perf_counter()
            choices.append(middle_s - start_s)
            steps.append(end_s - start_s)
        found[f'{count}'] = {
            'choose_p50_us': 1e6 * statistics.median(choices),
            'choose_p99_us': 1e6 * percentile(choices, 0.99),
            'step_p50_us': 1e6 * statistics.median(steps),
        }
    return found


# What came out


def targets(figures: dict[str, Any]) -> list[Target]:
    """Return what the figures should be."""
    found: list[Target] = []
    if 'a' in figures:
        for at_once in ('1 at once', '4 at once'):
            part = figures['a'][at_once]
            found += [
                Target(f'{at_once}: overhead of segments (%)', 100 * part['overhead'], '<=', 2.5),
                Target(f'{at_once}: per boundary (ms)', part['per_boundary_ms'], '<=', 0.4),
            ]
        resume = figures['a']['resume']
        ratio = resume['resume_p50_ms'] / resume['step_p50_ms']
        found.append(Target('resume to next token over a plain step, p50', ratio, '<=', 1.3))
    for part in (value for name, value in figures.items() if name.startswith('b')):
        for robots in sorted({run['robots'] for run in part['runs']}):
            ways = best(part['runs'], robots)
            ours, name = ways['ours'], f'{robots} robots'
            others = [run for way, run in ways.items() if way != 'ours']
            stock = ways['stock fcfs']
            found += [
                Target(
                    f'{name}: urgent p99 over stock fcfs',
                    ours['urgent_p99_ms'] / stock['urgent_p99_ms'], '<=', 1 / 3,
                ),
                Target(
                    f'{name}: urgent p99 over stock priority',
                    ours['urgent_p99_ms'] / ways['stock priority']['urgent_p99_ms'], '<=', 2 / 3,
                ),
                Target(
                    f'{name}: mean utility ahead of every other way by',
                    ours['utility'] - max(run['utility'] for run in others), '>=', 0.0,
                ),
                Target(
                    f'{name}: plans per second over stock fcfs',
                    ours['plans_per_s'] / stock['plans_per_s'], '>=', 0.98,
                ),
            ]  # fmt: skip
    return found


def show(figures: dict[str, Any]) -> None:
    """Print what was measured."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    for part in (value for name, value in figures.items() if name.startswith('b')):
        for robots in sorted({run['robots'] for run in part['runs']}):
            table = Table(title=f'{robots} robots, {part["arrivals_per_s"]:.1f} tasks/s')
            for head in ('way', 'batch', 'mean U', 'plans/s', 'urgent p50/p99', 'normal p50/p99'):
                table.add_column(head, justify='left' if head == 'way' else 'right')
            leading = best(part['runs'], robots).values()
            for run in (run for run in part['runs'] if run['robots'] == robots):
                table.add_row(
                    run['way'], str(run['batch']), f'{run["utility"]:.3f}',
                    f'{run["plans_per_s"]:.1f}',
                    f'{run["urgent_p50_ms"]:.0f} / {run["urgent_p99_ms"]:.0f} ms',
                    f'{run["normal_p50_ms"]:.0f} / {run["normal_p99_ms"]:.0f} ms',
                    style='bold' if run in leading else '',
                )  # fmt: skip
            console.print(table)
    for name in ('a', 'd'):
        if name in figures:
            console.print(name, figures[name])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--only', nargs='+', choices=('a', 'b', 'd'), default=['a', 'b', 'd'])
    parser.add_argument('--rounds', type=int, default=0, help='default: 15 of a, 3 of b')
    parser.add_argument('--robots', type=int, nargs='+', default=[16, 64])
    parser.add_argument('--batches', type=int, nargs='+', default=[4, 16])
    parser.add_argument('--seconds', type=float, default=6.0, help='of arrivals per run of b')
    options = parser.parse_args()
    path = Path(FOLDER) / 'vllm.json'
    figures: dict[str, Any] = json.loads(path.read_text())['figures'] if path.is_file() else {}
    if 'd' in options.only:
        figures['d'] = ordering()
    if 'a' in options.only:
        figures['a'] = asyncio.run(overhead(options.rounds or 15))
    if 'b' in options.only:
        for robots in options.robots:
            figures[f'b {robots}'] = asyncio.run(
                contention([robots], options.batches, options.seconds, options.rounds or 3)
            )
    show(figures)
    ways_of = {
        robots: best(part['runs'], robots)
        for name, part in figures.items()
        if name.startswith('b')
        for robots in sorted({run['robots'] for run in part['runs']})
    }
    if ways_of:
        draw(ways_of, PICTURE)
    save('vllm', figures, targets(figures))


if __name__ == '__main__':
    main()
