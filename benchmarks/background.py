"""What a saturated background costs robots, and what it makes of the engine's idle time.

    .venv/bin/python benchmarks/background.py [--rounds 8] [--seconds 10] [--load 6] [--json FILE]

The embedded model on the torch engine, one planner, one run. Each round has three parts: robots
alone, the same robots at the same times with the background lane saturated, and the background
alone, the first two in alternating order. Robots get tasks at random times, most of them urgent;
what is compared is the response time of the urgent ones: task received to the robot's first
action. The engine's idle capacity is the rate of the background alone times the share of the time
in which robots alone leave the engine idle.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
from dataclasses import asdict, dataclass, replace

import numpy as np
from _results import Target, save
from rich.progress import Progress

from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers.interpreter import SegmentExecutor
from timely_llm_ros.drivers.local import LocalRobotLink
from timely_llm_ros.drivers.simulated import SimulatedDriver
from timely_llm_ros.engines import EngineEvent, EngineStateChanged, GenerationEnded, create_engine
from timely_llm_ros.model.data import TaskSample, sample_task
from timely_llm_ros.planner import Planner, TaskHandle
from timely_llm_ros.planning import BackgroundTask, Task
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.skills.durations import ConstantDuration
from timely_llm_ros.skills.skillset import SkillSet, find_skill_set
from timely_llm_ros.utility import NORMAL, URGENT

ROBOTS = 24
URGENT_SHARE = 0.7
NORMAL_KINDS, URGENT_KINDS = (1, 3, 4, 5), (6, 7, 8)
ACTION_S = 0.05
SATURATED = 48
"""Background tasks that wait or run at any time, while the background is on."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a round."""

    name: str
    round: int
    seconds: float
    urgent_s: list[float]
    busy_s: float
    tokens: int
    plans: int


class Bench:
    """One planner with a fleet, and the parts of the rounds."""

    def __init__(self, load_per_s: float, seconds: float) -> None:
        self._load_per_s, self._seconds = load_per_s, seconds
        base = find_skill_set('tello')
        quick = {
            name: replace(skill, duration=ConstantDuration(ACTION_S))
            for name, skill in base.skills.items()
        }
        self.skill_set: SkillSet = replace(base, skills=quick)
        self._busy_s = 0.0
        self._tokens = self._plans = 0
        self._numbers = itertools.count()
        self._rng = random.Random(1)
        self._prompts: list[TaskSample] = [
            sample_task(self._rng, self._rng.choice(NORMAL_KINDS), 8) for _ in range(200)
        ]

    async def run(self, rounds: int) -> list[Part]:
        clock = WallClock()
        executors = {
            f'robot_{number}': SegmentExecutor(
                SimulatedDriver(self.skill_set, clock=clock, seed=number),
                self.skill_set,
                clock,
                progress_period_s=None,
            )
            for number in range(ROBOTS)
        }
        self._clock = clock
        self._planner = Planner(
            engine=create_engine(
                'torch',
                policy='least_loss',
                scheduling=SchedulingOptions(admission='lookahead', interrupts=False),
            ),
            robots={name: LocalRobotLink(one, clock) for name, one in executors.items()},
            skill_sets={self.skill_set.name: self.skill_set},
            clock=clock,
            on_engine_event=self._see,
        )
        for executor in executors.values():
            await executor.start()
        await self._planner.start()
        parts = []
        try:
            with Progress() as progress:
                bar = progress.add_task('rounds', total=3 * rounds + 1)
                await self._part('warm-up', 0, robots=True, background=True)
                progress.advance(bar)
                for number in range(rounds):
                    order = [('robots', True, False), ('both', True, True)]
                    for name, robots, background in [
                        *order[:: 1 if number % 2 else -1],
                        ('background', False, True),
                    ]:
                        parts.append(
                            await self._part(name, number, robots=robots, background=background)
                        )
                        progress.advance(bar)
        finally:
            await self._planner.close()
            for executor in executors.values():
                await executor.close()
        return parts

    async def _part(self, name: str, number: int, *, robots: bool, background: bool) -> Part:
        """Let a part run and come to rest."""
        feeding = asyncio.create_task(self._feed()) if background else None
        if background:
            await self._clock.sleep(0.5)
        busy_s, tokens, plans = self._busy_s, self._tokens, self._plans
        started_s = self._clock.now()
        handles = await self._serve(number) if robots else []
        await self._clock.sleep(started_s + self._seconds - self._clock.now())
        await self._clock.sleep(0.15)  # The state comes at most ten times a second.
        took_s = self._clock.now() - started_s
        tokens, plans, busy_s = self._tokens - tokens, self._plans - plans, self._busy_s - busy_s
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        urgent_s = []
        for handle in handles:
            result = await handle.result()
            if handle.task.task_kind == 'urgent':
                if result.response_s is None:
                    raise SystemExit(f'{handle.task.task_id}: {result.error}')
                urgent_s.append(result.response_s)
        await self._clock.sleep(0.2)
        return Part(name, number, took_s, urgent_s, busy_s, tokens, plans)

    async def _serve(self, number: int) -> list[TaskHandle]:
        """Give the round's tasks to robots that are free."""
        rng = random.Random(1000 + number)
        free = [f'robot_{robot}' for robot in range(ROBOTS)]
        handles = []
        start_s = self._clock.now()
        at_s = 0.0
        while (at_s := at_s + rng.expovariate(self._load_per_s)) < self._seconds - 0.5:
            urgent = rng.random() < URGENT_SHARE
            sample = sample_task(rng, rng.choice(URGENT_KINDS if urgent else NORMAL_KINDS), 8)
            await self._clock.sleep(start_s + at_s - self._clock.now())
            robot = free.pop(0)
            free.append(robot)
            handles.append(
                self._planner.submit(
                    Task(
                        f'{next(self._numbers)}',
                        robot,
                        self.skill_set.name,
                        sample.instruction,
                        sample.scene,
                        URGENT if urgent else NORMAL,
                        task_kind='urgent' if urgent else 'normal',
                        when_busy='queue',
                    )
                )
            )
        return handles

    async def _feed(self) -> None:
        """Keep the background saturated until cancelled."""
        running: set[asyncio.Task[None]] = set()

        async def one() -> None:
            sample = self._rng.choice(self._prompts)
            handle = self._planner.generate(
                BackgroundTask(
                    str(next(self._numbers)),
                    self.skill_set.name,
                    sample.instruction,
                    sample.scene,
                )
            )
            try:
                result = await handle.result()
            finally:
                handle.cancel()
            if result.error_code:
                raise SystemExit(f'background: {result.error}')

        try:
            while True:
                while len(running) < SATURATED:
                    running.add(asyncio.create_task(one()))
                done, running = await asyncio.wait(running, return_when='FIRST_COMPLETED')
                for task in done:
                    task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _see(self, event: EngineEvent) -> None:
        if isinstance(event, EngineStateChanged):
            self._busy_s = event.state.busy_s
        elif isinstance(event, GenerationEnded) and event.generation_id.startswith('background/'):
            self._tokens += event.tokens
            self._plans += event.reason == 'stop'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--rounds', type=int, default=8)
    parser.add_argument('--seconds', type=float, default=10.0, help='length of each part')
    parser.add_argument('--load', type=float, default=6.0, help='tasks of robots per second')
    parser.add_argument('--json')
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds < 2 or options.load <= 0:
        parser.error('expected at least 1 round of 2 s and a load above 0')
    parts = asyncio.run(Bench(options.load, options.seconds).run(options.rounds))

    def total(name: str, value: str) -> float:
        return float(sum(getattr(part, value) for part in parts if part.name == name))

    urgent = {
        name: np.array([s for part in parts if part.name == name for s in part.urgent_s])
        for name in ('robots', 'both')
    }
    idle_share = 1.0 - total('robots', 'busy_s') / total('robots', 'seconds')
    alone_per_s = total('background', 'tokens') / total('background', 'seconds')
    beside_per_s = total('both', 'tokens') / total('both', 'seconds')
    quantiles = {
        name: {f'p{q}': float(np.percentile(found, q)) for q in (50, 90, 99)}
        for name, found in urgent.items()
    }
    for name, found in quantiles.items():
        row = ', '.join(f'{q} {1000 * value:.1f} ms' for q, value in found.items())
        print(f'urgent response, {name:>6}: {row} ({len(urgent[name])} tasks)')
    print(f'engine idle with robots alone: {100 * idle_share:.1f} % of the time')
    print(f'background: alone {alone_per_s:.0f} tokens/s, beside robots {beside_per_s:.0f}')
    rise = quantiles['both']['p99'] / quantiles['robots']['p99'] - 1
    share = beside_per_s / (alone_per_s * idle_share)
    figures = {
        'urgent_response_s': quantiles,
        'urgent_tasks': {name: len(found) for name, found in urgent.items()},
        'idle_share': idle_share,
        'background_tokens_per_s': {'alone': alone_per_s, 'beside robots': beside_per_s},
        'parts': [asdict(part) for part in parts],
    }
    save(
        'background',
        figures,
        [
            Target('urgent p99 response rises by', rise, '<=', 0.10),
            Target('background over the idle capacity', share, '>=', 0.80),
        ],
        path=options.json,
    )


if __name__ == '__main__':
    main()
