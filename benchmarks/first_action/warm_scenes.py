"""How soon a first segment is there when the robot's scene was computed ahead.

``make bench-warm_scenes``: held-out tasks are planned one after the other on the torch engine's
core in this process, on one thread, greedily and within the grammar. The engine is idle when a task
comes. Cold, it has of the prompt the beginning that all prompts of a skill set share; warm, it had
been told the robot's scene before. Both ways have a copy of the model each, with fast-forward, and
serve the same tasks in turns; who goes first changes. Times are CPU time, which other programs on
the machine disturb less than they do the clock's.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, Target, arguments, save
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

SHIPPED = 'timely-planner'
TASK = 'task: '
"""What stands between scene and instruction in the shipped model's prompts."""

KV_TOKENS = 16_384
MOST_TOKENS = 200

FACTOR = 1.3
"""How many times as long as with the smallest scene the first segment may take in the largest."""


class Server:
    """Serves one task at a time, with its scene told before or not."""

    def __init__(self, loaded: LoadedModel, *, warm: bool) -> None:
        self._warm, self._prompts = warm, TersePrompts()
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
        """Return how long the first segment took, the scene before it, and the plan's ids (s)."""
        core, task = self._core, case.task
        prompt = self._prompts.build(case.skill_set, task.scene, task.instruction)
        began_s = time.process_time()
        if self._warm:
            known = replace(prompt, body=prompt.body[: prompt.body.index(TASK) + len(TASK)])
            core.apply(Warm('robot', known, case.skill_set, task.scene))
            while self._step():
                pass
        came_s = time.process_time()
        prompt = self._prompts.build(case.skill_set, task.scene, task.instruction)
        request = GenerationRequest(
            case.name, prompt, case.skill_set, task.scene, NORMAL, 0.0, MOST_TOKENS,
            scene_of='robot',
        )  # fmt: skip
        core.apply(Submit(request))
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


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--objects', nargs='+', type=COUNT, default=[10, 50, 200])
    parser.add_argument('--tasks', type=COUNT, default=4, help='of each of the eleven kinds')
    options = parser.parse_args(given)
    copies = [load_model(find_model(SHIPPED), max_kv_tokens=KV_TOKENS, threads=1) for _ in '12']
    print(f'{"objects":>9}{"tasks":>7}{"cold ms":>9}{"warm ms":>9}{"times":>7}{"scene ms":>10}')
    rows = [_measure(copies, objects, options.tasks) for objects in options.objects]
    few, many = rows[0], rows[-1]
    name = f'first segment, warm scene of {many["objects"]} objects, times that of {few["objects"]}'
    targets = [
        Target(f'{name}, warm too', many['warm_s'] / few['warm_s'], '<=', FACTOR),
        Target(f'{name}, cold', many['warm_s'] / few['cold_s'], '<=', FACTOR),
        Target('plans with equal token ids', min(row['same_ids'] for row in rows), '>=', 1.0),
    ]
    save('warm_scenes', {'model': SHIPPED, 'scenes': rows}, targets, path=options.json)


def _measure(copies: Sequence[LoadedModel], objects: int, tasks: int) -> dict[str, Any]:
    cold, warm = (Server(it, warm=way) for it, way in zip(copies, (False, True), strict=True))
    cases = draw_cases((objects,), tasks, 'held_out')
    found: dict[Server, list[tuple[float, float, tuple[int, ...]]]] = {cold: [], warm: []}
    # The first task computes what all prompts share, and is not counted.
    for number, case in enumerate((cases[0], *cases)):
        for server in (cold, warm) if number % 2 else (warm, cold):
            found[server].append(server.serve(case))
    one, other = found[cold][1:], found[warm][1:]
    cold_s, warm_s = (statistics.median(it[0] for it in side) for side in (one, other))
    row = {
        'objects': objects,
        'tasks': len(cases),
        'cold_s': cold_s,
        'warm_s': warm_s,
        'gain': cold_s / warm_s,
        'scene_s': statistics.median(it[1] for it in other),
        'hits': warm.hits,
        'same_ids': statistics.fmean(a[2] == b[2] for a, b in zip(one, other, strict=True)),
    }
    print(
        f'{objects:9}{len(cases):7}{1e3 * cold_s:9.1f}{1e3 * warm_s:9.1f}{row["gain"]:7.1f}'
        f'{1e3 * row["scene_s"]:10.1f}',
        flush=True,
    )
    return row


if __name__ == '__main__':
    main()
