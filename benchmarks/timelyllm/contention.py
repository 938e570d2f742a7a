"""The paper's contention on the real embedded model: every way to serve, on the torch engine.

The rankings of other systems are served too, with a fixed batch and with our admission. Ways are
compared draw by draw, each at its best batch over all draws.

    .venv/bin/python -m benchmarks.timelyllm.contention [--minutes 0.25] [--batches 4 12]
        [--seeds 3]

Tasks come as in TimelyLLM's WID1: as many per event, of the same kinds, on as many robots. Scenes,
instructions and plans are the embedded model's own, so a plan has other lengths than the paper's
and a step takes a twentieth of the time. So gaps between events and deadlines are scaled by one
factor: what a task costs this engine alone, measured when the benchmark begins, over what one
costs the paper's. Actions of the robots are scaled such that a task keeps its robot as long, in
that measure, as one of the paper's does. The load is the same then, on the engine and on the
robots. Slopes of the utility are divided by the factor, so that utilities compare.

``check_for`` is left out: its plan waits for what the robot sees, which a whole plan cannot.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.common import COUNT, Number, arguments, running_fleet, save, standard_error
from benchmarks.field import FIELD, LENT_OURS, PLUGIN
from benchmarks.timelyllm.comparison import paper_cost_s
from benchmarks.timelyllm.systems import (
    WAYS,
    Served,
    Way,
    ahead,
    best_of,
    means,
    show,
    targets,
)
from benchmarks.workloads import WORKLOADS, compose
from timely_llm_ros.clock import WallClock
from timely_llm_ros.engines import GenerationEnded, create_engine
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.planner import Task, TaskEnded
from timely_llm_ros.sample_tasks import KINDS, TaskSample, sample_task
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import (
    ConstantDuration,
    LinearDuration,
    Skill,
    SkillSet,
    expected_execution_s,
    parse,
)
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.evaluation import Workload
    from timely_llm_ros.planner import PlannerEvent, TaskResult
    from timely_llm_ros.skills import Scene

OBJECTS = (4, 12)
"""How many objects a scene has."""

KINDS_SERVED = (1, 3, 4, 5, 6, 7, 8)
LONGEST_S = 600.0
"""Longest that jobs may take when all have come (s)."""

FIELD_WAYS = tuple(
    way
    for name in FIELD
    for way in (
        Way(name, 'segmented', name, SchedulingOptions(admission='fixed')),
        Way(name + LENT_OURS, 'segmented', name),
    )
)


def scaled(skill_set: SkillSet, factor: float) -> SkillSet:
    """Return the skill set with every duration multiplied."""

    def shorter(skill: Skill) -> Skill:
        match skill.duration:
            case ConstantDuration(seconds, variation):
                return replace(skill, duration=ConstantDuration(seconds * factor, variation))
            case LinearDuration(base_s, per, variation):
                per = {name: value * factor for name, value in per.items()}
                return replace(skill, duration=LinearDuration(base_s * factor, per, variation))
            case other:
                raise TypeError(f'duration {other!r}: expected a constant or a linear one')

    skills = {name: shorter(skill) for name, skill in skill_set.skills.items()}
    return replace(skill_set, skills=skills)


def execution_factor(
    workload: Workload, samples: list[TaskSample], skill_set: SkillSet, factor: float
) -> float:
    """Return by what to multiply durations, so that robots are as busy as the workload's."""
    ours_s = statistics.fmean(
        expected_execution_s(parse(sample.plan, skill_set, sample.scene), skill_set, sample.scene)
        for sample in samples
    )
    return factor * statistics.fmean(task.execution_s for task in workload.tasks) / ours_s


def draw_samples(workload: Workload, seed: int) -> list[TaskSample]:
    """Return a scene, an instruction and the right plan for every task."""
    numbers = {kind.name: kind.number for kind in KINDS.values()}
    rng = random.Random(seed)
    return [sample_task(rng, numbers[task.kind], rng.randint(*OBJECTS)) for task in workload.tasks]


@dataclass(frozen=True, slots=True)
class Job:
    """A task that comes at its time, for whichever robot is free.

    Attributes:
        at_s: When it comes, after the fleet has started (s).
        instruction: What it asks for.
        scene: What there is.
        utility: What its response is worth.
        kind: Its kind.
    """

    at_s: float
    instruction: str
    scene: Scene
    utility: TimeUtility
    kind: str


class Fleet:
    """Serves jobs once, in real time, on so many robots of one skill set."""

    def __init__(
        self, jobs: Sequence[Job], robots: int, skill_set: SkillSet, engine: TorchConfig, seed: int
    ) -> None:
        self._jobs, self._skill_set = jobs, skill_set
        self._engine = create_engine(engine)
        self._random = random.Random(seed)
        self._free = [f'robot_{number}' for number in range(robots)]
        self._pending: deque[int] = deque()
        self.results: dict[int, TaskResult] = {}
        self.token_ids: dict[int, tuple[int, ...]] = {}
        """What was generated for each job."""
        self._start_s = 0.0
        self._ended = asyncio.Event()

    async def serve(self) -> None:
        """Serve all jobs."""
        clock = WallClock()
        async with running_fleet(
            self._engine,
            self._free,
            self._skill_set,
            clock,
            on_event=self._see,
            on_engine_event=self._see_engine,
        ) as self._planner:
            self._start_s = clock.now()
            for number, job in enumerate(self._jobs):
                await clock.sleep(self._start_s + job.at_s - clock.now())
                self._pending.append(number)
                self._assign()
            async with asyncio.timeout(LONGEST_S):
                await self._ended.wait()

    def _assign(self) -> None:
        while self._pending and self._free:
            number = self._pending.popleft()
            job = self._jobs[number]
            self._planner.submit(
                self._planner.prepare(
                    Task(
                        str(number),
                        self._free.pop(self._random.randrange(len(self._free))),
                        self._skill_set.name,
                        job.instruction,
                        job.scene,
                        job.utility,
                        task_kind=job.kind,
                    )
                ),
                received_s=self._start_s + job.at_s,
            )

    def _see(self, event: PlannerEvent) -> None:
        if isinstance(event, TaskEnded):
            self.results[int(event.task_id)] = event.result
            self._free.append(event.robot)
            if len(self.results) == len(self._jobs):
                self._ended.set()
            elif self._pending:
                asyncio.get_running_loop().call_soon(self._assign)

    def _see_engine(self, event: EngineEvent) -> None:
        if isinstance(event, GenerationEnded):
            self.token_ids[int(event.generation_id)] = event.token_ids


def jobs_of(workload: Workload, samples: Sequence[TaskSample], factor: float) -> list[Job]:
    """Return a workload's tasks with all times multiplied."""
    worth = {
        name: TimeUtility(one.expected_response_s * factor, one.slope_per_s / factor, one.peak)
        for name, one in workload.groups.items()
    }
    return [
        Job(task.at_s * factor, sample.instruction, sample.scene, worth[task.group], task.kind)
        for task, sample in zip(workload.tasks, samples, strict=True)
    ]


async def task_cost_s(jobs: Sequence[Job], skill_set: SkillSet, engine: TorchConfig) -> float:
    """Return how long the engine alone takes for one job's plan (s), in the mean."""
    # One robot whose actions take no time: one generation after the other.
    alone = [replace(job, at_s=0.0) for job in jobs]
    fleet = Fleet(alone, 1, scaled(skill_set, 0.0), served_as(WAYS[0], engine, 1), 0)
    await fleet.serve()
    # All came at once, so the last one's response is the time that all took.
    return max(result.response_s or 0.0 for result in fleet.results.values()) / len(jobs)


def served_as(way: Way, engine: TorchConfig, batch: int) -> TorchConfig:
    """Return an engine's options for a way to serve."""
    return replace(
        engine,
        mode=way.mode,
        policy=way.policy,
        max_running=batch,
        scheduling=way.scheduling,
    )


def summarise(way: Way, batch: int, workload: Workload, fleet: Fleet) -> Served:
    """Return the means over one run's tasks."""
    by_group: dict[str, list[TaskResult]] = {name: [] for name in workload.groups}
    for number, task in enumerate(workload.tasks):
        by_group[task.group].append(fleet.results[number])
    results = list(fleet.results.values())
    share = {
        name: statistics.fmean(one.utility for one in found) / workload.groups[name].peak
        for name, found in by_group.items()
    }
    response_s = {
        name: statistics.fmean(one.response_s or 0.0 for one in found)
        for name, found in by_group.items()
    }
    failed = sum(not one.ending.succeeded for one in results)
    return Served(
        way.name,
        batch,
        len(results) - failed,
        failed,
        statistics.fmean(one.utility for one in results),
        share['urgent'],
        share['normal'],
        response_s['urgent'],
        response_s['normal'],
    )


async def measure(
    engine: TorchConfig,
    minutes: float,
    batches: Sequence[int],
    seed: int,
    *,
    alone: int = 40,
    ways: Sequence[Way] = WAYS,
) -> tuple[dict[str, Any], list[Served], dict[tuple[str, int], Fleet]]:
    """Serve the workload every way; return the figures, what they are of, and the fleets.

    Args:
        engine: The engine, its way to serve aside.
        minutes: How long tasks come, each way.
        batches: The largest batches.
        seed: Of the workload.
        alone: Tasks by which it is measured what one costs.
        ways: The ways.
    """
    spec = replace(WORKLOADS['wid1'], kinds=KINDS_SERVED)
    skill_set = find_skill_set('tello')
    whole = compose(spec, seed)
    first = jobs_of(whole, draw_samples(whole, seed), 1.0)[:alone]
    cost_s = await task_cost_s(first, skill_set, engine)
    factor = cost_s / paper_cost_s(whole)
    workload = compose(replace(spec, duration_s=60.0 * minutes / factor), seed)
    samples = draw_samples(workload, seed)
    robots = scaled(skill_set, execution_factor(workload, samples, skill_set, factor))
    jobs = jobs_of(workload, samples, factor)
    print(
        f"a task costs the engine {1000 * cost_s:.1f} ms, the paper's "
        f'{1000 * paper_cost_s(whole):.0f} ms; {len(jobs)} tasks in {minutes:g} min',
        flush=True,
    )
    served: list[Served] = []
    fleets: dict[tuple[str, int], Fleet] = {}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task('', total=len(ways) * len(batches))
        for batch in batches:
            for way in ways:
                progress.update(bar, description=f'{way.name}, batch {batch}')
                options = served_as(way, engine, batch)
                fleet = Fleet(jobs, workload.robots, robots, options, seed)
                await fleet.serve()
                fleets[way.name, batch] = fleet
                one = summarise(way, batch, workload, fleet)
                served.append(one)
                progress.console.print(
                    f'{way.name}, batch {batch}: mean {one.utility:.3f}, urgent {one.urgent:.3f}, '
                    f'normal {one.normal:.3f}'
                )
                progress.advance(bar)
    served.sort(key=lambda one: [way.name for way in ways].index(one.way))
    figures = {
        'time_factor': factor,
        'task_cost_s': cost_s,
        'paper_task_cost_s': paper_cost_s(whole),
        'tasks': len(jobs),
        'minutes': minutes,
        'seed': seed,
        'served': [asdict(one) for one in served],
    }
    return figures, served, fleets


def over_draws(draws: Sequence[dict[str, Any]], served: Sequence[list[Served]]) -> dict[str, Any]:
    """Return the figures of several draws, and by how much each way is behind ours at its best."""
    rows = means(served)
    best = best_of(rows)
    ours = max((best[way.name] for way in WAYS if way.ours), key=lambda one: one.utility)
    behind = [ahead(served, ours, row, 'utility') for row in rows]
    return {
        name: statistics.fmean(draw[name] for draw in draws)
        for name in ('time_factor', 'task_cost_s', 'paper_task_cost_s')
    } | {
        'tasks': sum(draw['tasks'] for draw in draws),
        'minutes': draws[0]['minutes'],
        'seeds': len(draws),
        'served': [
            asdict(row) | {'behind': statistics.fmean(it), 'behind_error': standard_error(it)}
            for row, it in zip(rows, behind, strict=True)
        ],
        'draws': draws,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        '--minutes',
        type=Number(0.05, 60, whole=False),
        default=0.25,
        help='that tasks come, each way and draw (default %(default)s)',
    )
    parser.add_argument('--batches', type=COUNT, nargs='+', default=[4, 12])
    parser.add_argument('--seeds', type=COUNT, default=3, help='draws (default %(default)s)')
    options = parser.parse_args()
    if str(PLUGIN) not in sys.path:
        path = os.pathsep.join([str(PLUGIN), *filter(None, sys.path)])
        os.execve(sys.executable, sys.orig_argv, os.environ | {'PYTHONPATH': path})  # noqa: S606  (itself)
    ways = WAYS + FIELD_WAYS
    draws, served = [], []
    for seed in range(options.seeds):
        drawn, rows, _ = asyncio.run(
            measure(TorchConfig(), options.minutes, options.batches, seed, ways=ways)
        )
        draws.append(drawn)
        served.append(rows)
    figures = over_draws(draws, served)
    show(means(served), f'wid1 on the embedded model, times scaled by {figures["time_factor"]:.4f}')
    save('contention', figures, targets(served, ways), path=options.json)


if __name__ == '__main__':
    main()
