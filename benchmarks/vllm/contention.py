"""Part b of the vLLM benchmark: fleets of robots with urgent and normal tasks, served in five ways.

A load is what robots ask for if they are answered at once, as a share of what stock vLLM, first
come first served, serves at most in the same run: above 1 somebody has to wait, whoever serves.
Robots wait for their plans, so the load that comes is lower the slower they are served. Every way
meets the same robots, in turns, each at the largest batch that a search before found best for it.
Times of the utilities are scaled by what a task costs this engine alone over what it costs the
paper's, as in ``contention.py``.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from benchmarks.common import standard_error
from benchmarks.timelyllm import paper_cost_s
from benchmarks.vllm.clients import SETTLE_S, Jobs, Ours, Stock, arguments
from benchmarks.vllm.fleet import Fleet, Loop
from benchmarks.workloads import WORKLOADS, compose
from lrtrace.statistics import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.vllm.clients import Job
    from benchmarks.vllm.fleet import Serve

SEEDS = range(120)
"""Tasks that are drawn from, of each kind; those whose plans come out wrong are left out."""

WARM, MOST = 48, 144
"""Tasks at once, to warm up and to see how many are served at most."""

BURSTS = 3
"""How often the latter is tried with each largest batch."""

ALONE = 60
"""Urgent tasks, one at a time, to see how soon an idle engine answers."""

RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Way:
    """A way of serving, and the vLLM that does it."""

    client: Stock | Ours
    serve: Serve


class Systems:
    """The three vLLMs with one largest batch, and the five ways that they serve."""

    def __init__(self, jobs: Jobs, batch: int) -> None:
        grammar = {'structured_outputs_config': {'backend': 'guidance'}}
        fcfs = Stock(jobs, **arguments(batch, **grammar))
        ranked = Stock(jobs, **arguments(batch, scheduling_policy='priority', **grammar))
        ours = Ours(batch)
        self._running: list[Stock | Ours] = []
        self.fcfs = fcfs
        self.ways = {
            'stock fcfs': Way(fcfs, lambda job, on: fcfs.whole(job, on, ranked=False)),
            'stock priority': Way(ranked, lambda job, on: ranked.whole(job, on, ranked=True)),
            'stock streaming': Way(fcfs, fcfs.stream),
            'outside': Way(ranked, ranked.outside),
            'ours': Way(ours, ours.serve),
        }

    async def start(self) -> None:
        clients = {way.client: None for way in self.ways.values()}
        self._running = list(clients)
        await asyncio.gather(*(client.start() for client in clients))

    async def keep(self, names: set[str]) -> None:
        """Close all that these ways do not need."""
        needed = [self.ways[name].client for name in names]
        for client in [client for client in self._running if client not in needed]:
            self._running.remove(client)
            await client.close()


async def contention(
    fleets: list[int],
    batches: list[int],
    loads: list[float],
    seconds: float,
    search_s: float,
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Every way at its best largest batch, in turns, with the same robots.

    Args:
        fleets: Numbers of robots.
        batches: Largest batches to choose from.
        loads: What robots ask for, as shares of what stock serves at most.
        seconds: Length of a run (s).
        search_s: Length of a run that looks for the best batch, at the highest load (s).
        rounds: Runs of each way.
        say: Told how far it is.
    """
    jobs = Jobs(constrained=True)
    systems = {batch: Systems(jobs, batch) for batch in batches}
    try:
        for system in systems.values():
            await system.start()
        say(f'b: all started, largest batches {batches}')
        fleet, factor = await _fleet(jobs, systems[max(batches)])
        most = await _most(fleet, systems)
        say(f'b: stock serves {most:.1f} plans/s at most; times scaled by {factor:.3f}')
        searched: list[dict[str, Any]] = []
        for robots in fleets:
            loop = Loop.asking(robots, max(loads) * most)
            for batch, system in systems.items() if len(batches) > 1 else ():
                for name, way in system.ways.items():
                    found = figures([await _run(fleet, way, loop, search_s, 99)], search_s)
                    searched.append({'way': name, 'batch': batch, 'robots': robots} | found)
                    say(f'b: {robots} robots, batch {batch}: {name}: {_line(found)}')
        names = tuple(systems[batches[0]].ways)
        chosen = {
            (robots, name): _best_batch(searched, robots, name) or batches[0]
            for robots, name in product(fleets, names)
        }
        for batch, system in systems.items():
            await system.keep({name for (_, name), best in chosen.items() if best == batch})
        alone_ms = {}
        for name in names:
            way = systems[chosen[fleets[-1], name]].ways[name]
            await asyncio.sleep(SETTLE_S)
            await way.client.forget()
            await fleet.learn(way.serve)
            alone_ms[name] = 1000 * statistics.median(await fleet.alone(way.serve, ALONE))
        say(f'b: alone an urgent task is answered after (ms) {alone_ms}')
        served: dict[tuple[int, float, str], list[list[Job]]] = {}
        for number, robots, load, name in product(range(rounds), fleets, loads, names):
            way = systems[chosen[robots, name]].ways[name]
            loop = Loop.asking(robots, load * most)
            run = await _run(fleet, way, loop, seconds, number)
            served.setdefault((robots, load, name), []).append(run)
            where = f'round {number + 1} of {rounds}, {robots} robots, load {load:g}'
            say(f'b: {where}: {name}: {_line(figures([run], seconds))}')
    finally:
        for system in systems.values():
            await system.keep(set())
    return {
        'most_plans_per_s': most,
        'time_factor': factor,
        'seconds': seconds,
        'search_s': search_s,
        'rounds': rounds,
        'batches': batches,
        'loops': [
            {'robots': robots, 'load': load, 'acts_s': loop.acts_s, 'thinks_s': loop.thinks_s}
            for robots, load in product(fleets, loads)
            for loop in (Loop.asking(robots, load * most),)
        ],
        'alone_ms': alone_ms,
        'searched': searched,
        'runs': [
            {'way': name, 'batch': chosen[robots, name], 'robots': robots, 'load': load}
            | figures(runs, seconds)
            for (robots, load, name), runs in sorted(served.items())
        ],
    }


async def _fleet(jobs: Jobs, system: Systems) -> tuple[Fleet, float]:
    """Return the fleet, and what times of utilities are multiplied with."""
    seeds = {
        urgent: await jobs.screen(system.fcfs, SEEDS, urgent=urgent) for urgent in (True, False)
    }
    serve, rng, alone = system.ways['stock fcfs'].serve, random.Random(2), Fleet(jobs, seeds, 1.0)
    for _ in range(4):
        await serve(alone.draw(rng), lambda: None)
    start_s = time.monotonic()
    for _ in range(40):
        await serve(alone.draw(rng), lambda: None)
    task_s = (time.monotonic() - start_s) / 40
    factor = task_s / paper_cost_s(compose(WORKLOADS['wid1'], 0))
    return Fleet(jobs, seeds, factor), factor


async def _most(fleet: Fleet, systems: dict[int, Systems]) -> float:
    """Return how many plans per second stock serves at most, at its best largest batch.

    It is the most of a few bursts: one in a slow spell of the machine would make every load too
    low, and then nobody has to wait.
    """
    most = 0.0
    for system in systems.values():
        for way in system.ways.values():
            await fleet.most(way.serve, WARM)
        for _ in range(BURSTS):
            await asyncio.sleep(SETTLE_S)
            await system.fcfs.forget()
            most = max(most, await fleet.most(system.ways['stock fcfs'].serve, MOST))
        await asyncio.sleep(SETTLE_S)
    return most


async def _run(fleet: Fleet, way: Way, loop: Loop, seconds: float, seed: int) -> list[Job]:
    """Return the tasks of a run that begins with an empty prefix cache and an idle machine."""
    await asyncio.sleep(SETTLE_S)
    await way.client.forget()
    await fleet.learn(way.serve)
    return await fleet.serve(way.serve, loop, seconds, seed)


def _best_batch(searched: list[dict[str, Any]], robots: int, name: str) -> int | None:
    """Return the largest batch with which a way gains most; None if there was no search.

    That is utility per second: by the mean over tasks a way could seem good that keeps robots
    waiting, which then ask for less.
    """
    runs = [run for run in searched if run['robots'] == robots and run['way'] == name]
    if not runs:
        return None
    return int(max(runs, key=itemgetter('utility_per_s'))['batch'])


def figures(runs: list[list[Job]], seconds: float) -> dict[str, float]:
    """Return a way's figures over all of its rounds; standard errors are over rounds."""
    jobs = [job for run in runs for job in run]
    urgent, normal = (
        [job.response_s for job in jobs if job.urgent == kind] for kind in (True, False)
    )
    rates = [sum(job.in_time for job in run) / seconds for run in runs]
    utilities = [
        statistics.fmean(job.request.utility.first(job.response_s) for job in run) for run in runs
    ]
    gained = [utility * rate for utility, rate in zip(utilities, rates, strict=True)]
    return {
        'tasks': len(jobs),
        'urgent_tasks': len(urgent),
        'failed': sum(job.failed for job in jobs),
        'utility': statistics.fmean(utilities),
        'utility_error': standard_error(utilities),
        'plans_per_s': statistics.fmean(rates),
        'plans_per_s_error': standard_error(rates),
        'utility_per_s': statistics.fmean(gained),
        'utility_per_s_error': standard_error(gained),
        'urgent_p50_ms': 1000 * statistics.median(urgent),
        'urgent_p99_ms': 1000 * percentile(urgent, 0.99),
        'urgent_p99_error_ms': 1000 * _percentile_error(urgent, 0.99),
        'normal_p50_ms': 1000 * statistics.median(normal),
        'normal_p99_ms': 1000 * percentile(normal, 0.99),
    }


def _line(found: dict[str, float]) -> str:
    return (
        f'utility {found["utility"]:.3f}, {found["plans_per_s"]:.1f} plans/s, urgent '
        f'{found["urgent_p50_ms"]:.0f} / {found["urgent_p99_ms"]:.0f} ms of '
        f'{found["urgent_tasks"]:.0f}'
    )


def _percentile_error(values: list[float], share: float) -> float:
    """Return a percentile's standard error, by drawing tasks anew."""
    rng = random.Random(0)
    return statistics.stdev(
        percentile(rng.choices(values, k=len(values)), share) for _ in range(RESAMPLES)
    )


def ways_of(part: Mapping[str, Any], robots: int, load: float) -> dict[str, dict[str, Any]]:
    """Return each way's figures with one fleet at one load."""
    return {
        run['way']: run for run in part['runs'] if run['robots'] == robots and run['load'] == load
    }


def settings(part: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Return the fleets and loads that were measured."""
    return sorted({(run['robots'], run['load']) for run in part['runs']})
