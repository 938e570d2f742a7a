"""What is written ahead of values, over vLLM's own bookkeeping; the worker checks every block."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

from support.engines.block_worker import BLOCK
from support.engines.scheduler_bench import OTHERWISE, PLANS, Bench, tear
from vllm.v1.request import RequestStatus

from timely_llm_ros.engines.commands import Resume, Suspend
from timely_llm_ros.engines.texts.loading import load_texts
from timely_llm_ros.engines.tokens.model_files import SHIPPED_MODEL, find_model

if TYPE_CHECKING:
    from timely_llm_ros.engines.texts.token_texts import TokenTexts

ASKS = ('is_visible(cat_1);#true ', 'take_picture;', 'land;')
ASKS_AGAIN = ('is_visible(cup_2);#false ', 'is_visible(cat_1);#true ', 'land;')
WAYS: dict[str, dict[str, Any]] = {
    'sync': {'asynchronous': False},
    'forwards': {'asynchronous': False, 'forwards': True},
    'async': {'asynchronous': True},
    'stages': {'asynchronous': False, 'stages': 2},
    'adapters': {'asynchronous': False, 'forwards': True, 'adapters': 3},
}


@pytest.fixture(scope='module')
def texts() -> TokenTexts:
    return load_texts(find_model(SHIPPED_MODEL))


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return WAYS[request.param]


def greedy(texts: TokenTexts, way: dict[str, Any], blocks: int = 200, slots: int = 64) -> Bench:
    return Bench(texts, blocks=blocks, slots=slots, drafts=True, **way)


def rest(bench: Bench) -> int:
    """Run until there is nothing to do; return how many steps were ahead of values."""
    begun = len(bench.steps)
    while bench.step():
        pass
    return sum(bool(bench.ahead(place)) for place in range(begun, len(bench.steps)))


def finish(bench: Bench) -> None:
    while rest(bench) or bench.awaiting:
        if bench.awaiting:
            bench.answer()
    bench.check(set())
    assert bench.state is not None
    assert bench.state.ahead_kv_tokens == 0


def test_a_value_that_takes_long_finds_its_segment_written(
    texts: TokenTexts, way: dict[str, Any]
) -> None:
    bench = greedy(texts, way)
    bench.add('g', ASKS, random.Random(0))
    assert rest(bench) > 0
    # What it wrote holds no KV any more.
    manager = bench.scheduler.kv_cache_manager
    assert round(manager.usage * 199) == len(manager.get_block_ids('g')[0])
    assert bench.segments['g'] == ['is_visible(cat_1);']
    before = len(bench.steps)
    bench.answer()
    assert bench.segments['g'] == ['is_visible(cat_1);', 'take_picture;']
    assert len(bench.steps) == before
    bench.step()
    # Its last tokens may not have been computed yet when it began to wait.
    (tokens,) = bench.steps[before].values()
    assert tokens <= sum(len(texts.encode(part)) for part in ASKS[:2])
    finish(bench)
    assert bench.state is not None
    written = texts.encode('take_picture;'), texts.encode(OTHERWISE)
    assert bench.state.ahead_tokens >= len(written[0])
    assert bench.state.ahead_dropped_tokens >= len(written[1])


def test_a_plan_that_asks_again_is_written_ahead_again(
    texts: TokenTexts, way: dict[str, Any]
) -> None:
    bench = greedy(texts, way)
    bench.add('g', ASKS_AGAIN, random.Random(0))
    for segments in (1, 2, 3):
        ahead = rest(bench)
        assert len(bench.segments['g']) == segments
        assert (ahead > 0) == (segments < 3)
        if bench.awaiting:
            bench.answer()
            assert len(bench.segments['g']) == segments + 1
    finish(bench)


def test_a_plan_may_end_with_what_was_written(texts: TokenTexts, way: dict[str, Any]) -> None:
    bench = greedy(texts, way)
    bench.add('g', ('is_visible(cat_1);#true ',), random.Random(0))
    assert rest(bench) > 0
    bench.answer()
    assert bench.ended['g'].reason == 'stop'
    finish(bench)


def test_a_value_that_comes_amid_takes_over_what_is_there(
    texts: TokenTexts, way: dict[str, Any]
) -> None:
    for steps in range(1, 5):
        bench = greedy(texts, way)
        bench.add('g', ('is_visible(cat_1);#true ', 'move_up(150);', 'land;'), random.Random(0))
        while sum(bool(bench.ahead(place)) for place in range(len(bench.steps))) < steps:
            if not bench.step():
                break
        bench.answer()
        finish(bench)
        assert bench.state is not None
        # The last of them may still be under way.
        assert bench.state.ahead_tokens > 0 or steps < 3


def test_the_value_that_nobody_foresaw_ends_the_plan(
    texts: TokenTexts, way: dict[str, Any]
) -> None:
    bench = greedy(texts, way)
    bench.add('g', ASKS, random.Random(0))
    rest(bench)
    bench.scheduler.control(Resume('g', 'perhaps'))
    rest(bench)
    assert bench.ended['g'].reason == 'error'
    bench.plans.pop('g')
    bench.ended.pop('g')
    bench.check(set())


@pytest.mark.parametrize('steps', range(5))
def test_a_plan_that_is_cancelled_leaves_nothing(
    texts: TokenTexts, way: dict[str, Any], steps: int
) -> None:
    bench = greedy(texts, way)
    bench.add('g', ASKS, random.Random(0))
    while not bench.awaiting:
        bench.step()
    for _ in range(steps):
        bench.step()
    bench.scheduler.finish_requests('g', RequestStatus.FINISHED_ABORTED)
    bench.awaiting.clear()
    rest(bench)
    bench.check({'g'})
    assert bench.ended['g'].reason == 'canceled'


def test_whoever_can_run_goes_first(texts: TokenTexts, way: dict[str, Any]) -> None:
    """``Bench.step`` checks that nobody competes while something is written ahead."""
    bench, rng = greedy(texts, way), random.Random(0)
    bench.add('g', ASKS, rng)

    def come() -> None:
        if bench.ahead(-1) and len(bench.plans) < 5:
            bench.add(f'late{len(bench.plans)}', PLANS[0], rng)

    bench.meanwhile = come
    rest(bench)
    assert len(bench.ended) == len(bench.plans) - 1 > 0
    bench.answer()
    assert len(bench.segments['g']) == 2
    finish(bench)


def test_no_plan_loses_kv_for_what_is_written_ahead(texts: TokenTexts, way: dict[str, Any]) -> None:
    """A prompt comes that fits only where branches give up theirs."""
    bench, rng = greedy(texts, way, blocks=15), random.Random(0)
    plan = ('is_visible(cat_1);#true ', 'move_up(150);', 'land;')
    bench.add('g', plan, rng, prompt_tokens=100)
    while not bench.awaiting:
        bench.step()
    held = bench.scheduler.requests['g'].num_computed_tokens

    def come() -> None:
        pool = bench.scheduler.kv_cache_manager.block_pool
        if bench.ahead(-1) and 'other' not in bench.plans:
            tokens = BLOCK * (pool.get_num_free_blocks() + 1) - 40 - 16
            bench.add('other', PLANS[0], rng, prompt_tokens=tokens)

    bench.meanwhile = come
    while 'other' not in bench.segments:
        assert bench.step()
        assert bench.scheduler.requests['g'].num_computed_tokens == held
    rest(bench)
    assert bench.spilled == 0
    bench.answer()
    finish(bench)
    assert bench.spilled == 0
    assert bench.state is not None
    assert bench.state.ahead_tokens > 0


def test_without_room_nothing_is_written_and_nobody_waits_for_it(
    texts: TokenTexts, way: dict[str, Any]
) -> None:
    bench = greedy(texts, way)
    bench.add('g', ASKS, random.Random(0))
    while not bench.awaiting:
        bench.step()
    pool = bench.scheduler.kv_cache_manager.block_pool
    others = pool.get_new_blocks(pool.get_num_free_blocks())
    assert rest(bench) == 0
    pool.free_blocks(others)
    finish(bench)
    assert bench.state is not None
    assert bench.state.ahead_tokens == bench.state.ahead_dropped_tokens == 0


def test_a_branch_needs_a_place_of_the_worker(texts: TokenTexts) -> None:
    bench, rng = greedy(texts, WAYS['sync'], slots=7), random.Random(0)
    for number in range(6):
        bench.add(f'g{number}', ASKS, rng)
    assert rest(bench) == 0
    bench.answer()
    assert rest(bench) > 0
    finish(bench)


def test_a_suspended_plan_is_not_written_ahead(texts: TokenTexts, way: dict[str, Any]) -> None:
    bench = greedy(texts, way)
    bench.add('g', PLANS[0], random.Random(0))
    while 'g' not in bench.segments:
        bench.step()
    bench.scheduler.control(Suspend('g'))
    assert rest(bench) == 0
    bench.scheduler.control(Resume('g'))
    finish(bench)


def test_drawn_tokens_are_not_written_ahead(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200)
    bench.add('g', ASKS, random.Random(0))
    assert rest(bench) == 0
    finish(bench)


def test_drafts_learn_the_same_of_a_plan_that_was_written_ahead(texts: TokenTexts) -> None:
    learned = []
    for late in (False, True):
        bench = greedy(texts, WAYS['forwards'])
        bench.add('g', ASKS_AGAIN, random.Random(0))
        while 'g' not in bench.ended:
            bench.step()
            if late:
                rest(bench)
            if bench.awaiting:
                bench.answer()
        finish(bench)
        assert bench.state is not None
        assert (bench.state.ahead_tokens > 0) == late
        learned.append(bench.scheduler._drafts._recent._plans)
    assert learned[0] == learned[1]


@pytest.mark.parametrize('blocks', [200, 14])
def test_no_interleaving_corrupts_anything(
    texts: TokenTexts, way: dict[str, Any], blocks: int
) -> None:
    ahead = seed = 0
    # Whether there is idle time to write ahead in also depends on how long steps took.
    while seed < 4 or (not ahead and seed < 20):
        bench = greedy(texts, way, blocks)
        tear(bench, random.Random(seed), robots=('one', 'two') if seed % 2 else ())
        ahead += sum(bool(bench.ahead(place)) for place in range(len(bench.steps)))
        seed += 1
    assert ahead > 0
