"""Scenes in vLLM's prefix cache, over vLLM's own bookkeeping; the worker checks every block."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

from hypothesis import given
from hypothesis import strategies as st
from support.engines.block_worker import BLOCK
from support.engines.scheduler_bench import PLANS, SHARED, Bench, draw_scene, tear
from support.examples import examples

from timely_llm_ros.engines.commands import Resume, Suspend
from timely_llm_ros.engines.texts.loading import load_texts
from timely_llm_ros.engines.tokens.model_files import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.vllm.plugin.warm_scenes import WarmScene, fitting

if TYPE_CHECKING:
    from timely_llm_ros.engines.texts.token_texts import TokenTexts

HELD = ('is_visible(cat_1);#true ', 'land;')
"""A plan that waits for its robot."""


@examples(100)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.sampled_from('ab'))),
    room=st.integers(0, 60),
)
def test_what_fits_needs_no_more_blocks_than_there_are(
    sizes: list[tuple[int, int, str]], room: int
) -> None:
    scenes = [
        WarmScene(None, 0, own + fixed, 0, fixed, (kind, fixed), 0) for own, fixed, kind in sizes
    ]
    found = fitting(scenes, room)
    own = sum(scene.blocks - scene.fixed_blocks for scene in found)
    needed = own + sum({scene.kind: scene.fixed_blocks for scene in found}.values())
    assert needed <= room
    assert found == [scene for scene in scenes if scene in found]
    if scenes and scenes[0].blocks <= room:
        assert found[0] is scenes[0]
    # None is left out that there would be room for after all.
    assert all(scene in found or needed + scene.blocks > room for scene in scenes)


@pytest.fixture(scope='module')
def texts() -> TokenTexts:
    return load_texts(find_model(SHIPPED_MODEL))


@pytest.fixture(params=[False, True], ids=['sync', 'async'])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def scene(number: int, tokens: int) -> list[int]:
    return draw_scene(random.Random(number), SHARED, tokens)


def rest(bench: Bench) -> int:
    """Run until there is nothing to do; return how many tokens of scenes that computed."""
    begun = len(bench.steps)
    while bench.step():
        pass
    return sum(bench.warmed(place) for place in range(begun, len(bench.steps)))


def end(bench: Bench) -> None:
    """Forget all scenes; everyone has ended with its whole plan."""
    for robot in list(bench._scene_of):
        bench.forget_scene(robot)
    rest(bench)
    bench.check(set())


def test_a_task_in_a_warm_scene_computes_what_follows_it(
    texts: TokenTexts, asynchronous: bool
) -> None:
    bench, rng = Bench(texts, asynchronous=asynchronous, blocks=200), random.Random(0)
    known = scene(0, 400)
    bench.tell_scene('robot', known)
    whole = (len(known) - 1) // BLOCK * BLOCK
    assert rest(bench) == whole
    assert bench.scheduler.kv_cache_manager.usage == 0.0
    assert bench.state is not None
    assert (bench.state.warm_scenes, bench.state.kv_tokens) == (1, 0)
    bench.add('g', PLANS[0], rng, prompt_tokens=20, scene=known, scene_of='robot')
    bench.step()
    assert bench.steps[-1] == {'g': len(known) + 20 - whole}
    assert rest(bench) == 0
    assert (bench.state.warm_hits, bench.state.warm_hit_tokens) == (1, whole - len(SHARED))
    assert bench.state.warm_scenes == 1
    # Another robot's task knows nothing of it, and one in another scene finds nothing.
    bench.add('h', PLANS[0], rng, scene=known)
    bench.add('i', PLANS[0], rng, scene=scene(1, 400), scene_of='robot')
    rest(bench)
    assert bench.state.warm_hits == 1
    end(bench)


def test_a_robot_waits_for_one_chunk_of_a_scene_at_most(
    texts: TokenTexts, asynchronous: bool
) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=200)
    bench.tell_scene('robot', scene(0, 480))

    def come() -> None:
        if 'g' not in bench.plans:
            bench.add('g', PLANS[0], random.Random(0))

    bench.meanwhile = come
    while 'g' not in bench.ended:
        bench.step()
    chunk = bench.warmed(0)
    assert 0 < chunk < 448
    assert 'g' in bench.steps[1]
    assert sum(map(bench.warmed, range(len(bench.steps)))) == chunk
    assert rest(bench) == 448 - chunk
    end(bench)


def test_a_scene_that_changes_keeps_its_beginning(texts: TokenTexts, asynchronous: bool) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=200)
    known = scene(0, 400)
    bench.tell_scene('robot', known)
    rest(bench)
    bench.tell_scene('robot', known[:200] + scene(1, 400)[200:])
    assert rest(bench) == 384 - 200 // BLOCK * BLOCK
    bench.tell_scene('other', known[:200])
    assert rest(bench) == 0
    assert bench.state is not None
    assert bench.state.warm_scenes == 2
    end(bench)


def test_a_forgotten_scene_is_not_computed(texts: TokenTexts, asynchronous: bool) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=200)
    for steps in range(4):
        bench.tell_scene('robot', scene(steps, 400))
        for _ in range(steps):
            bench.step()
        bench.forget_scene('robot')
        assert rest(bench) == 0
    bench.tell_scene('robot', SHARED[: BLOCK - 1])
    assert rest(bench) == 0, 'no block is full'
    end(bench)


def test_an_overwritten_scene_is_computed_again_and_no_other(
    texts: TokenTexts, asynchronous: bool
) -> None:
    bench, rng = Bench(texts, asynchronous=asynchronous, blocks=41), random.Random(0)
    for robot in range(3):
        bench.tell_scene(f'r{robot}', scene(robot, 257))
    assert rest(bench) == 3 * 256 - 2 * BLOCK
    warmed = []
    for number in range(12):
        bench.add(f'g{number}', ('land;',), rng, prompt_tokens=90)
        warmed.append(rest(bench))
        assert bench.state is not None
        assert bench.state.warm_scenes == 3
    # Each task overwrites three blocks, of which 17 are no scene's: once in so many tasks the
    # oldest scene is overwritten, one with it at most, and the others outlive what tasks left.
    assert 0 < sum(map(bool, warmed)) <= 4
    assert max(warmed) <= 256 - BLOCK
    end(bench)


def test_scenes_take_no_more_room_than_there_is(texts: TokenTexts, asynchronous: bool) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=20)
    for robot in range(8):
        bench.tell_scene(f'r{robot}', scene(robot, 130))
        rest(bench)
    assert bench.state is not None
    # The latest are warm, with one block that all share.
    assert bench.state.warm_scenes == (19 - 1) // 3
    assert rest(bench) == 0
    bench.add('g', PLANS[0], random.Random(0))
    assert rest(bench) <= 6 * 4 * BLOCK
    end(bench)


def test_no_generation_loses_kv_for_a_scene(texts: TokenTexts, asynchronous: bool) -> None:
    bench, rng = Bench(texts, asynchronous=asynchronous, blocks=26), random.Random(0)
    for number in range(4):
        bench.add(f'g{number}', HELD, rng, prompt_tokens=100)
    rest(bench)
    held = bench.scheduler.kv_cache_manager.usage
    for number in range(20):
        bench.tell_scene('robot', scene(number, rng.randint(100, 500)))
        rest(bench)
        assert bench.scheduler.kv_cache_manager.usage == held
    answers = 0

    def answer() -> None:
        """Give a value while so much of a scene is computed that there is room for nobody else."""
        nonlocal answers
        free = bench.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        if bench.awaiting and bench.warmed(-1) and free < 5:
            bench.answer()
            answers += 1

    bench.meanwhile = answer
    for number, tokens in enumerate((250, 380)):
        bench.tell_scene('robot', scene(50 + number, tokens))
        rest(bench)
        assert answers == number + 1
    while bench.awaiting:
        bench.answer()
        rest(bench)
    assert bench.spilled == 0
    end(bench)


def test_a_scene_waits_for_a_place_of_the_worker(texts: TokenTexts) -> None:
    bench, rng = Bench(texts, asynchronous=False, blocks=200, slots=6), random.Random(0)
    for number in range(6):
        bench.add(f'g{number}', HELD, rng)
    rest(bench)
    bench.tell_scene('robot', scene(0, 300))
    assert rest(bench) == 0
    bench.answer()
    # The first block, which all share, was computed for the plans.
    assert rest(bench) == 288 - BLOCK
    while bench.awaiting:
        bench.answer()
        rest(bench)
    end(bench)


def test_a_held_plan_lets_scenes_go_on(texts: TokenTexts, asynchronous: bool) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=200)
    bench.add('g', PLANS[0], random.Random(0))
    bench.scheduler.control(Suspend('g'))
    bench.tell_scene('robot', scene(0, 300))
    assert rest(bench) == 288
    bench.scheduler.control(Resume('g'))
    rest(bench)
    end(bench)


@pytest.mark.parametrize('blocks', [200, 16])
@pytest.mark.parametrize('seed', range(3))
def test_no_interleaving_with_scenes_corrupts_anything(
    texts: TokenTexts, asynchronous: bool, blocks: int, seed: int
) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=blocks)
    tear(bench, random.Random(seed), robots=('one', 'two', 'three'))
    assert sum(map(bench.warmed, range(len(bench.steps)))) > 0
    assert bench.state is not None
    assert bench.state.warm_hits > 0 or blocks < 100


@pytest.mark.parametrize(('stages', 'adapters'), [(2, 0), (1, 3)])
def test_scenes_go_with_pipelines_and_adapters(
    texts: TokenTexts, stages: int, adapters: int
) -> None:
    forwards = stages == 1
    bench = Bench(
        texts, asynchronous=False, blocks=40, stages=stages, forwards=forwards, adapters=adapters
    )
    tear(bench, random.Random(1), robots=('one', 'two'))
    assert sum(map(bench.warmed, range(len(bench.steps)))) > 0
