"""Tokens that must follow take no step of their own, and nobody's tokens show it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip('torch')

from support.engines.torch_runs import WAYS, Run, alone, evicting_request, interleave, plan_request

from timely_llm_ros.engines import Resume, Submit, Suspend
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.engines.torch.compute.attention import SHORT
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core import StepPlan
    from timely_llm_ros.engines.torch.compute import LoadedModel

pytestmark = pytest.mark.engines
GENERATIONS = 12
TELLO = find_skill_set('tello')
FEW_SKILLS = replace(
    TELLO, skills={it: TELLO.skills[it] for it in ('goto', 'is_visible', 'land', 'hover')}
)
LONG_NAME = Scene((SceneObject('laboratory_door_1', 'door', x_m=2.0),))


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    return load_model(str(chaotic_model), max_kv_tokens=8192)


def one_by_one(loaded: LoadedModel, request: GenerationRequest, **options: Any) -> tuple[int, ...]:
    return alone(loaded, request, free=False, fast_forward=False, **options)


@pytest.fixture(scope='module', params=list(WAYS))
def way(request: pytest.FixtureRequest, loaded: LoadedModel) -> Any:
    """The options of one way, and what one token a step brings."""
    options = WAYS[request.param]
    requests = [evicting_request(number) for number in range(GENERATIONS)]
    return options, {it.generation_id: one_by_one(loaded, it, **options) for it in requests}


@pytest.mark.parametrize(('room', 'chunk'), [(8192, 128), (8192, 5), (500, 32)])
def test_tokens_are_those_of_one_token_a_step(
    loaded: LoadedModel, way: Any, room: int, chunk: int
) -> None:
    options, expected = way
    options = {'max_running': 5, 'max_kv_tokens': room, 'prefill_chunk': chunk, **options}
    run = Run(loaded, options=options)
    requests = [evicting_request(number) for number in range(GENERATIONS)]
    canceled = interleave(run, requests, random.Random(room + chunk))
    assert run.ended.keys() == expected.keys()
    for name, ended in run.ended.items():
        assert ended.token_ids == expected[name][: len(ended.token_ids)]
        assert ended.tokens == len(ended.token_ids)
        assert name in canceled or len(ended.token_ids) == len(expected[name])
    assert (run.core.kv.spilled > 0) is (room < 8192)
    close(run)


def steps_of(run: Run, request: GenerationRequest, *, forwards: bool) -> list[StepPlan]:
    """Serve one request by itself; return its steps that brought a token."""
    run.core.apply(Submit(request))
    steps = []
    name = request.generation_id
    while True:
        plan = run.core.plan(run.now_s)
        if plan is None:
            break
        run.core.complete(plan, run.backend.execute(plan), run.now_s, run.now_s + 0.005)
        steps += [plan] if any(row.samples for row in plan.rows) else []
        assert isinstance(run.core, EngineCore)
        generation = run.core.generations.get(name)
        if forwards and generation is not None and generation.tokens:
            grammar = run.backend._sequences[name].grammar
            assert grammar is not None
            # Nothing that must follow is left to the next step.
            assert generation.awaits_value or grammar.only is None
        run.core.apply(Resume(name, 'true'))
    run.step()
    return steps


def test_what_must_follow_takes_no_step(loaded: LoadedModel) -> None:
    sizes: set[int] = set()
    steps, tokens = 0, 0
    for number in range(4):
        request = replace(plan_request(number), scene=LONG_NAME, skill_set=FEW_SKILLS)
        slow = Run(loaded, options={'fast_forward': False})
        expected = steps_of(slow, request, forwards=False)
        close(slow)
        run = Run(loaded)
        found = steps_of(run, request, forwards=True)
        ended = run.ended[f'g{number}']
        assert ended.token_ids == slow.ended[f'g{number}'].token_ids
        texts = [[it.segment.text for it in one.segments[f'g{number}']] for one in (run, slow)]
        assert texts[0] == texts[1]
        counts = [[it.segment.tokens for it in one.segments[f'g{number}']] for one in (run, slow)]
        assert counts[0] == counts[1]
        assert len(expected) == ended.tokens + (ended.reason == 'stop')
        assert all(step.decodes_only for step in found[1:])
        sizes |= {row.tokens for step in found[1:] for row in step.rows}
        assert len(found) == len(expected) - ended.forwarded
        steps, tokens = steps + len(found), tokens + ended.tokens
        close(run)
    assert steps < 0.5 * tokens
    # Both what is computed with others and what is too long for that.
    assert sizes & set(range(2, SHORT + 1))
    assert max(sizes) > SHORT


def test_a_plan_ends_at_any_number_of_tokens(loaded: LoadedModel) -> None:
    for most in (1, 2, 3, 5, 8, 13, 14, 15, 21, 34):
        request = plan_request(3, max_tokens=most)
        slow, run = Run(loaded, options={'fast_forward': False}), Run(loaded)
        for one in (slow, run):
            one.core.apply(Submit(request))
            one.finish()
            close(one)
        ends = [replace(it.ended['g3'], generation_s=0.0, forwarded=0) for it in (slow, run)]
        assert ends[0] == ends[1]
        assert run.ended['g3'].tokens <= most


def test_a_context_ends_at_its_limit(loaded: LoadedModel) -> None:
    prompt = plan_request(3).prompt
    size = len(loaded.texts.encode(prompt.fixed)) + len(loaded.texts.encode(prompt.body))
    for limit in range(size + 8, size + 30, 3):
        ends = []
        for forward in (False, True):
            run = Run(loaded, options={'fast_forward': forward, 'max_kv_tokens': limit})
            run.core.apply(Submit(plan_request(3)))
            run.finish()
            ends.append((run.ended['g3'].reason, run.ended['g3'].token_ids))
            close(run)
        assert ends[0] == ends[1]


def test_suspended_after_every_step_it_computes_nothing_again(loaded: LoadedModel) -> None:
    request = plan_request(5)
    computed = []
    for suspends in (False, True):
        run = Run(loaded)
        run.core.apply(Submit(request))
        while 'g5' not in run.ended:
            run.step()
            if run.awaiting:
                run.answer()
            if suspends:
                run.core.apply(Suspend('g5'))
                assert not run.step()
                run.core.apply(Resume('g5'))
        computed.append((run.backend.computed_tokens, run.ended['g5'].token_ids))
        close(run)
    assert computed[0] == computed[1]


def test_beside_tokens_that_are_given(loaded: LoadedModel) -> None:
    """Generations with a grammar and without one in the same steps."""
    given = tuple(loaded.texts.encode('takeoff;move_up(150);land;'))
    plans = [plan_request(number) for number in range(4)]
    others = [
        replace(plan_request(number), forced_token_ids=given) for number in range(4, GENERATIONS)
    ]
    expected = {it.generation_id: one_by_one(loaded, it) for it in plans}
    run = Run(loaded, options={'max_running': 8, 'mode': 'stream'})
    for request in (*plans, *others):
        run.core.apply(Submit(request))
    run.finish()
    found = {name: ended.token_ids for name, ended in run.ended.items()}
    assert found == expected | {it.generation_id: given for it in others}
    close(run)


@pytest.mark.parametrize('seed', range(3))
def test_the_backgrounds_steps_give_way_in_the_middle(loaded: LoadedModel, seed: int) -> None:
    rng = random.Random(seed)
    requests = [
        replace(plan_request(number), background=number % 3 > 0) for number in range(GENERATIONS)
    ]
    expected = {it.generation_id: one_by_one(loaded, it) for it in requests}
    options = {
        'max_running': 3,
        'max_kv_tokens': 700,
        'scheduling': SchedulingOptions(background_batch=4, background_chunk=32),
    }
    run = Run(loaded, options=options, kind=LanedCore)
    coming = list(requests)
    while coming or len(run.ended) < len(requests):
        if coming and rng.random() < 0.1:
            run.core.apply(Submit(coming.pop()))
        run.step(lambda: rng.random() < 0.4)
        if run.awaiting and rng.random() < 0.5:
            run.answer()
    assert {name: ended.token_ids for name, ended in run.ended.items()} == expected
    assert run.core.state(0.0).interrupted > 20
    close(run)


def close(run: Run) -> None:
    """Nothing but prefixes is left, and they go."""
    for prefix in list(run.backend._prefixes):
        run.backend.drop_prefix(prefix)
    assert run.loaded.pool.used == 0
