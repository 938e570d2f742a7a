"""What fast-forward brings inside vLLM: the same plans from three engines in turns.

``make bench-first_action_vllm``: the ways are vLLM as it is, our scheduler inside it, and our
scheduler with fast-forward. All have the same grammar, model, prefix cache and place for as many
requests. A plan is one request, and only such tasks are asked for whose plans need no value from a
robot, because vLLM as it is could not go on with one. Clients ask for the next plan as soon as they
have one, so that vLLM is always full. Prompts are computed anew for each way, or the robots' scenes
are known before, in vLLM's prefix cache. Another model than the shipped one is measured where
``--model`` names its folder. It should be a tuned one, whose
plans end by themselves: only our scheduler ends those of others in time.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil  # type: ignore[import-untyped]

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.vllm import SETTLE_S, Jobs, Stock, forget_prefixes
from benchmarks.vllm import arguments as vllm_arguments
from timely_llm_ros.engines import GenerationEnded, GenerationRequest
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.vllm import ModelFolder, VllmConfig, VllmEngine, prepare_environment
from timely_llm_ros.evaluation.plans import draw_cases
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENTS = (8, 32)
"""How many ask at a time. vLLM has as many places as the larger number."""

MOST_TOKENS = 200
CONTEXT = 4096
BLOCK = 32
KV_BLOCKS, KV_BLOCKS_GENERAL = 4096, 1024
"""A general model's KV is some ten times as large."""

KV_BYTES = 4 << 30
"""Room for either."""

PIECE = 3 * max(CLIENTS)
"""Plans at least, if there are so many, that are served one way before it is the others' turn. In
the last of them not all clients have one."""

RESAMPLES = 2000
STEPS_PER_TOKEN, STEPS_PER_TOKEN_GENERAL = 0.55, 0.45
"""What is wanted of the shipped model, and of a general one, whose tokens are shorter."""

GAIN, SAME = 1.35, 0.995

COLUMNS = {
    'objects': 9, 'scenes': 8, 'clients': 9, 'plans': 7, 'steps/token': 13, 'stock /s': 10,
    'ours /s': 9, 'forward /s': 12, 'x stock': 9, '+-': 6, 'x ours': 8, 'CPU x': 7, 'same text': 11,
}  # fmt: skip


@dataclass
class Served:
    """A plan: its tokens, and how many of them and its end were forwarded."""

    token_ids: tuple[int, ...]
    stopped: bool
    forwarded: int = 0


@dataclass
class Measured:
    """What one way took for each piece (s), and its plans."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    plans: dict[str, Served] = field(default_factory=dict)


class Asking:
    """Clients of one way: each asks for the next plan when it has one."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    async def begin(self) -> None:
        """Start it and find its processes."""
        before = set(psutil.Process().children(recursive=True))
        await self.start()
        self.pids = [it.pid for it in psutil.Process().children(recursive=True) if it not in before]

    def cpu_s(self) -> float:
        """CPU time of its processes so far (s)."""
        times = [psutil.Process(pid).cpu_times() for pid in self.pids]
        return float(sum(it.user + it.system for it in times))

    async def serve(
        self,
        requests: Sequence[GenerationRequest],
        clients: int,
        into: Measured,
        scenes: Sequence[GenerationRequest] = (),
    ) -> None:
        """Have these planned where ``scenes`` are known, and note plans and times."""
        await self.forget()
        for scene in scenes:
            await self.plan(scene)
        waiting = iter(requests)

        async def ask() -> None:
            for request in waiting:
                into.plans[request.generation_id] = await self.plan(request)

        began_s, cpu_s = time.perf_counter(), self.cpu_s()
        await asyncio.gather(*(ask() for _ in range(clients)))
        into.wall_s.append(time.perf_counter() - began_s)
        into.cpu_s.append(self.cpu_s() - cpu_s)
        # Its worker goes on looking for work for a moment, and the next way is not to suffer.
        await asyncio.sleep(SETTLE_S)

    async def start(self) -> None:
        raise NotImplementedError

    async def forget(self) -> None:
        raise NotImplementedError

    async def plan(self, request: GenerationRequest) -> Served:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class AsItIs(Asking):
    """vLLM as it is."""

    def __init__(self, model: str) -> None:
        super().__init__()
        prepare_environment(1)
        self._jobs, self._folder = Jobs(model), ModelFolder.read(find_model(model))
        self._stock = Stock(
            self._jobs,
            **vllm_arguments(
                max(CLIENTS),
                **self._folder.arguments(),
                max_model_len=CONTEXT,
                num_gpu_blocks_override=_kv_blocks(model) + 1,
                kv_cache_memory_bytes=KV_BYTES,
                structured_outputs_config={'backend': 'guidance'},
            ),
        )
        self._count = 0

    async def start(self) -> None:
        await self._stock.start()

    async def close(self) -> None:
        await self._stock.close()

    async def forget(self) -> None:
        await self._stock.forget()

    async def plan(self, request: GenerationRequest) -> Served:
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        texts = self._jobs.texts
        rules = decoding_grammar(request.skill_set, request.scene, observations=False)
        parameters = SamplingParams(
            temperature=0.0,
            max_tokens=request.max_tokens,
            stop_token_ids=sorted(texts.end_ids),
            structured_outputs=StructuredOutputsParams(grammar=texts.rules(rules)),
            output_kind=RequestOutputKind.FINAL_ONLY,
            detokenize=False,
        )
        self._count += 1
        prompt = {'prompt_token_ids': self._jobs.encode(request)}
        adapter = self._folder.request(request.skill_set.name)
        async for out in self._stock.llm.generate(
            prompt, parameters, f'{self._count}', lora_request=adapter
        ):
            done = out.outputs[0]
        ids = tuple(token for token in done.token_ids if token not in texts.end_ids)
        return Served(ids, done.finish_reason == 'stop')


class Scheduled(Asking):
    """Our scheduler inside vLLM, with fast-forward or without."""

    def __init__(self, model: str, *, forwards: bool) -> None:
        super().__init__()
        self._engine = VllmEngine(
            VllmConfig(
                model_path=model,
                mode='whole_plan',
                policy='fcfs',
                max_running=max(CLIENTS),
                max_suspended=0,
                max_kv_tokens=_kv_blocks(model) * BLOCK,
                block_size=BLOCK,
                scheduling=SchedulingOptions(admission='fixed'),
                vllm={'max_model_len': CONTEXT, **({} if forwards else OFF)},
            )
        )
        self._ends: dict[str, asyncio.Future[GenerationEnded]] = {}

    async def start(self) -> None:
        await self._engine.start(self._on_event)

    async def close(self) -> None:
        await self._engine.close()

    async def forget(self) -> None:
        await forget_prefixes(self._engine)

    async def plan(self, request: GenerationRequest) -> Served:
        future = asyncio.get_running_loop().create_future()
        self._ends[request.generation_id] = future
        self._engine.submit(request)
        ended = await future
        return Served(ended.token_ids, ended.reason == 'stop', ended.forwarded)

    def _on_event(self, event: Any) -> None:
        if isinstance(event, GenerationEnded):
            self._ends.pop(event.generation_id).set_result(event)


def _kv_blocks(model: str) -> int:
    return KV_BLOCKS if model == SHIPPED_MODEL else KV_BLOCKS_GENERAL


OFF = {'worker_extension_cls': ''}
"""Without this part in vLLM's workers, fast-forward is off."""


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--model', default=SHIPPED_MODEL, help='(default: %(default)s)')
    parser.add_argument('--objects', nargs='+', type=COUNT, default=[10, 50])
    parser.add_argument('--tasks', type=COUNT, default=10, help='of each kind (%(default)s)')
    parser.add_argument('--rounds', type=COUNT, default=6, help='turns at least (%(default)s)')
    options = parser.parse_args(given)
    model = options.model
    rows = asyncio.run(_measure(model, options.objects, options.tasks, options.rounds))
    save('first_action_vllm', {'rows': rows}, _targets(model, rows), path=options.json)


async def _measure(
    model: str, objects: Sequence[int], tasks: int, rounds: int
) -> list[dict[str, Any]]:
    """Serve tasks in scenes of these sizes all ways."""
    ways = [AsItIs(model), Scheduled(model, forwards=False), Scheduled(model, forwards=True)]
    rows = []
    try:
        for way in ways:
            await way.begin()
        print(''.join(f'{name:>{width}}' for name, width in COLUMNS.items()))
        for size in objects:
            requests, scenes = _requests(model, size, tasks)
            for clients, known in (*((it, False) for it in CLIENTS), (max(CLIENTS), True)):
                told = scenes if known else {}
                rows.append(await _row(ways, requests, told, size, clients, rounds))
    finally:
        for way in ways:
            await way.close()
    return rows


def _requests(
    model: str, objects: int, tasks: int
) -> tuple[list[GenerationRequest], dict[str, GenerationRequest]]:
    """Return tasks, and by each one's name what only has its scene computed."""
    prompts = load_prompts('auto', find_model(model))
    cases = draw_cases((objects,), tasks, 'held_out')
    valued = {case.task.kind for case in cases if case.values}
    # Kinds in turns, so that every piece has all of them.
    ordered = [case for start in range(tasks) for case in cases[start::tasks]]
    requests, scenes = [], {}
    for case in ordered:
        if case.task.kind in valued:
            continue
        task, skill_set = case.task, case.skill_set
        request = GenerationRequest(
            case.name,
            prompts.build(skill_set, task.scene, task.instruction),
            skill_set,
            task.scene,
            NORMAL,
            0.0,
            max_tokens=MOST_TOKENS,
        )
        requests.append(request)
        scenes[case.name] = replace(
            request,
            generation_id=f'scene of {case.name}',
            prompt=prompts.known(skill_set, task.scene),
            max_tokens=1,
        )
    return requests, scenes


async def _row(
    ways: Sequence[Asking],
    requests: Sequence[GenerationRequest],
    scenes: dict[str, GenerationRequest],
    objects: int,
    clients: int,
    rounds: int,
) -> dict[str, Any]:
    """Have the tasks planned all ways, with those scenes known."""
    size = -(-len(requests) // max(1, len(requests) // PIECE))
    pieces = [requests[start : start + size] for start in range(0, len(requests), size)]
    pieces *= -(-rounds // len(pieces))
    found = {way: Measured() for way in ways}
    for way in ways:  # What is compiled or allocated at first is nobody's.
        await way.serve(requests[:clients], clients, Measured())
    for turn, piece in enumerate(pieces):
        told = [scenes[it.generation_id] for it in piece] if scenes else []
        for place in range(len(ways)):
            way = ways[(place + turn) % len(ways)]
            await way.serve(piece, clients, found[way], told)
    stock, off, on = (found[way] for way in ways)
    plans = sum(map(len, pieces))
    drawn = np.random.default_rng(0).integers(0, len(pieces), (RESAMPLES, len(pieces)))
    wall = [np.array(one.wall_s) for one in (stock, off, on)]
    spread = wall[0][drawn].sum(axis=1) / wall[2][drawn].sum(axis=1)
    tokens = sum(len(it.token_ids) + 1 for it in on.plans.values())
    same = [on.plans[name].token_ids == it.token_ids for name, it in stock.plans.items()]
    row: dict[str, Any] = {
        'objects': objects,
        'scenes': 'known' if scenes else 'new',
        'clients': clients,
        'plans': plans,
        'different_plans': len(on.plans),
        'tokens': tokens,
        'steps_per_token': 1 - sum(it.forwarded for it in on.plans.values()) / tokens,
        'plans_per_s': [plans / float(it.sum()) for it in wall],
        'gain': float(wall[0].sum() / wall[2].sum()),
        'gain_error': float(spread.std()),
        'gain_of_forwarding': float(wall[1].sum() / wall[2].sum()),
        'cpu_gain': sum(stock.cpu_s) / sum(on.cpu_s),
        'same_text': statistics.fmean(same),
        'same_text_as_off': statistics.fmean(
            on.plans[name].token_ids == it.token_ids for name, it in off.plans.items()
        ),
        'complete': [
            statistics.fmean(it.stopped for it in one.plans.values()) for one in (stock, off, on)
        ],
    }
    speeds = row['plans_per_s']
    print(
        f'{objects:9}{row["scenes"]:>8}{clients:9}{plans:7}{row["steps_per_token"]:13.3f}{speeds[0]:10.1f}'
        f'{speeds[1]:9.1f}{speeds[2]:12.1f}{row["gain"]:9.2f}{row["gain_error"]:6.2f}'
        f'{row["gain_of_forwarding"]:8.2f}{row["cpu_gain"]:7.2f}{row["same_text"]:11.4f}',
        flush=True,
    )
    return row


def _targets(model: str, rows: Sequence[dict[str, Any]]) -> list[Target]:
    wanted = STEPS_PER_TOKEN if model == SHIPPED_MODEL else STEPS_PER_TOKEN_GENERAL
    tokens, plans = ([row[name] for row in rows] for name in ('tokens', 'different_plans'))
    steps = float(np.average([row['steps_per_token'] for row in rows], weights=tokens))
    same = float(np.average([row['same_text'] for row in rows], weights=plans))
    found = [
        Target('steps per token', steps, '<=', wanted),
        Target(f'texts equal to those of vLLM as it is of {sum(plans)}', same, '>=', SAME),
    ]
    for row in rows:
        place = f'{row["objects"]} objects, scenes {row["scenes"]}, {row["clients"]} clients'
        name = f'{place}: times as many plans'
        found.append(Target(f'{name} as vLLM as it is', row['gain'], '>=', GAIN))
    return found


if __name__ == '__main__':
    main()
