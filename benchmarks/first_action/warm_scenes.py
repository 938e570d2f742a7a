"""How soon a first segment is there when the robot's scene was computed ahead.

``make bench-warm_scenes``: held-out tasks are planned one after the other on the torch engine's
core in this process, on one thread, greedily and within the grammar. The engine is idle when a task
comes. Cold, it has of the prompt the beginning that all prompts of a skill set share; warm, it had
been told the robot's scene before. Both ways have a copy of the model each, with fast-forward, and
serve the same tasks in turns; who goes first changes. Times are CPU time, which other programs on
the machine disturb less than they do the clock's.

With ``--engine vllm`` each way is a vLLM with our scheduler inside, and times are the clock's,
because several processes share the work. Stock vLLM, with the same grammar and its prefix cache,
writes the whole plans of those tasks that need no value from a robot.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.first_action.first_action_vllm import AsItIs
from benchmarks.first_action.vllm_server import VllmServer
from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    Resume,
    SegmentGenerated,
    Submit,
    Warm,
)
from timely_llm_ros.engines.core import CoreOptions, LanedCore
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch.compute import TorchBackend, load_model
from timely_llm_ros.evaluation.plans import draw_cases
from timely_llm_ros.prompts import TersePrompts
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Call
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.evaluation.plans import Case
    from timely_llm_ros.skills import Prompt

SHIPPED = 'timely-planner'
KV_TOKENS = 16_384
MOST_TOKENS = 200

FACTOR = 1.3
"""How many times as long as with the smallest scene the first segment may take in the largest."""

OF_PLAN = 0.3
"""How much of the time of stock vLLM's whole plan a first segment may take."""


class Serves(Protocol):
    """Serves one task at a time, with its scene told before or not."""

    def serve(self, case: Case) -> tuple[float, float, tuple[int, ...]]:
        """Return how long the first segment took, the scene before it, and the plan's ids (s)."""
        ...

    @property
    def hits(self) -> int:
        """Tasks that found their scene warm."""
        ...


class Server(Serves):
    """The torch engine's core."""

    def __init__(self, loaded: LoadedModel, *, warm: bool) -> None:
        self._warm = warm
        self._backend = TorchBackend(loaded)
        self._core = LanedCore(
            self._backend,
            CoreOptions(
                policy='fcfs',
                max_running=1,
                max_kv_tokens=KV_TOKENS,
                context_limit=loaded.context_limit,
                scheduling=SchedulingOptions(admission='fixed'),
            ),
        )

    def serve(self, case: Case) -> tuple[float, float, tuple[int, ...]]:
        """Step until the plan is there."""
        core = self._core
        began_s = time.process_time()
        if self._warm:
            core.apply(_scene(case))
            while self._step():
                pass
        came_s = time.process_time()
        core.apply(Submit(_request(case, case.name, 0.0)))
        first_s = 0.0
        while True:
            self._step()
            for event in core.take_events():
                if isinstance(event, SegmentGenerated):
                    first_s = first_s or time.process_time() - came_s
                    call = event.segment.statements[0]
                    if event.segment.awaits_value and isinstance(call, Call):
                        core.apply(Resume(case.name, case.value(call)))
                elif isinstance(event, GenerationEnded):
                    return (
                        first_s or time.process_time() - came_s,
                        came_s - began_s,
                        event.token_ids,
                    )

    def _step(self) -> bool:
        core = self._core
        plan = core.plan(0.0)
        if plan is None:
            return core.prepare()
        started_s = time.process_time()
        core.complete(plan, self._backend.execute(plan), started_s, time.process_time())
        return True

    @property
    def hits(self) -> int:
        """Tasks that found their scene warm."""
        return self._core.state(0.0).warm_hits


class WarmVllm(Serves):
    """The vLLM engine."""

    def __init__(self, *, warm: bool) -> None:
        self._warm, self._count = warm, 0
        self._server = VllmServer(KV_TOKENS, max_running=1)

    def serve(self, case: Case) -> tuple[float, float, tuple[int, ...]]:
        """Wait until the plan is there."""
        return self._server.run(self._serve(case))

    async def _serve(self, case: Case) -> tuple[float, float, tuple[int, ...]]:
        self._count += 1
        name, server = f'{case.name} {self._count}', self._server
        if self._warm:
            server.engine.send(replace(_scene(case), prompt=None))
            await server.until(lambda: not self._scenes)
        began_s = time.perf_counter()
        if self._warm:
            server.engine.send(_scene(case))
            await server.until(lambda: self._scenes > 0)
        came_s = time.perf_counter()
        server.submit(_request(case, name, time.monotonic()))
        first_s = 0.0
        while True:
            event = await server.next(name)
            first_s = first_s or time.perf_counter() - came_s
            if isinstance(event, GenerationEnded):
                return first_s, came_s - began_s, event.token_ids
            call = event.segment.statements[0]
            if event.segment.awaits_value and isinstance(call, Call):
                server.engine.resume(name, case.value(call))

    @property
    def _scenes(self) -> int:
        return 0 if self._server.state is None else self._server.state.warm_scenes

    @property
    def hits(self) -> int:
        """Tasks that found their scene warm."""
        return 0 if self._server.state is None else self._server.state.warm_hits

    def close(self) -> None:
        """End it."""
        self._server.close()


class StockVllm:
    """vLLM as it is."""

    def __init__(self) -> None:
        self._runner, self._vllm = asyncio.Runner(), AsItIs(SHIPPED)
        self._runner.run(self._vllm.begin())

    def plan_s(self, case: Case) -> float:
        """Return how long a whole plan took (s)."""
        request = _request(case, case.name, time.monotonic())
        began_s = time.perf_counter()
        self._runner.run(self._vllm.plan(request))
        return time.perf_counter() - began_s

    def close(self) -> None:
        """End it."""
        self._runner.run(self._vllm.close())
        self._runner.close()


def _prompt(case: Case) -> Prompt:
    return TersePrompts().build(case.skill_set, case.task.scene, case.task.instruction)


def _scene(case: Case) -> Warm:
    known = TersePrompts().known(case.skill_set, case.task.scene)
    return Warm('robot', known, case.skill_set, case.task.scene)


def _request(case: Case, name: str, now_s: float) -> GenerationRequest:
    return GenerationRequest(
        name, _prompt(case), case.skill_set, case.task.scene, NORMAL, now_s, MOST_TOKENS,
        scene_of='robot',
    )  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--objects', nargs='+', type=COUNT, default=[10, 50, 200])
    parser.add_argument('--tasks', type=COUNT, default=4, help='of each of the eleven kinds')
    parser.add_argument('--engine', choices=['torch', 'vllm'], default='torch')
    options = parser.parse_args(given)
    rows = []
    print(f'{"objects":>9}{"tasks":>7}{"cold ms":>9}{"warm ms":>9}{"times":>7}{"scene ms":>10}')
    if options.engine == 'vllm':
        started, stock = [WarmVllm(warm=warm) for warm in (False, True)], StockVllm()
        try:
            rows = [_measure(started, objects, options.tasks, stock) for objects in options.objects]
        finally:
            for server in started:
                server.close()
            stock.close()
    else:
        copies = [load_model(find_model(SHIPPED), max_kv_tokens=KV_TOKENS, threads=1) for _ in '12']
        for objects in options.objects:
            servers = [Server(it, warm=way) for it, way in zip(copies, (False, True), strict=True)]
            rows.append(_measure(servers, objects, options.tasks))
    few, many = rows[0], rows[-1]
    name = f'first segment, warm scene of {many["objects"]} objects, times that of {few["objects"]}'
    targets = [
        Target(f'{name}, warm too', many['warm_s'] / few['warm_s'], '<=', FACTOR),
        Target(f'{name}, cold', many['warm_s'] / few['cold_s'], '<=', FACTOR),
        Target('plans with equal token ids', min(row['same_ids'] for row in rows), '>=', 1.0),
    ]
    targets += [
        Target(
            f'first segment, {way}, over the whole plan of stock vLLM, {row["objects"]} objects',
            share,
            '<=',
            OF_PLAN,
        )
        for row in rows
        for way, share in row.get('of_stock_plan', {}).items()
    ]
    name = 'warm_scenes' if options.engine == 'torch' else 'warm_scenes_vllm'
    save(name, {'model': SHIPPED, 'scenes': rows}, targets, path=options.json)


def _measure(
    servers: Sequence[Serves], objects: int, tasks: int, stock: StockVllm | None = None
) -> dict[str, Any]:
    """Have tasks in scenes of that size served by the cold one and by the warm one."""
    cold, warm = servers
    hits = warm.hits
    cases = draw_cases((objects,), tasks, 'held_out')
    found: dict[Serves, list[tuple[float, float, tuple[int, ...]]]] = {cold: [], warm: []}
    plans_s: dict[int, float] = {}
    # The first task computes what all prompts share, and is not counted.
    for number, case in enumerate((cases[0], *cases)):
        for server in (cold, warm) if number % 2 else (warm, cold):
            found[server].append(server.serve(case))
        if stock is not None and (not number or not case.values):
            plans_s[number] = stock.plan_s(case)
    one, other = found[cold][1:], found[warm][1:]
    cold_s, warm_s = (statistics.median(it[0] for it in side) for side in (one, other))
    row: dict[str, Any] = {
        'objects': objects,
        'tasks': len(cases),
        'cold_s': cold_s,
        'warm_s': warm_s,
        'gain': cold_s / warm_s,
        'scene_s': statistics.median(it[1] for it in other),
        'hits': warm.hits - hits,
        'same_ids': statistics.fmean(a[2] == b[2] for a, b in zip(one, other, strict=True)),
    }
    plans_s.pop(0, None)
    if plans_s:
        row['stock_plan_s'] = plan_s = statistics.median(plans_s.values())
        row['of_stock_plan'] = {
            way: statistics.median(found[server][number][0] for number in plans_s) / plan_s
            for way, server in (('cold', cold), ('warm', warm))
        }
    print(
        f'{objects:9}{len(cases):7}{1e3 * cold_s:9.1f}{1e3 * warm_s:9.1f}{row["gain"]:7.1f}'
        f'{1e3 * row["scene_s"]:10.1f}',
        flush=True,
    )
    return row


if __name__ == '__main__':
    main()
