"""Generates what predictors of lengths learn from: plans of a model and its hidden states.

The torch engine's own core and backend generate the plans, within the grammar, so their lengths are
those that the engine will serve. A length counts the token that ends the plan, because it takes a
step like any other.
"""

from __future__ import annotations

import json
import random
import zipfile
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    Resume,
    SegmentGenerated,
    Submit,
)
from timely_llm_ros.engines.core import CoreOptions, EngineCore
from timely_llm_ros.engines.torch.compute import TorchBackend
from timely_llm_ros.errors import ConfigurationError, EngineError
from timely_llm_ros.prompts import TersePrompts
from timely_llm_ros.sample_tasks import KINDS, sample_task
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Prompt
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from timely_llm_ros.engines.core import EvictionMethod
    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.prompts import Prompts
    from timely_llm_ros.sample_tasks import Wordings
    from timely_llm_ros.skills import Scene, SkillSet

    Halves = NDArray[np.float16]

SCENE_SIZES = (4, 32)
"""Objects in the smallest and in the largest scene, drawn evenly on a logarithmic scale."""

ALL_SIZES = (1, 200)
"""The same for all scenes that the embedded planner is made for."""

LONGEST = 128
"""A plan that reaches so many tokens repeats itself and is left out."""

MOST_RUNNING = 16
"""Generations in one step."""


@dataclass(frozen=True, slots=True)
class LengthSample:
    """One plan.

    Attributes:
        prompt: What the model read.
        kind: Number of the kind of task, see ``KINDS``; 0 where it has none.
        length: Tokens generated, the one that ends the plan included.
        states: The hidden states of the watched layers from which each of them was sampled,
            ``[length, layers, width]``.
        censored: Whether it was cut off there: it would have been longer.
    """

    prompt: Prompt
    kind: int
    length: int
    states: Halves
    censored: bool = False


def draw_requests(
    number: int,
    seed: int,
    part: Wordings,
    *,
    kinds: Collection[int] = tuple(KINDS),
    sizes: tuple[int, int] = SCENE_SIZES,
    prompts: Prompts | None = None,
) -> Iterator[GenerationRequest]:
    """Return that many tasks of the generator, kinds evenly; ids are ``<place>:<kind>``.

    Scenes and wordings are those that the embedded planner was trained on, or held-out ones.
    ``prompts`` makes the model's prompts; None for those of the embedded planner.
    """
    rng = random.Random(f'{seed} {part}')
    skill_sets = {kind.skill_set: find_skill_set(kind.skill_set) for kind in KINDS.values()}
    for place in range(number):
        kind = rng.choice(sorted(kinds))
        objects = max(draw_size(rng, sizes), KINDS[kind].min_objects)
        task = sample_task(rng, kind, objects, wordings=part, scenes=part)
        skill_set = skill_sets[task.skill_set]
        yield request_for(f'{place}:{kind}', skill_set, task.scene, task.instruction, prompts)


def draw_size(rng: random.Random, sizes: tuple[int, int]) -> int:
    """Return a size between the two, drawn evenly on a logarithmic scale."""
    smallest, largest = sizes
    return round(float(smallest * (largest / smallest) ** rng.random()))


def request_for(
    generation_id: str,
    skill_set: SkillSet,
    scene: Scene,
    instruction: str,
    prompts: Prompts | None = None,
) -> GenerationRequest:
    """Return the request for a plan of at most :data:`LONGEST` tokens."""
    prompt = (prompts or TersePrompts()).build(skill_set, scene, instruction)
    return GenerationRequest(
        generation_id, prompt, skill_set, scene, NORMAL, 0.0, max_tokens=LONGEST
    )


def generate_samples(
    loaded: LoadedModel,
    requests: Iterator[GenerationRequest],
    *,
    layers: Sequence[int] = (),
    eviction: EvictionMethod | None = None,
    sampling: Sampling | None = None,
    advance: Callable[[], None] = lambda: None,
    censored: bool = False,
    most_running: int = MOST_RUNNING,
) -> dict[str, LengthSample]:
    """Generate these plans; return those that end, by their requests' ids, in order.

    Values that a plan waits for are drawn by the request's id.

    Args:
        loaded: The model, which is of no further use because its layers stay watched.
        requests: What to generate, taken as there is room.
        layers: The layers whose hidden states are kept.
        eviction: What chooses the KV that requests with an eviction rule keep.
        sampling: How tokens are chosen; None takes the likeliest always.
        advance: Called after each plan.
        censored: Whether to return those as well that were cut off at their most tokens.
        most_running: Generations in one step; more of them cost less each.

    Raises:
        EngineError: A generation failed.
    """
    # Every token of a plan is to have states of its own.
    backend = TorchBackend(loaded, eviction=eviction, sampling=sampling, fast_forward=False)
    tap = loaded.watch(layers) if layers else None
    core = EngineCore(
        backend,
        CoreOptions(
            policy='fcfs',
            max_running=most_running,
            max_kv_tokens=loaded.pool.capacity,
            context_limit=loaded.context_limit,
            stop_strings=loaded.stop_strings,
            prefill_chunk=1024,
            scheduling=SchedulingOptions(admission='fixed', age_bound_s=None),
        ),
    )
    open_: dict[str, tuple[GenerationRequest, list[Halves]]] = {}
    done: dict[str, LengthSample] = {}
    order: list[str] = []
    for step in count():
        now_s = 0.01 * step
        while len(open_) < most_running and (request := next(requests, None)) is not None:
            open_[request.generation_id] = request, []
            order.append(request.generation_id)
            core.apply(Submit(request))
        plan = core.plan(now_s)
        if plan is None and not open_:
            break
        if plan is not None:
            outputs = backend.execute(plan)
            names, rows = backend.sampled
            if tap is not None and rows:
                states = tap.take(rows).permute(1, 0, 2).half().cpu().numpy()
                for name, state in zip(names, states, strict=True):
                    open_[name][1].append(state)
            core.complete(plan, outputs, now_s, now_s + 0.01)
        for event in core.take_events():
            if isinstance(event, SegmentGenerated) and event.segment.awaits_value:
                name = event.generation_id
                value = random.Random(name + event.segment.text).choice(('true', 'false'))
                core.apply(Resume(name, value))
            elif isinstance(event, GenerationEnded):
                name = event.generation_id
                if event.reason == 'error':
                    raise EngineError(f'generation {name}: {event.error}')
                request, kept = open_.pop(name)
                if event.reason == 'stop' or (censored and event.reason == 'length'):
                    done[name] = _sample(request, event, kept)
                advance()
    return {name: done[name] for name in order if name in done}


def _sample(
    request: GenerationRequest, ended: GenerationEnded, states: list[Halves]
) -> LengthSample:
    cut = ended.reason == 'length'
    length = ended.tokens + (not cut)
    kept = np.stack(states) if states else np.zeros((length, 0, 0), np.float16)
    kind = request.generation_id.partition(':')[2]
    number = int(kind) if kind.isdigit() else 0
    return LengthSample(request.prompt, number, length, kept[:length], cut)


def write_samples(samples: Sequence[LengthSample], path: Path) -> None:
    """Write samples to a file of numpy's."""
    prompts = [[it.prompt.fixed, it.prompt.body] for it in samples]
    np.savez(
        path,
        prompts=np.frombuffer(json.dumps(prompts).encode(), np.uint8),
        kinds=np.array([it.kind for it in samples]),
        lengths=np.array([it.length for it in samples]),
        censored=np.array([it.censored for it in samples]),
        states=np.concatenate([it.states for it in samples]),
    )


def read_samples(path: Path) -> list[LengthSample]:
    """Read what :func:`write_samples` wrote.

    Raises:
        ConfigurationError: It is something else.
    """
    try:
        with np.load(path) as file:
            prompts = [Prompt(*texts) for texts in json.loads(file['prompts'].tobytes())]
            kinds, lengths = file['kinds'].tolist(), file['lengths'].tolist()
            states = np.split(file['states'], np.cumsum(lengths)[:-1])
            cut = file['censored'].tolist() if 'censored' in file else [False] * len(lengths)
        rows = zip(prompts, kinds, lengths, states, cut, strict=True)
        return [LengthSample(*row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as err:
        raise ConfigurationError(
            f'samples {str(path)!r}: expected a file that --keep-samples wrote'
        ) from err
