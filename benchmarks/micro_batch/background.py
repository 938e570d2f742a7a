"""What a saturated background costs robots, and what it makes of the engine's idle time.

    .venv/bin/python -m benchmarks.micro_batch.background [--rounds 14] [--seconds 8] [--load 8]
        [--json FILE]
    .venv/bin/python -m benchmarks.micro_batch.background --rounds 4  # a quick look

The embedded model on the torch engine, one planner, one run. Each round has two short parts in
turn: robots alone, and the same robots with the same tasks at the same times while the background
lane is saturated; every fourth round also has the background alone. Robots get tasks at random
times, most of them urgent; what is compared is the response time of the urgent ones: task received
to the robot's first action. Standard errors come from drawing rounds anew (bootstrap), both parts
of a round together; rounds in which other programs used the machine do not count and are run
again. The engine's idle capacity is the rate of the background alone times the
share of the time in which robots alone leave the engine idle: with the default options, and, at
last, with steps as long as any of some shapes makes most of.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
from rich.progress import Progress

from benchmarks.common import (
    POSITIVE,
    QUIET_CORES,
    Number,
    Others,
    Target,
    arguments,
    running_fleet,
    save,
)
from benchmarks.micro_batch.background_figures import Part, figures_of, quiet_rounds
from timely_llm_ros.clock import WallClock
from timely_llm_ros.engines import EngineEvent, EngineStateChanged, GenerationEnded
from timely_llm_ros.engines.torch import TorchConfig, TorchEngine
from timely_llm_ros.planner import BackgroundTask, Task, TaskHandle
from timely_llm_ros.sample_tasks import TaskSample, sample_task
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import ConstantDuration, SkillSet
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

ROBOTS = 24
URGENT_SHARE = 0.7
NORMAL_KINDS, URGENT_KINDS = (1, 3, 4, 5), (6, 7, 8)
ACTION_S = 0.05
SATURATED = 48
"""Background tasks that wait or run at any time, while the background is on."""
ALONE_EVERY, ALONE_S = 4, 5.0
"""In how many rounds the background is alone once, and for how long (s)."""
SCHEDULING = SchedulingOptions()
WIDE = ((8, 64), (16, 128), (32, 256))
"""Generations and prompt tokens of the longest steps that the background is tried alone with."""
RESAMPLES = 4000


class Bench:
    """One planner with a fleet, and the parts of the rounds.

    Args:
        load_per_s: Tasks of robots per second.
        seconds: Length of a part.
        scheduling: The scheduler's options.
    """

    def __init__(
        self, load_per_s: float, seconds: float, scheduling: SchedulingOptions = SCHEDULING
    ) -> None:
        self._load_per_s, self._seconds = load_per_s, seconds
        self._scheduling = scheduling
        base = find_skill_set('tello')
        quick = {
            name: replace(skill, duration=ConstantDuration(ACTION_S))
            for name, skill in base.skills.items()
        }
        self.skill_set: SkillSet = replace(base, skills=quick)
        self._busy_s = 0.0
        self._tokens = self._plans = self._interrupted = 0
        self._numbers = itertools.count()
        self._rng = random.Random(1)
        self._prompts: list[TaskSample] = [
            sample_task(self._rng, self._rng.choice(NORMAL_KINDS), 8) for _ in range(200)
        ]

    async def run(self, rounds: int) -> list[Part]:
        """Run rounds until so many were quiet, at most twice as many; without, only a background.

        A round is quiet where other programs left the machine alone in all its parts.
        """
        self._clock = WallClock()
        engine = TorchEngine(TorchConfig(scheduling=self._scheduling))
        robots = (f'robot_{number}' for number in range(ROBOTS))
        found: list[Part] = []
        async with running_fleet(
            engine, robots, self.skill_set, self._clock, on_engine_event=self._see
        ) as self._planner:
            self._others = Others(engine.worker_pid)
            with Progress() as progress:
                bar = progress.add_task('quiet rounds', total=rounds)
                await self._part('both' if rounds else 'background', 0)
                if not rounds:
                    found.append(await self._part('background', 0))
                quiet = alone = 0
                for number in range(2 * rounds):
                    pair = ['robots', 'both']
                    names = pair[:: 1 if number % 2 else -1]
                    lone = quiet >= ALONE_EVERY * alone
                    names += ['background'] if lone else []
                    parts = [await self._part(name, number) for name in names]
                    found += parts
                    if all(part.others_cores < QUIET_CORES for part in parts):
                        quiet += 1
                        alone += lone
                    progress.update(bar, completed=quiet)
                    if quiet == rounds:
                        break
        return found

    async def _part(self, name: str, number: int) -> Part:
        """Let a part run and come to rest."""
        robots = name != 'background'
        seconds = self._seconds if robots else ALONE_S
        feeding = None if name == 'robots' else asyncio.create_task(self._feed())
        if feeding is not None:
            await self._clock.sleep(0.5)
        self._others.cores()
        busy_s, tokens, plans = self._busy_s, self._tokens, self._plans
        interrupted = self._interrupted
        started_s = self._clock.now()
        handles = await self._serve(number) if robots else []
        await self._clock.sleep(started_s + seconds - self._clock.now())
        await self._clock.sleep(0.15)  # The state comes at most ten times a second.
        took_s = self._clock.now() - started_s
        others = self._others.cores()
        tokens, plans, busy_s = self._tokens - tokens, self._plans - plans, self._busy_s - busy_s
        interrupted = self._interrupted - interrupted
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        urgent_s = []
        for handle in handles:
            result = await handle.result()
            if handle.task.task_kind == 'urgent':
                if result.response_s is None:
                    raise SystemExit(f'{handle.task.task_id}: {result.ending.message}')
                urgent_s.append(result.response_s)
        await self._clock.sleep(0.2)
        return Part(name, number, took_s, urgent_s, busy_s, tokens, plans, interrupted, others)

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
                    self._planner.prepare(
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
            if not result.ending.succeeded:
                raise SystemExit(f'background: {result.ending.message}')

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
            self._interrupted = event.state.interrupted
        elif isinstance(event, GenerationEnded) and event.generation_id.startswith('background/'):
            self._tokens += event.tokens
            self._plans += event.reason == 'stop'


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--rounds', type=Number(ALONE_EVERY), default=14)
    parser.add_argument(
        '--seconds', type=Number(2, whole=False), default=8.0, help='length of each part'
    )
    parser.add_argument('--load', type=POSITIVE, default=8.0, help='tasks of robots per second')
    options = parser.parse_args()
    bench = Bench(options.load, options.seconds)
    everything = asyncio.run(bench.run(options.rounds))
    wide_per_s = {}
    for batch, chunk in WIDE:
        shape = replace(
            SCHEDULING, background_batch=batch, background_chunk=chunk, background_step_s=10.0
        )
        (wide,) = asyncio.run(Bench(options.load, options.seconds, shape).run(0))
        wide_per_s[f'{batch} generations, {chunk} prompt tokens'] = wide.tokens / wide.seconds
    rounds = quiet_rounds(everything)
    begun = len({part.round for part in everything})
    print(f'{len(rounds)} of {begun} rounds were quiet: other programs below {QUIET_CORES:g} cores')
    if len(rounds) < ALONE_EVERY:
        raise SystemExit(f'expected at least {ALONE_EVERY} quiet rounds: the machine is in use')
    parts = [part for part in everything if part.round in rounds]
    found = figures_of(parts, rounds)
    rng = np.random.default_rng(0)
    drawn = [figures_of(parts, rng.choice(rounds, len(rounds)).tolist()) for _ in range(RESAMPLES)]
    errors = {
        name: float(np.std([getattr(one, name) for one in drawn]))
        for name in ('rise', 'delay_s', 'idle_share', 'share')
    }
    quantiles = {
        name: {f'p{q}': found.percentile_s(name, q) for q in (50, 90, 99)}
        for name in ('robots', 'both')
    }
    for name, values in quantiles.items():
        row = ', '.join(f'{q} {1000 * value:.1f} ms' for q, value in values.items())
        print(f'urgent response, {name:>6}: {row} ({len(found.urgent_s[name])} tasks)')
    print(f'urgent p99 rises by {100 * found.rise:.1f} +- {100 * errors["rise"]:.1f} %')
    print(
        f'an urgent task is later by {1000 * found.delay_s:.2f} +- '
        f'{1000 * errors["delay_s"]:.2f} ms in the mean'
    )
    print(f'engine idle with robots alone: {100 * found.idle_share:.1f} % of the time')
    print(
        f'background: alone {found.alone_per_s:.0f} tokens/s, beside robots '
        f'{found.beside_per_s:.0f}; with steps of any length alone '
        + ', '.join(f'{rate:.0f} ({shape})' for shape, rate in wide_per_s.items())
    )
    most_per_s = max(found.alone_per_s, *wide_per_s.values())
    share_of_wide = found.share * found.alone_per_s / most_per_s
    print(f'steps of the background interrupted: {found.interrupted_per_s:.1f} a second')
    figures = {
        'urgent_response_s': quantiles,
        'urgent_tasks': len(found.urgent_s['both']),
        'rise': found.rise,
        'delay_s': found.delay_s,
        'idle_share': found.idle_share,
        'share': found.share,
        'share of steps of any length': share_of_wide,
        'errors': errors,
        'background_tokens_per_s': {
            'alone': found.alone_per_s,
            'beside robots': found.beside_per_s,
            'alone, steps of any length': most_per_s,
        },
        'steps of any length, tokens/s': wide_per_s,
        'interrupted_per_s': found.interrupted_per_s,
        'load_per_s': options.load,
        'rounds': {'quiet': len(rounds), 'begun': begun},
        'parts': [asdict(part) for part in everything],
    }
    save(
        'background',
        figures,
        [
            Target('urgent p99 response rises by', found.rise, '<=', 0.10),
            Target('background over the idle capacity', found.share, '>=', 0.80),
            Target('the same, capacity with steps of any length', share_of_wide, '>=', 0.80),
        ],
        path=options.json,
    )


if __name__ == '__main__':
    main()
