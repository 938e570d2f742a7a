"""What plans of late went on with is computed ahead, and nobody's tokens show it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('torch')

from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.torch_runs import WAYS, Run, alone, evicting_request, interleave

from timely_llm_ros.engines import Submit
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.torch.compute import load_model

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.torch.compute import LoadedModel

pytestmark = pytest.mark.engines
GENERATIONS = 8


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    return load_model(str(chaotic_model), max_kv_tokens=8192)


@pytest.fixture(scope='module')
def expected(loaded: LoadedModel) -> dict[str, dict[str, tuple[int, ...]]]:
    """Token ids by way and generation, without drafts."""
    return {
        way: {
            it.generation_id: alone(loaded, it, free=False, **options)
            for it in map(evicting_request, range(GENERATIONS))
        }
        for way, options in WAYS.items()
    }


def taught(run: Run, numbers: range) -> Run:
    """Let a run's engine write these plans, so that it can guess them from then on."""
    for number in numbers:
        run.core.apply(Submit(evicting_request(number)))
    run.finish()
    run.ended.clear()
    run.segments.clear()
    return run


def close(run: Run) -> None:
    """Nothing but prefixes is left, and they go."""
    for prefix in list(run.backend._prefixes):
        run.backend.drop_prefix(prefix)
    assert run.loaded.pool.used == 0


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    way=st.sampled_from(list(WAYS)),
    kind=st.sampled_from([EngineCore, LanedCore]),
    room=st.sampled_from([8192, 500, 300]),
    chunk=st.sampled_from([5, 128]),
)
def test_tokens_are_those_without_drafts(
    loaded: LoadedModel,
    expected: dict[str, dict[str, tuple[int, ...]]],
    seed: int,
    way: str,
    kind: type[EngineCore] | type[LanedCore],
    room: int,
    chunk: int,
) -> None:
    options = {'max_running': 4, 'max_kv_tokens': room, 'prefill_chunk': chunk, 'drafts': True}
    rng = random.Random(seed)
    run = Run(loaded, options=options | WAYS[way], kind=kind)
    taught(run, range(rng.randrange(GENERATIONS + 1)))
    canceled = interleave(run, [evicting_request(number) for number in range(GENERATIONS)], rng)
    assert run.ended.keys() == expected[way].keys()
    for name, ended in run.ended.items():
        assert ended.token_ids == expected[way][name][: len(ended.token_ids)]
        assert name in canceled or len(ended.token_ids) == len(expected[way][name])
    close(run)


@pytest.mark.parametrize('way', list(WAYS))
def test_some_come_true_and_some_do_not(loaded: LoadedModel, way: str) -> None:
    run = Run(loaded, options={'drafts': True} | WAYS[way])
    taught(run, range(GENERATIONS))
    drafter = run.backend.drafter
    drafter.drafts = drafter.came_true = 0
    taught(run, range(GENERATIONS))
    assert drafter.drafts > drafter.came_true > 5
    close(run)


def boundaries(run: Run, request: GenerationRequest) -> tuple[list[tuple[int, int, str]], int]:
    """Serve one; return what is written when each segment leaves, and how many steps it took."""
    run.core.apply(Submit(request))
    assert isinstance(run.core, EngineCore)
    name, found, steps = request.generation_id, list[tuple[int, int, str]](), 0
    generation = run.core.generations.get(name)
    assert generation is not None
    while name not in run.ended:
        before = generation.segments
        run.step()
        steps += 1
        if generation.segments > before:
            phase = 'ended' if generation.ended else run.core.generations.phase(generation).name
            found.append((generation.segments, generation.tokens, phase))
        if run.awaiting:
            run.answer()
    return found, steps


@pytest.mark.parametrize('way', ['likeliest', 'drawn'])
def test_a_segments_end_suspends_where_it_does_without(loaded: LoadedModel, way: str) -> None:
    requests = [evicting_request(number) for number in range(4)]
    plain = Run(loaded, options=dict(WAYS[way]))
    wanted = [boundaries(plain, request) for request in requests]
    close(plain)
    run = taught(Run(loaded, options={'drafts': True} | WAYS[way]), range(4))
    found = [boundaries(run, request) for request in requests]
    close(run)
    assert [places for places, _ in found] == [places for places, _ in wanted]
    assert sum(steps for _, steps in found) < sum(steps for _, steps in wanted)
    for name, ended in plain.ended.items():
        # What the model chose counts as a step all the same: nobody may rely on drafts.
        assert replace(run.ended[name], generation_s=0.0) == replace(ended, generation_s=0.0)


def test_a_plan_and_its_context_end_at_any_number_of_tokens(loaded: LoadedModel) -> None:
    numbers = 1, 2, 3, 5, 8, 13, 14, 15, 21, 34
    requests = [replace(evicting_request(3), max_tokens=most) for most in numbers]
    wanted = [alone(loaded, request, free=False) for request in requests]
    run = taught(Run(loaded, options={'drafts': True}), range(4))
    for request, ids in zip(requests, wanted, strict=True):
        run.core.apply(Submit(request))
        run.finish()
        assert run.ended.pop('g3').token_ids == ids
    close(run)
    prompt = evicting_request(3).prompt
    size = len(loaded.texts.encode(prompt.fixed)) + len(loaded.texts.encode(prompt.body))
    for limit in range(size + 8, size + 30, 5):
        ends = []
        for drafts in (False, True):
            run = taught(
                Run(loaded, options={'drafts': drafts, 'max_kv_tokens': limit}), range(3, 4)
            )
            run.core.apply(Submit(evicting_request(3)))
            run.finish()
            ends.append((run.ended['g3'].reason, run.ended['g3'].token_ids))
            close(run)
        assert ends[0] == ends[1]
