"""Part b of the vLLM benchmark: fleets of robots with urgent and normal tasks, served in five ways.

A closed loop: each robot thinks, submits a task, acts while its segments come, and thinks again.
Robots think so long that stock vLLM, first come first served, works at ``LOAD`` of what it can do
in the same run; every way meets the same robots. Times of the utilities are scaled by what a task
costs this engine alone over what it costs the paper's, as in ``contention.py``.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from _vllm_clients import SETTLE_S, Job, Jobs, Ours, Stock, arguments
from contention import paper_cost_s

from lrtrace.statistics import percentile
from lrtrace.workload import WORKLOADS, compose
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.utility import TimeUtility

    Way = Callable[[Job, Callable[[], None]], Awaitable[None]]

URGENT_SHARE = 0.25
LOAD = 0.95
"""Load as a share of what stock vLLM serves at most."""

BUSY = 0.25
"""Share of the time that robots act: with more, sixteen of them cannot make such a load."""

BEGIN_S = 1.0
"""Tasks of a run's beginning are not counted: robots have come all at once."""

SEEDS = range(120)
"""Tasks that are drawn from, of each kind; those whose plans come out wrong are left out."""


class Fleet:
    """Robots that all have tasks again and again.

    Args:
        jobs: Draws the tasks.
        seeds: Of urgent tasks and of normal ones.
        factor: What times of utilities are multiplied with.
    """

    def __init__(self, jobs: Jobs, seeds: dict[bool, list[int]], factor: float) -> None:
        self._jobs, self._seeds = jobs, seeds
        self._utilities = {True: _scaled(URGENT, factor), False: _scaled(NORMAL, factor)}

    def draw(self, rng: random.Random) -> Job:
        """Return the next task."""
        urgent = rng.random() < URGENT_SHARE
        job = self._jobs.draw(
            rng.choice(self._seeds[urgent]), self._utilities[urgent], urgent=urgent
        )
        job.urgent = urgent
        return job

    async def most(self, way: Way, tasks: int) -> float:
        """Return how many plans per second are served when all come at once."""
        rng = random.Random(1)
        drawn = [self.draw(rng) for _ in range(tasks)]
        start_s = time.monotonic()
        for job in drawn:
            job.at_s = start_s
        await asyncio.gather(*(way(job, lambda: None) for job in drawn))
        return tasks / (time.monotonic() - start_s)

    async def learn(self, way: Way) -> None:
        """Serve a task of either kind, so that the prompts' fixed parts are known, as in use."""
        rng = random.Random(3)
        for urgent in (True, False):
            job = self._jobs.draw(
                rng.choice(self._seeds[urgent]), self._utilities[urgent], urgent=urgent
            )
            job.at_s = time.monotonic()
            await way(job, lambda: None)

    async def serve(
        self, way: Way, robots: int, acts_s: float, thinks_s: float, seconds: float, seed: int
    ) -> list[Job]:
        """Let robots live for that long after the beginning; return the tasks of that time."""
        seconds += BEGIN_S
        done: list[Job] = []
        # Drawn before: what it costs here would be waited for by everybody.
        most = 4 + int(2.0 * seconds / (acts_s + thinks_s))
        rngs = [random.Random(f'{seed} {robot}') for robot in range(robots)]
        tasks = [[self.draw(rng) for _ in range(most)] for rng in rngs]
        start_s = time.monotonic()

        async def live(robot: int) -> None:
            rng = rngs[robot]
            # Robots do not begin at the same moment.
            await asyncio.sleep(rng.uniform(0.0, acts_s + thinks_s))
            while time.monotonic() < start_s + seconds:
                job = tasks[robot].pop() if tasks[robot] else self.draw(rng)
                job.segment_acts_s = acts_s / job.plan.count(';')
                job.at_s = time.monotonic()

                def on_segment(job: Job = job) -> None:
                    job.first_s = job.first_s or time.monotonic()

                await way(job, on_segment)
                job.end_s = time.monotonic()
                job.first_s = job.first_s or job.end_s
                job.in_time = start_s + BEGIN_S <= job.end_s < start_s + seconds
                if job.at_s >= start_s + BEGIN_S or job.in_time:
                    done.append(job)
                left_s = max(0.0, job.first_s + acts_s - time.monotonic())
                await asyncio.sleep(left_s + rng.expovariate(1 / thinks_s))

        await asyncio.gather(*(live(robot) for robot in range(robots)))
        return done


def _scaled(utility: TimeUtility, factor: float) -> TimeUtility:
    return replace(
        utility,
        expected_response_s=utility.expected_response_s * factor,
        slope_per_s=utility.slope_per_s / factor,
    )


async def contention(
    fleets: list[int], batches: list[int], seconds: float, rounds: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Every way at every largest batch, in turns, with the same robots."""
    jobs = Jobs()
    seeds: dict[bool, list[int]] = {}
    served: dict[tuple[int, str, int], list[list[Job]]] = {}
    loads: dict[int, tuple[float, float]] = {}
    most = factor = 0.0
    # The largest first: there stock serves most, and that is what the load is a share of.
    for batch in sorted(batches, reverse=True):
        fcfs = Stock(jobs, **arguments(batch))
        ranked = Stock(jobs, **arguments(batch, scheduling_policy='priority'))
        ours = Ours(batch)
        await asyncio.gather(fcfs.start(), ranked.start(), ours.start())
        say(f'b: all started, largest batch {batch}')
        clients = (fcfs, ranked, ours)
        ways = _ways(fcfs, ranked, ours)
        try:
            if not seeds:
                for urgent in (True, False):
                    seeds[urgent] = await jobs.screen(fcfs, SEEDS, urgent=urgent)
                task_s = await _task_s(jobs, ways['stock fcfs'], seeds)
                factor = task_s / paper_cost_s(compose(WORKLOADS['wid1'], 0))
            fleet = Fleet(jobs, seeds, factor)
            for way in ways.values():
                await fleet.most(way, 48)  # Warms up.
            if not most:
                await fcfs.forget()
                most = await fleet.most(ways['stock fcfs'], 144)
                say(f'b: stock serves {most:.1f} plans/s at most; times scaled by {factor:.3f}')
            for robots in fleets:
                if robots not in loads:
                    loads[robots] = await _settle(fleet, fcfs, ways, robots, most, seconds)
                for number in range(rounds):
                    for name, way in ways.items():
                        await asyncio.sleep(SETTLE_S)
                        for client in clients:
                            await client.forget()
                        await fleet.learn(way)
                        run = await fleet.serve(way, robots, *loads[robots], seconds, number)
                        served.setdefault((robots, name, batch), []).append(run)
                        where = f'batch {batch}, {robots} robots, round {number + 1} of {rounds}'
                        say(f'b: {where}: {name}: {_line(_figures([run], seconds))}')
        finally:
            for client in clients:
                await client.close()
    return {
        'most_plans_per_s': most,
        'time_factor': factor,
        'seconds': seconds,
        'rounds': rounds,
        'fleets': {
            f'{robots}': {'acts_s': acts_s, 'thinks_s': thinks_s}
            for robots, (acts_s, thinks_s) in loads.items()
        },
        'runs': [
            {'way': way, 'batch': batch, 'robots': robots} | _figures(runs, seconds)
            for (robots, way, batch), runs in sorted(served.items())
        ],
    }


def _ways(fcfs: Stock, ranked: Stock, ours: Ours) -> dict[str, Way]:
    return {
        'stock fcfs': lambda job, on: fcfs.whole(job, on, ranked=False),
        'stock priority': lambda job, on: ranked.whole(job, on, ranked=True),
        'stock streaming': fcfs.stream,
        'outside': ranked.outside,
        'ours': ours.serve,
    }


async def _task_s(jobs: Jobs, way: Way, seeds: dict[bool, list[int]]) -> float:
    """Return what a task costs alone, in the mean (s)."""
    fleet = Fleet(jobs, seeds, 1.0)
    rng = random.Random(2)
    for _ in range(4):
        await way(fleet.draw(rng), lambda: None)
    start_s = time.monotonic()
    for _ in range(40):
        await way(fleet.draw(rng), lambda: None)
    return (time.monotonic() - start_s) / 40


async def _settle(
    fleet: Fleet, fcfs: Stock, ways: dict[str, Way], robots: int, most: float, seconds: float
) -> tuple[float, float]:
    """Return how long robots act and think for stock vLLM to be at its load (s)."""
    cycle_s = robots / (LOAD * most)
    acts_s = BUSY * cycle_s
    thinks_s = 0.35 * cycle_s
    for _ in range(2):
        await fcfs.forget()
        await fleet.learn(ways['stock fcfs'])
        jobs = await fleet.serve(ways['stock fcfs'], robots, acts_s, thinks_s, seconds / 2, 99)
        response_s = statistics.fmean(job.response_s for job in jobs)
        thinks_s = max(0.05 * cycle_s, cycle_s - acts_s - response_s)
    return acts_s, thinks_s


def _figures(runs: list[list[Job]], seconds: float) -> dict[str, float]:
    """Return a way's figures over all of its rounds."""
    jobs = [job for run in runs for job in run]
    responses = {
        urgent: [job.response_s for job in jobs if job.urgent == urgent] for urgent in (True, False)
    }
    rates = [sum(job.in_time for job in run) / seconds for run in runs]
    utilities = [
        statistics.fmean(job.request.utility.first(job.response_s) for job in run) for run in runs
    ]
    return {
        'tasks': len(jobs),
        'failed': sum(job.failed for job in jobs),
        'utility': statistics.fmean(utilities),
        'utility_error': _error(utilities),
        'plans_per_s': statistics.fmean(rates),
        'plans_per_s_error': _error(rates),
        'urgent_p50_ms': 1000 * statistics.median(responses[True]),
        'urgent_p99_ms': 1000 * percentile(responses[True], 0.99),
        'normal_p50_ms': 1000 * statistics.median(responses[False]),
        'normal_p99_ms': 1000 * percentile(responses[False], 0.99),
    }


def _line(figures: dict[str, float]) -> str:
    return (
        f'utility {figures["utility"]:.3f}, {figures["plans_per_s"]:.1f} plans/s, urgent '
        f'{figures["urgent_p50_ms"]:.0f} / {figures["urgent_p99_ms"]:.0f} ms'
    )


def _error(values: list[float]) -> float:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def best(runs: list[dict[str, Any]], robots: int) -> dict[str, dict[str, Any]]:
    """Return each way at its best largest batch."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        if run['robots'] == robots and (
            run['way'] not in found or run['utility'] > found[run['way']]['utility']
        ):
            found[run['way']] = run
    return found
