"""What a request takes beyond its forward passes: text to tokens, grammar, the engine's account.

A :class:`TorchStopwatch` times the model alone, but a budget holds for whole requests. So some are
served here as the engine's worker serves them, and the time that they take longer is added to the
fitted model: for each prompt, for each step by how many generations share it, and for evicting.
Steps are compared with bare ones of the same size that are timed just before them, because a
machine's pace changes more from one minute to the next than a request adds.
"""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.budget import FixedEviction
from timely_llm_ros.engines.commands import Submit
from timely_llm_ros.engines.core import CoreOptions, EngineCore
from timely_llm_ros.engines.sample_requests import sample_request
from timely_llm_ros.engines.torch.compute.backend import TorchBackend
from timely_llm_ros.engines.torch.compute.profile import BRIEF_STEPS, STEPS, WARMING, TorchStopwatch
from timely_llm_ros.engines.torch.wire import frame
from timely_llm_ros.prediction.times import RequestOverhead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core import EvictionMethod
    from timely_llm_ros.engines.torch.compute.model import LoadedModel
    from timely_llm_ros.prediction.times import ExecutionTimeModel

OBJECTS = (4, 6, 9, 13, 19, 28, 40)
"""Objects in the requests' scenes, in turn: few, so that the model takes little of the time."""

EVICTED = 0.5
"""Share evicted to time evicting."""

EVICTED_OBJECTS = (60, 30, 15, 8)
"""Objects in the scene of the prompt that is evicted from: long ones are what matters, but a slow
model has no time for them."""


@dataclass(frozen=True, slots=True)
class _Served:
    """What some requests took together.

    Attributes:
        prompt_s: From their arrival until all prompts were computed (s).
        prompts: Tokens and cached tokens of each.
        steps: Every step that all of them shared (s).
    """

    prompt_s: float
    prompts: tuple[tuple[int, int], ...]
    steps: tuple[float, ...]


def measure_requests(
    loaded: LoadedModel,
    times: ExecutionTimeModel,
    *,
    prefill_chunk: int,
    rounds: int,
    batches: Sequence[int] = (1,),
    eviction: EvictionMethod | None = None,
    limit_s: float | None = None,
) -> RequestOverhead:
    """Serve some requests alone and together; return what they take longer than the model alone.

    Requests that the model or its KV pool has no room for are left out; where that leaves none,
    nothing is added.

    Args:
        loaded: The model.
        times: What was fitted to its forward passes; prompts are compared with it.
        prefill_chunk: Most prompt tokens computed at once, as in the engine.
        rounds: How often each batch size is measured, after one round that is not.
        batches: How many requests are served together.
        eviction: The engine's method; None where it has none.
        limit_s: About how long all may take (s). A slow model is asked less often, with a shorter
            prompt to evict from and fewer steps; where not even one round fits nothing is added,
            which is little beside steps that long. None for no limit.
    """
    steps, long = STEPS, sample_request('long', EVICTED_OBJECTS[0], max_tokens=2)
    if limit_s is not None:
        for objects in EVICTED_OBJECTS:
            long = sample_request('long', objects, max_tokens=2)
            round_s = _round_s(loaded, times, batches, steps, None if eviction is None else long)
            if round_s * (rounds + 1) <= limit_s:
                break
            steps = BRIEF_STEPS
        rounds = min(rounds, int(limit_s / max(round_s, 1e-9)) - 1)
        if rounds < 1:
            return RequestOverhead(0.0, tuple((batch, 0.0) for batch in batches))
    backend = TorchBackend(loaded, eviction=eviction)
    stopwatch = TorchStopwatch(loaded, prefill_chunk=prefill_chunk, steps=steps)
    core = EngineCore(
        backend,
        CoreOptions(
            policy='fcfs',
            mode='stream',
            max_running=max(batches),
            max_kv_tokens=loaded.pool.capacity,
            context_limit=loaded.context_limit,
            prefill_chunk=prefill_chunk,
        ),
    )
    number = (rounds + 1) * sum(batches)
    requests = [
        replace(
            sample_request(f'{place}', OBJECTS[place % len(OBJECTS)], max_tokens=2 * steps),
            eviction=FixedEviction(0.0),
        )
        for place in range(number)
    ]
    coming = iter(requests)
    prompts_s: list[float] = []
    evicting_s: list[float] = []
    steps_s: dict[int, list[float]] = {batch: [] for batch in batches}
    for turn in range(rounds + 1):
        if eviction is not None and _fits(loaded, [long]):
            took_s = _evicting_s(core, backend, loaded, long, turn)
            evicting_s += [took_s] if turn else []
        for batch in batches:
            chosen = list(itertools.islice(coming, batch))
            if not _fits(loaded, chosen):
                continue
            context = sum(prompt for prompt, _ in _sizes(loaded, chosen)) // batch + steps
            bare_s = statistics.median(stopwatch.steps_s(batch, context))
            found = _serve(core, backend, loaded, chosen)
            if not turn:
                continue  # Memory, prefixes and caches are made ready.
            said_s = sum(times.at(1).prefill_time_s(*prompt) for prompt in found.prompts)
            prompts_s.append((found.prompt_s - said_s) / batch)
            if found.steps:
                steps_s[batch].append(statistics.median(found.steps) - bare_s)
    for key in backend.prefixes:
        backend.drop_prefix(key)
    return RequestOverhead(
        max(0.0, statistics.median(prompts_s or [0.0])),
        tuple((b, max(0.0, statistics.median(found or [0.0]))) for b, found in steps_s.items()),
        max(0.0, statistics.median(evicting_s or [0.0])),
    )


def _round_s(
    loaded: LoadedModel,
    times: ExecutionTimeModel,
    batches: Sequence[int],
    steps: int,
    evicted: GenerationRequest | None,
) -> float:
    """Return about how long a round takes (s), by the model's own times."""
    usual = sample_request('usual', OBJECTS[len(OBJECTS) // 2], max_tokens=2 * steps)
    ((tokens, cached),) = _sizes(loaded, [usual])
    # Bare steps, of which some warm up, and those of the requests.
    number = 2 * steps + steps + steps // WARMING
    total_s = sum(
        batch * times.at(1).prefill_time_s(tokens, cached)
        + number * times.at(batch).step_time_s(batch * tokens)
        for batch in batches
    )
    if evicted is not None and _fits(loaded, [evicted]):
        ((tokens, cached),) = _sizes(loaded, [evicted])
        total_s += 2 * times.at(1).total_time_s(tokens, 2, cached_tokens=cached)
    return total_s


def _evicting_s(
    core: EngineCore,
    backend: TorchBackend,
    loaded: LoadedModel,
    request: GenerationRequest,
    turn: int,
) -> float:
    """Return what a prompt takes longer with eviction, per token (s).

    The prompt is the same every time, so its grammar is there after the first turn. Which of the
    two goes first changes with every turn, because the second one finds warm caches.
    """
    took_s: dict[float, float] = {}
    for share in (0.0, EVICTED) if turn % 2 else (EVICTED, 0.0):
        again = replace(request, max_tokens=2, eviction=FixedEviction(share))
        found = _serve(core, backend, loaded, [again])
        took_s[share] = found.prompt_s
    return (took_s[EVICTED] - took_s[0.0]) / found.prompts[0][0]


def _serve(
    core: EngineCore, backend: TorchBackend, loaded: LoadedModel, requests: list[GenerationRequest]
) -> _Served:
    """Serve some requests whose shared beginning was computed before."""
    started_s = time.monotonic()
    for request in requests:
        core.apply(Submit(request))
    prompt_s, steps = 0.0, list[float]()
    while (plan := core.plan(step_s := time.monotonic())) is not None:
        core.complete(plan, backend.execute(plan), step_s, time.monotonic())
        frame(core.take_events())
        ended_s = time.monotonic()
        if not plan.decodes_only:
            prompt_s = ended_s - started_s
        elif len(plan.rows) == len(requests):
            steps.append(ended_s - step_s)
    return _Served(prompt_s, tuple(_sizes(loaded, requests)), tuple(steps))


def _sizes(loaded: LoadedModel, requests: list[GenerationRequest]) -> list[tuple[int, int]]:
    """Return tokens of each prompt, and how many of them are shared."""
    encode = loaded.texts.encode
    shared = [len(encode(request.prompt.fixed, beginning=True)) for request in requests]
    own = [len(encode(request.prompt.body)) for request in requests]
    return [(before + after, before) for before, after in zip(shared, own, strict=True)]


def _fits(loaded: LoadedModel, requests: list[GenerationRequest]) -> bool:
    sizes = [prompt + 2 * STEPS for prompt, _ in _sizes(loaded, requests)]
    return max(sizes) < loaded.context_limit and sum(sizes) <= loaded.pool.capacity
