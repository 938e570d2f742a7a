"""Replicas on Ray nodes, and HTTP servers, against one engine with as many places, in real time.

    .venv/bin/python -m benchmarks.operation.cluster [--robots 200] [--draws 3] [--seconds 60]

The tasks of a fleet that is as busy as TimelyLLM's WID1 go to one planner. Its engine is either one
simulated engine of this process at the pace of an 8B model, or four of a quarter of its places each
on two Ray nodes, chosen as the engine ``ray`` does, or in turn. Or it is the engine ``openai`` with
four HTTP servers of that pace and those places in a process of their own, which serve requests in
the order in which they come and keep KV as stock vLLM does. There each session stays at its server,
or a load balancer without sessions gives each request to the next one, where its KV may not be; it
is in the servers' process, so that the way through it costs nothing. A step takes as long however
many generations it has: what is compared is what the way between planner and replicas costs.

Then a draw is served twice, and the second time it meets a replica that is killed, one that drains
and one that comes, in the middle of it. At the end the embedded model says what Ray adds to the
time of an event: in a process of its own, and in two replicas.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.common import Target, arguments, ray_nodes, save
from benchmarks.operation.paced_servers import PacedEngine, paced_servers
from benchmarks.workloads import System, compose, fleet_spec, plan_tokens, serve_workload
from lrtrace.statistics import percentile
from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    RayConfig,
    RayOptions,
    SegmentGenerated,
    create_engine,
)
from timely_llm_ros.engines.ray import RayEngine, replicas, scale
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine, find_hardware
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.planner import SegmentEnded
from timely_llm_ros.sample_tasks import sample_task
from timely_llm_ros.skills import build_prompt
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Iterable

    from benchmarks.workloads import ServedTask
    from timely_llm_ros.engines import Engine, EngineConfig, EngineEvent
    from timely_llm_ros.evaluation import Workload
    from timely_llm_ros.planner import PlannerEvent

REPLICAS, NODES = 4, 2
LIMIT_S = 120.0
"""How long replicas may take to be there."""

BACK_S = 5.0
"""How long after a disturbance urgent tasks may be late."""

TASKS_OF = range(1, 9)
PLANS = 60
"""Plans of the embedded model, one after the other."""


class InTurn(RayEngine):
    """Gives each new generation to the next replica."""

    _turn = 0

    def _soonest(self, request: GenerationRequest) -> Any:  # noqa: ARG002
        there = sorted(name for name, one in self._links.items() if one.ready and not one.draining)
        self._turn += 1
        return self._links[there[self._turn % len(there)]] if there else None


@dataclass(frozen=True, slots=True)
class Served:
    """How the tasks of one draw fared in one way; times in seconds."""

    way: str
    tasks: int
    failed: int
    utility: float
    urgent_p50_s: float
    urgent_p99_s: float


def served(way: str, records: tuple[ServedTask, ...]) -> Served:
    """Return the figures of one draw."""
    responses_s = urgent_s(records)
    return Served(
        way,
        len(records),
        sum(not one.result.ending.succeeded for one in records),
        statistics.fmean(one.result.utility for one in records),
        percentile(responses_s, 0.5),
        percentile(responses_s, 0.99),
    )


def urgent_s(
    records: tuple[ServedTask, ...], from_s: float = 0.0, to_s: float = math.inf
) -> list[float]:
    """Return the responses of the urgent tasks that came in that time (s)."""
    return [
        one.result.response_s
        for one in records
        if one.task.group == 'urgent'
        and one.result.response_s is not None
        and from_s <= one.task.at_s < to_s
    ]


def engine_config(workload: Workload, places: int) -> SimulatedConfig:
    """Return the options of an engine that writes a workload's plans."""
    hardware = find_hardware('rtx4090_llama3_8b')
    hardware = replace(hardware, step_time=replace(hardware.step_time, batch_factor=0.0))
    plans = {str(number): plan_tokens(task) for number, task in enumerate(workload.tasks)}
    return System('', policy='least_loss', max_running=places).config(hardware, plans)


def on_ray(config: EngineConfig, app: str, number: int = REPLICAS) -> RayConfig:
    """Return the options of replicas of an engine."""
    return RayConfig(given=config, ray=RayOptions(app=app, replicas=number, cpus=0.1))


def running(app: str) -> list[Any]:
    """Return an app's replicas that run."""
    return [one for one in replicas(app) if one.state == 'RUNNING']


async def until_running(app: str, number: int) -> None:
    """Wait for so many replicas.

    Raises:
        TimeoutError: They are not there within ``LIMIT_S``.
    """
    async with asyncio.timeout(LIMIT_S):
        while len(await asyncio.to_thread(running, app)) != number:
            await asyncio.sleep(0.2)


@asynccontextmanager
async def app(config: RayConfig) -> AsyncIterator[None]:
    """Have an app's replicas there before any task comes, and gone afterwards."""
    from ray import serve

    first = create_engine(config)
    await first.start(lambda _: None)
    await until_running(config.ray.app, config.ray.replicas)
    await first.close()
    try:
        yield
    finally:
        await asyncio.to_thread(serve.delete, config.ray.app)


Told = Callable[[str], None]


async def compare(
    robots: int, draws: int, seconds: float, places: int, tell: Told
) -> tuple[list[Served], dict[str, int]]:
    """Serve each draw in each way, one after the other.

    Returns:
        How that went, and how many tokens of prompts the HTTP servers computed in each way.
    """
    found = []
    computed: Counter[str] = Counter()
    for draw in range(draws):
        workload = compose(fleet_spec(robots, seconds), draw)
        one = SimulatedEngine(engine_config(workload, REPLICAS * places))
        found.append(served('one engine', await serve_workload(workload, [one])))
        tell(line(found[-1]))
        config = on_ray(engine_config(workload, places), f'draw_{draw}')
        async with app(config):
            for way, make in (('ray', RayEngine), ('ray, in turn', InTurn)):
                engine = make(config, create_engine)
                found.append(served(way, await serve_workload(workload, [engine])))
                tell(line(found[-1]))
        each = engine_config(workload, places)
        plans = {str(number): plan_tokens(task) for number, task in enumerate(workload.tasks)}
        for way, balanced in (('openai', False), ('openai, in turn', True)):
            async with paced_servers(each, plans, REPLICAS, balanced=balanced) as servers:
                http = PacedEngine(servers.urls, each, REPLICAS // len(servers.urls))
                found.append(served(way, await serve_workload(workload, [http])))
                tell(line(found[-1]))
            computed[way] += servers.computed
    return found, dict(computed)


async def disturb(name: str, seconds: float, tell: Told) -> dict[str, float]:
    """Kill a replica, have one drain and one come, a fifth of the time apart; return when (s)."""
    start_s, at_s = time.monotonic(), {}

    async def due(share: float, what: str) -> None:
        await asyncio.sleep(start_s + share * seconds - time.monotonic())
        at_s[what] = time.monotonic() - start_s
        tell(f'{what} at {at_s[what]:.1f} s')

    await due(0.2, 'killed')
    os.kill((await asyncio.to_thread(running, name))[0].pid, signal.SIGKILL)
    await due(0.5, 'drained')
    await asyncio.to_thread(scale, name, REPLICAS - 1)
    await due(0.75, 'added')
    await asyncio.to_thread(scale, name, REPLICAS)
    return at_s


async def disturbed(
    robots: int, draw: int, seconds: float, places: int, tell: Told
) -> tuple[Served, dict[str, Any]]:
    """Serve a draw undisturbed, and again while replicas die, drain and come."""
    workload = compose(fleet_spec(robots, seconds), draw)
    config = on_ray(engine_config(workload, places), 'disturbed')
    segments: Counter[tuple[str, int]] = Counter()

    def see(event: PlannerEvent) -> None:
        if isinstance(event, SegmentEnded):
            segments[event.task_id, event.outcome.index] += 1

    async with app(config):
        calm = await serve_workload(workload, [RayEngine(config, create_engine)])
        tell(line(served('ray, undisturbed', calm)))
        engine = RayEngine(config, create_engine)
        serving = serve_workload(workload, [engine], on_event=see)
        at_s, records = await asyncio.gather(disturb('disturbed', seconds, tell), serving)
    one = served('ray, disturbed', records)
    tell(line(one))
    ends_s = [*list(at_s.values())[1:], seconds]
    after = {
        what: [percentile(urgent_s(one, when_s + BACK_S, end_s), 0.99) for one in (records, calm)]
        for (what, when_s), end_s in zip(at_s.items(), ends_s, strict=True)
    }
    twice = sum(number > 1 for number in segments.values())
    return one, {'at_s': at_s, 'urgent_p99_after_s': after, 'segments_twice': twice}


def drawn_request(number: int) -> GenerationRequest:
    """Return a request for a plan of a sample task's."""
    rng = random.Random(number)
    sample = sample_task(rng, rng.choice(TASKS_OF), 8)
    skill_set = find_skill_set(sample.skill_set)
    prompt = build_prompt(skill_set, sample.scene, sample.instruction)
    return GenerationRequest(f'plan {number}', prompt, skill_set, sample.scene, NORMAL, 0.0)


async def event_times(engine: Engine, requests: Iterable[GenerationRequest]) -> list[float]:
    """Return after how long each segment's event was here, of plans one after the other (s)."""
    late_s: list[float] = []
    ended = asyncio.Event()

    def see(event: EngineEvent) -> None:
        if isinstance(event, SegmentGenerated):
            late_s.append(time.monotonic() - event.token_at_s)
            if event.segment.awaits_value:
                engine.resume(event.generation_id, 'true')
        elif isinstance(event, GenerationEnded):
            ended.set()

    await engine.start(see)
    try:
        for request in requests:
            ended.clear()
            engine.submit(request)
            async with asyncio.timeout(LIMIT_S):
                await ended.wait()
    finally:
        await engine.close()
    return late_s


def line(one: Served) -> str:
    """Return a line of the table."""
    return (
        f'{one.way:16} {one.tasks:6} {one.failed:7} {one.utility:8.3f} '
        f'{one.urgent_p50_s:8.3f} {one.urgent_p99_s:8.3f}'
    )


async def event_costs(tell: Told) -> dict[str, dict[str, float]]:
    """Return how late events of the embedded model are, in a process of its own and on Ray (ms)."""
    torch = TorchConfig(max_running=2)
    requests = [drawn_request(number) for number in range(PLANS)]
    found = {'process': await event_times(create_engine(torch), requests)}
    config = on_ray(torch, 'torch', NODES)
    async with app(config):
        found['ray'] = await event_times(create_engine(config), requests)
    costs = {
        name: {f'p{share}_ms': 1000 * percentile(late_s, share / 100) for share in (50, 99)}
        for name, late_s in found.items()
    }
    for name, cost in costs.items():
        tell(f'event from {name}: p50 {cost["p50_ms"]:.2f} ms, p99 {cost["p99_ms"]:.2f} ms')
    return costs


def targets(found: list[Served], hurt: Served, what: dict[str, Any]) -> list[Target]:
    """Return what should have come out."""

    def mean(way: str, figure: str) -> float:
        return statistics.fmean(getattr(one, figure) for one in found if one.way == way)

    utility = mean('ray', 'utility') / mean('one engine', 'utility')
    p99 = mean('ray', 'urgent_p99_s') / mean('one engine', 'urgent_p99_s')
    return [
        Target('utility of four replicas over that of one engine', utility, '>=', 0.95),
        Target('urgent p99 of four replicas over that of one engine', p99, '<=', 1.05),
        Target('tasks lost', sum(one.failed for one in [*found, hurt]), '<=', 0),
        Target('segments twice', what['segments_twice'], '<=', 0),
        *(
            Target(
                f'urgent p99 from {BACK_S:g} s after one is {event}, over undisturbed',
                after_s / undisturbed_s,
                '<=',
                1.25,
            )
            for event, (after_s, undisturbed_s) in what['urgent_p99_after_s'].items()
        ),
    ]


async def run(options: argparse.Namespace) -> None:
    shape = options.seconds, options.places
    with Progress(console=Console(stderr=True)) as progress:
        progress.add_task(f'{options.draws} draws in five ways, one disturbed', total=None)
        tell = progress.console.print
        tell(f'{"way":16} {"tasks":>6} {"failed":>7} {"utility":>8} {"p50 s":>8} {"p99 s":>8}')
        found, computed = await compare(options.robots, options.draws, *shape, tell)
        hurt, what = await disturbed(options.robots, options.draws, *shape, tell)
        costs = await event_costs(tell)
    figures = {
        'robots': options.robots,
        'seconds': options.seconds,
        'places': options.places,
        'served': [asdict(one) for one in [*found, hurt]],
        'computed_tokens': computed,
        'disturbed': what,
        'events': costs,
    }
    save('cluster', figures, targets(found, hurt, what), path=options.json)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--robots', type=int, default=200)
    parser.add_argument('--draws', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=60.0, help='of each draw (default 60)')
    parser.add_argument('--places', type=int, default=4, help='of each replica (default 4)')
    options = parser.parse_args()
    if min(options.robots, options.draws, options.places) < 1:
        parser.error('--robots, --draws, --places: expected numbers of at least 1')
    if not 5.0 <= options.seconds <= 3600.0:
        parser.error(f'--seconds {options.seconds:g}: expected 5 to 3600')
    with ray_nodes(NODES):
        asyncio.run(run(options))


if __name__ == '__main__':
    main()
