"""How soon the next segment is there when a robot reports the value that its plan waits for.

``make bench-written_ahead``: held-out tasks whose plans ask their robots are planned one after the
other on the torch engine's core in this process, on one thread, greedily and within the grammar.
In one way the value comes at once, so that all steps for the next segment come after it, as on an
engine that writes nothing ahead; in the other the engine has been idle meanwhile. Both ways have a
copy of the model each and serve the same tasks in turns; who goes first changes. Times are CPU
time, which other programs on the machine disturb less than they do the clock's; steps of the model
are counted beside them.

With ``--engine vllm`` each way is a vLLM with our scheduler inside, and times are the clock's,
because several processes share the work; nobody counts its steps. The robot is away for ``AWAY_S``
before it reports the value.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.first_action.vllm_server import VllmServer
from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    Resume,
    SegmentGenerated,
    Submit,
)
from timely_llm_ros.engines.core import CoreOptions, LanedCore
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch.compute import TorchBackend, load_model
from timely_llm_ros.evaluation.plans import draw_cases
from timely_llm_ros.prompts import TersePrompts
from timely_llm_ros.skills import Call
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.evaluation.plans import Case

SHIPPED = 'timely-planner'
KV_TOKENS = 16_384
MOST_TOKENS = 200

AWAY_S = 0.3
"""How long vLLM has for what it writes ahead (s)."""

GAIN = 2.0
"""How many times as soon the next segment is wanted from vLLM."""


@dataclass
class Found:
    """What one way's values met: steps of the model and time (s), before and after each."""

    ahead_steps: list[int] = field(default_factory=list)
    ahead_s: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    after_s: list[float] = field(default_factory=list)
    plans: dict[str, tuple[int, ...]] = field(default_factory=dict)


class Serves(Protocol):
    """Serves one task at a time; its robot reports at once, or once the engine is idle."""

    found: Found

    def serve(self, case: Case) -> None:
        """Have a task planned."""
        ...

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens that were written ahead and wanted, and those thrown away."""
        ...


class Server(Serves):
    """The torch engine's core."""

    def __init__(self, loaded: LoadedModel, *, ahead: bool) -> None:
        self.found = Found()
        self._ahead = ahead
        self._backend = TorchBackend(loaded)
        self._core = LanedCore(
            self._backend,
            CoreOptions(policy='fcfs', max_kv_tokens=KV_TOKENS, context_limit=loaded.context_limit),
        )
        self._steps = 0
        self._events: deque[tuple[EngineEvent, int, float]] = deque()

    def serve(self, case: Case) -> None:
        """Have a task planned."""
        self._core.apply(Submit(_request(case, 0.0)))
        while case.name not in self.found.plans:
            while not self._events:
                self._step()
            event, _, _ = self._events.popleft()
            if isinstance(event, GenerationEnded):
                self.found.plans[case.name] = event.token_ids
            elif isinstance(event, SegmentGenerated) and event.segment.awaits_value:
                call = event.segment.statements[0]
                self._report(case.name, case.value(call) if isinstance(call, Call) else 'true')

    def _report(self, name: str, value: str) -> None:
        """Give a plan its value, after the engine's idle time if it gets any."""
        found, clock = self.found, time.process_time
        began, began_s = self._steps, clock()
        while self._ahead and self._step():
            pass
        told, told_s = self._steps, clock()
        self._core.apply(Resume(name, value))
        while not self._events:
            self._step()
        _, seen, seen_s = self._events[0]
        found.ahead_steps.append(told - began)
        found.ahead_s.append(told_s - began_s)
        found.steps.append(seen - told)
        found.after_s.append(seen_s - told_s)

    def _step(self) -> bool:
        core = self._core
        plan = core.plan(0.0)
        self._collect()
        if plan is None:
            return False
        started_s = time.process_time()
        core.complete(plan, self._backend.execute(plan), started_s, time.process_time())
        self._steps += 1
        self._collect()
        return True

    def _collect(self) -> None:
        now_s = time.process_time()
        self._events += [(event, self._steps, now_s) for event in self._core.take_events()]

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens that were written ahead and wanted, and those thrown away."""
        state = self._core.state(0.0)
        return state.ahead_tokens, state.ahead_dropped_tokens


class AskingVllm(Serves):
    """The vLLM engine."""

    def __init__(self, *, ahead: bool) -> None:
        self.found = Found()
        self._ahead = ahead
        self._server = VllmServer(KV_TOKENS, max_running=2)

    def serve(self, case: Case) -> None:
        """Wait until the plan is there."""
        self._server.run(self._serve(case))

    async def _serve(self, case: Case) -> None:
        server, told_s = self._server, 0.0
        server.submit(_request(case, time.monotonic()))
        while True:
            event = await server.next(case.name)
            if told_s:
                self.found.after_s.append(time.perf_counter() - told_s)
                told_s = 0.0
            if isinstance(event, GenerationEnded):
                self.found.plans[case.name] = event.token_ids
                return
            call = event.segment.statements[0]
            if event.segment.awaits_value:
                if self._ahead:
                    await asyncio.sleep(AWAY_S)
                told_s = time.perf_counter()
                value = case.value(call) if isinstance(call, Call) else 'true'
                server.engine.resume(case.name, value)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens that were written ahead and wanted, and those thrown away."""
        state = self._server.state
        return (0, 0) if state is None else (state.ahead_tokens, state.ahead_dropped_tokens)

    def close(self) -> None:
        """End it."""
        self._server.close()


def _request(case: Case, now_s: float) -> GenerationRequest:
    task = case.task
    prompt = TersePrompts().build(case.skill_set, task.scene, task.instruction)
    return GenerationRequest(
        case.name, prompt, case.skill_set, task.scene, NORMAL, now_s, MOST_TOKENS
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--objects', nargs='+', type=COUNT, default=[10, 50])
    parser.add_argument('--tasks', type=COUNT, default=40, help='of each kind that asks')
    parser.add_argument('--engine', choices=['torch', 'vllm'], default='torch')
    options = parser.parse_args(given)
    if options.engine == 'vllm':
        _measure_vllm(options.objects, options.tasks, options.json)
    else:
        _measure_torch(options.objects, options.tasks, options.json)


def _measure_vllm(sizes: Sequence[int], tasks: int, path: Path | None) -> None:
    servers = [AskingVllm(ahead=ahead) for ahead in (False, True)]
    try:
        print(f'{"objects":>9}{"values":>8}{"ms":>8}{"ahead":>7}{"dropped":>9}')
        rows = [_row(servers, objects, tasks) for objects in sizes]
    finally:
        for server in servers:
            server.close()
    targets = [
        Target(
            'times as soon the next segment, written ahead, at least',
            min(row['after_s'][0] / row['after_s'][1] for row in rows),
            '>=',
            GAIN,
        ),
        Target('plans with equal token ids', min(row['same_ids'] for row in rows), '>=', 1.0),
    ]
    save('written_ahead_vllm', {'model': SHIPPED, 'scenes': rows}, targets, path=path)


def _measure_torch(sizes: Sequence[int], tasks: int, path: Path | None) -> None:
    copies = [load_model(find_model(SHIPPED), max_kv_tokens=KV_TOKENS, threads=1) for _ in '12']
    print(
        f'{"objects":>9}{"values":>8}{"ms":>8}{"ahead":>7}{"dropped":>9}{"steps":>7}{"ahead":>7}'
        f'{"idle steps":>12}'
    )
    rows = []
    for objects in sizes:
        # Others' figures are no part of a row's.
        servers = [Server(it, ahead=way) for it, way in zip(copies, (False, True), strict=True)]
        rows.append(_row(servers, objects, tasks))
    targets = [
        Target(
            'steps from a value to the next segment, written ahead, at most',
            max(row['most_steps'][1] for row in rows),
            '<=',
            0,
        ),
        Target('plans with equal token ids', min(row['same_ids'] for row in rows), '>=', 1.0),
    ]
    save('written_ahead', {'model': SHIPPED, 'scenes': rows}, targets, path=path)


def _row(servers: Sequence[Serves], objects: int, tasks: int) -> dict[str, Any]:
    """Have tasks in scenes of that size served both ways."""
    before = servers[1].tokens
    for server in servers:
        server.found = Found()
    cases = [case for case in draw_cases((objects,), tasks, 'held_out') if case.values]
    for number, case in enumerate(cases):
        for server in servers[:: -1 if number % 2 else 1]:
            server.serve(case)
    without, ahead = (server.found for server in servers)
    wanted, dropped = (now - then for now, then in zip(servers[1].tokens, before, strict=True))
    row: dict[str, Any] = {
        'objects': objects,
        'tasks': len(cases),
        'values': len(without.after_s),
        'after_s': [statistics.median(it.after_s) for it in (without, ahead)],
        'wanted_tokens': wanted,
        'dropped_tokens': dropped,
        'same_ids': statistics.fmean(
            without.plans[it.name] == ahead.plans[it.name] for it in cases
        ),
    }
    steps = ''
    if ahead.steps:
        row |= {
            'steps': [statistics.median(it.steps) for it in (without, ahead)],
            'most_steps': [max(it.steps) for it in (without, ahead)],
            'idle_steps': statistics.median(ahead.ahead_steps),
            'idle_s': statistics.median(ahead.ahead_s),
        }
        steps = f'{row["steps"][0]:7g}{row["steps"][1]:7g}{row["idle_steps"]:12g}'
    after = [1e3 * it for it in row['after_s']]
    print(
        f'{objects:9}{row["values"]:8}{after[0]:8.2f}{after[1]:7.2f}'
        f'{dropped / (wanted + dropped):9.2f}{steps}',
        flush=True,
    )
    return row


if __name__ == '__main__':
    main()
