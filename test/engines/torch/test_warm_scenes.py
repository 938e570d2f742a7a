"""A scene that was computed ahead must show in the time only, never in the tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip('torch')

from hypothesis import given
from hypothesis import strategies as st
from support.engines.torch_runs import Run, alone, plan_request
from support.examples import examples

from timely_llm_ros.budget import FixedEviction
from timely_llm_ros.engines import Cancel, Resume, Submit, Suspend, Warm
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.engines.torch.compute.eviction import find_method
from timely_llm_ros.engines.torch.compute.model import LoadedModel, load_model
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Prompt

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from timely_llm_ros.engines import GenerationRequest

pytestmark = pytest.mark.engines

TASKS = 8
ROBOTS = ('one', 'two')
SCENES = 3
WAYS: dict[str, dict[str, Any]] = {
    'greedy': {},
    'drawn': {'sampling': Sampling(temperature=1.0, top_p=0.9, seed=5)},
    'one by one': {'fast_forward': False},
}


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    return load_model(str(chaotic_model), max_kv_tokens=4096)


def task(number: int) -> GenerationRequest:
    """A task of one of the robots, in one of a few scenes that begin alike."""
    scene = plan_request(number % SCENES)
    body = scene.prompt.body[: scene.prompt.body.index('task:')]
    prompt = Prompt(scene.prompt.fixed, f'{body}task: do number {number}\nplan:\n')
    robot = ROBOTS[number % len(ROBOTS)]
    return replace(scene, generation_id=f'g{number}', prompt=prompt, scene_of=robot)


def warm(robot: str, number: int, end: int | None = None) -> Warm:
    """A scene of the tasks, or a part of one."""
    one = task(number)
    body = one.prompt.body[: one.prompt.body.index('task:')][:end]
    return Warm(robot, Prompt(one.prompt.fixed, body), one.skill_set, one.scene)


@pytest.fixture(scope='module')
def expected(loaded: LoadedModel) -> dict[str, dict[str, tuple[int, ...]]]:
    return {
        way: {
            f'g{n}': alone(loaded, replace(task(n), scene_of=''), free=False, **options)
            for n in range(TASKS)
        }
        for way, options in WAYS.items()
    }


def close(run: Run) -> None:
    """Forget the scenes; nothing but prefixes may be held then."""
    for robot in ROBOTS:
        run.core.apply(Warm(robot, None, task(0).skill_set, task(0).scene))
    prefixes = sum(len(prefix.slots) for prefix in run.backend._prefixes.values())
    assert run.loaded.pool.used == run.core.kv.used == prefixes
    assert not run.backend._sequences
    for key in run.backend.prefixes:
        run.backend.drop_prefix(key)
    assert run.loaded.pool.used == 0


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(['task', 'task', 'warm', 'part', 'forget', 'suspend', 'cancel', 'steps']),
        st.integers(0, 11),
    ),
    max_size=30,
)


@examples(12)
@given(
    actions=ACTIONS,
    room=st.sampled_from([260, 420, 4096]),
    way=st.sampled_from(list(WAYS)),
    stops=st.randoms(use_true_random=False),
)
def test_any_sequence_of_scenes_and_tasks_writes_the_same_plans(
    loaded: LoadedModel,
    expected: dict[str, dict[str, tuple[int, ...]]],
    actions: list[tuple[str, int]],
    room: int,
    way: str,
    stops: random.Random,
) -> None:
    """``Run.step`` checks after each step that pool and account agree and the bound is kept."""
    options = {'max_running': 3, 'max_kv_tokens': room, **WAYS[way]}
    run = Run(loaded, kind=LanedCore, options=options)
    sent: list[str] = []
    canceled, suspended = set[str](), list[str]()
    for action, number in actions:
        name = f'g{number % TASKS}'
        robot = ROBOTS[number % 2]
        live = name in sent and name not in run.ended
        if action == 'task' and name not in sent:
            run.core.apply(Submit(task(number % TASKS)))
            sent.append(name)
        elif action == 'warm':
            run.core.apply(warm(robot, number))
        elif action == 'part':
            run.core.apply(warm(robot, number, 10 + number))
        elif action == 'forget':
            run.core.apply(Warm(robot, None, task(0).skill_set, task(0).scene))
        elif action == 'suspend' and live:
            run.core.apply(Suspend(name))
            suspended.append(name)
        elif action == 'cancel' and live:
            run.core.apply(Cancel(name))
            canceled.add(name)
        for _ in range(number):
            run.step(lambda: stops.random() < 0.2)
        if run.awaiting and number % 2:
            run.answer()
    for name in suspended:
        run.core.apply(Resume(name))
    run.finish()
    assert set(run.ended) == set(sent)
    for name, ended in run.ended.items():
        if name in canceled and ended.reason == 'canceled':
            assert ended.token_ids == expected[way][name][: len(ended.token_ids)]
        else:
            assert ended.token_ids == expected[way][name], ended
    close(run)


def test_a_task_in_a_warm_scene_computes_its_instruction_only(loaded: LoadedModel) -> None:
    run = Run(loaded, kind=LanedCore)
    run.core.apply(warm('one', 0))
    run.finish()
    scene_tokens = run.core.state(0.0).warm_tokens
    assert run.core.state(0.0).warm_scenes == 1
    before = run.backend.computed_tokens
    run.core.apply(Submit(task(0)))
    run.step()
    own = len(loaded.texts.encode(task(0).prompt.body))
    assert run.backend.computed_tokens - before == own - scene_tokens
    state = run.core.state(0.0)
    assert (state.warm_hits, state.warm_hit_tokens) == (1, scene_tokens)
    assert state.warm_tokens == 0
    run.finish()
    # The next task finds it again, and nothing had to be computed for that.
    assert run.core.state(0.0).warm_tokens == scene_tokens
    run.core.apply(Submit(task(6)))
    run.step()
    assert run.core.state(0.0).warm_hits == 2
    run.finish()
    close(run)


@pytest.mark.parametrize('parts', [0, 2])
def test_a_task_that_interrupts_its_scene_has_what_is_computed_of_it(
    loaded: LoadedModel, expected: dict[str, dict[str, tuple[int, ...]]], parts: int
) -> None:
    scheduling = SchedulingOptions(background_chunk=12)
    run = Run(loaded, kind=LanedCore, options={'scheduling': scheduling})
    # The beginning that all share is computed in steps that nothing interrupts.
    run.core.apply(Submit(replace(task(1), scene_of='')))
    run.finish()
    run.core.apply(warm('one', 0))
    for _ in range(parts):
        run.step()
    run.step(lambda: True)
    assert run.core.state(0.0).interrupted == 1
    run.core.apply(Submit(task(0)))
    assert run.core.state(0.0).warm_hit_tokens == 12 * parts
    run.finish()
    assert run.ended['g0'].token_ids == expected['greedy']['g0']
    close(run)


def test_a_scene_that_grows_is_extended(loaded: LoadedModel) -> None:
    run = Run(loaded, kind=LanedCore)
    run.core.apply(warm('one', 0, 30))
    run.finish()
    kept = run.core.state(0.0).warm_tokens
    before = run.backend.computed_tokens
    run.core.apply(warm('one', 0))
    run.finish()
    added = run.core.state(0.0).warm_tokens - kept
    assert 0 < added == run.backend.computed_tokens - before
    close(run)


@pytest.mark.parametrize('share', [0.3, 0.6])
def test_a_prompt_that_is_evicted_from_keeps_the_same_tokens(
    loaded: LoadedModel, share: float
) -> None:
    method = find_method('snapkv')
    asked = replace(task(0), eviction=FixedEviction(share))
    cold = alone(loaded, replace(asked, scene_of=''), free=False, eviction=method)
    run = Run(loaded, kind=LanedCore, options={'eviction': method})
    run.core.apply(warm('one', 0))
    run.finish()
    run.core.apply(Submit(asked))
    run.finish()
    assert run.ended['g0'].token_ids == cold
    close(run)


def test_a_scene_takes_nothing_back_that_is_not_computed_again(
    loaded: LoadedModel, expected: dict[str, dict[str, tuple[int, ...]]]
) -> None:
    run = Run(loaded, kind=LanedCore, options={'max_kv_tokens': 330})
    first, second = 0, 6
    run.core.apply(warm('one', first))
    run.finish()
    run.core.apply(Submit(task(first)))
    while not run.awaiting:
        assert run.step()
    (plan,) = run.core._robots.generations  # type: ignore[union-attr]
    prompt = Prompt(task(1).prompt.fixed, 'much ' * 46)
    run.core.apply(Submit(replace(task(1), generation_id='large', prompt=prompt, scene_of='')))
    run.step()
    assert plan.context.computed == 0
    run.core.apply(Cancel('large'))
    # All of the scene is accounted for, and nothing of it is computed.
    run.step(lambda: True)
    assert plan.context.computed > 100
    assert run.core.state(0.0).interrupted == 1
    run.core.apply(Cancel(f'g{first}'))
    run.core.apply(Submit(task(second)))
    run.finish()
    assert run.ended[f'g{second}'].token_ids == expected['greedy'][f'g{second}']
    close(run)


def test_scenes_are_dropped_before_a_robot_loses_anything(loaded: LoadedModel) -> None:
    run = Run(loaded, kind=LanedCore, options={'max_kv_tokens': 330, 'max_running': 2})
    run.core.apply(warm('one', 0))
    run.core.apply(warm('two', 1))
    run.finish()
    assert run.core.state(0.0).warm_scenes == 2
    for number in (2, 5):
        run.core.apply(Submit(replace(task(number), scene_of='')))
    run.finish()
    assert {ended.reason for ended in run.ended.values()} <= {'stop', 'length'}
    assert run.core.kv.spilled == 0
    close(run)
