"""A fleet of robots with urgent and normal tasks, a closed loop, for the vLLM benchmark.

Each robot thinks, submits a task, acts while its segments come, and thinks again.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.vllm.clients import Job, Jobs
    from timely_llm_ros.utility import TimeUtility

    Serve = Callable[[Job, Callable[[], None]], Awaitable[None]]

URGENT_SHARE = 0.25

BUSY = 0.25
"""Share of a robot's cycle in which it acts: with more, sixteen of them cannot make such a load."""

BEGIN_S = 1.0
"""Tasks of a run's beginning are not counted: robots have come all at once."""


@dataclass(frozen=True, slots=True)
class Loop:
    """How long a robot acts and thinks between two tasks (s): what it would ask if nothing took
    time."""

    robots: int
    cycle_s: float

    @classmethod
    def asking(cls, robots: int, tasks_per_s: float) -> Loop:
        """Return the loop of robots that ask for so much if they are answered at once."""
        return cls(robots, robots / tasks_per_s)

    @property
    def acts_s(self) -> float:
        return BUSY * self.cycle_s

    @property
    def thinks_s(self) -> float:
        """In the mean."""
        return (1 - BUSY) * self.cycle_s


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
        seed = rng.choice(self._seeds[urgent])
        return self._jobs.draw(seed, self._utilities[urgent], urgent=urgent)

    async def most(self, serve: Serve, tasks: int) -> float:
        """Return how many plans per second are served when all come at once."""
        rng = random.Random(1)
        drawn = [self.draw(rng) for _ in range(tasks)]
        start_s = time.monotonic()
        for job in drawn:
            job.at_s = start_s
        await asyncio.gather(*(serve(job, lambda: None) for job in drawn))
        return tasks / (time.monotonic() - start_s)

    async def alone(self, serve: Serve, tasks: int) -> list[float]:
        """Return when urgent tasks, one at a time, had their first segment (s)."""
        rng, responses_s = random.Random(4), []
        for _ in range(tasks):
            job = self._jobs.draw(rng.choice(self._seeds[True]), self._utilities[True], urgent=True)
            job.at_s = time.monotonic()

            def on_segment(job: Job = job) -> None:
                job.first_s = job.first_s or time.monotonic()

            await serve(job, on_segment)
            responses_s.append(job.response_s)
        return responses_s

    async def learn(self, serve: Serve) -> None:
        """Serve a task of either kind, so that the prompts' fixed parts are known, as in use."""
        rng = random.Random(3)
        for urgent in (True, False):
            job = self._jobs.draw(
                rng.choice(self._seeds[urgent]), self._utilities[urgent], urgent=urgent
            )
            job.at_s = time.monotonic()
            await serve(job, lambda: None)

    async def serve(self, serve: Serve, loop: Loop, seconds: float, seed: int) -> list[Job]:
        """Let robots live for that long after the beginning; return the tasks of that time."""
        done: list[Job] = []
        # Drawn before: what it costs here would be waited for by everybody.
        most = 4 + int(2.0 * (BEGIN_S + seconds) / loop.cycle_s)
        rngs = [random.Random(f'{seed} {robot}') for robot in range(loop.robots)]
        tasks = [[self.draw(rng) for _ in range(most)] for rng in rngs]
        start_s = time.monotonic()
        end_s = start_s + BEGIN_S + seconds

        async def live(robot: int) -> None:
            rng = rngs[robot]
            # Robots do not begin at the same moment.
            await asyncio.sleep(rng.uniform(0.0, loop.cycle_s))
            while time.monotonic() < end_s:
                job = tasks[robot].pop() if tasks[robot] else self.draw(rng)
                job.segment_acts_s = loop.acts_s / job.plan.count(';')
                job.at_s = time.monotonic()

                def on_segment(job: Job = job) -> None:
                    job.first_s = job.first_s or time.monotonic()

                await serve(job, on_segment)
                job.end_s = time.monotonic()
                job.first_s = job.first_s or job.end_s
                job.in_time = start_s + BEGIN_S <= job.end_s < end_s
                if job.at_s >= start_s + BEGIN_S or job.in_time:
                    done.append(job)
                next_s = max(time.monotonic(), job.first_s + loop.acts_s)
                next_s += rng.expovariate(1 / loop.thinks_s)
                # What comes after the end is not waited for.
                await asyncio.sleep(min(next_s, end_s) - time.monotonic())

        await asyncio.gather(*map(live, range(loop.robots)))
        return done


def _scaled(utility: TimeUtility, factor: float) -> TimeUtility:
    return replace(
        utility,
        expected_response_s=utility.expected_response_s * factor,
        slope_per_s=utility.slope_per_s / factor,
    )
