"""Both schedulers over vLLM's own bookkeeping; the worker checks every block that it reads."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

from support.engines.block_worker import BLOCK
from support.engines.scheduler_bench import PLANS, Bench, tear

from timely_llm_ros.engines.commands import Resume, Suspend
from timely_llm_ros.engines.texts.loading import load_texts
from timely_llm_ros.engines.tokens.model_files import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.vllm.plugin.control import has_seed
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from timely_llm_ros.engines.texts.token_texts import TokenTexts


@pytest.fixture(scope='module')
def texts() -> TokenTexts:
    return load_texts(find_model(SHIPPED_MODEL))


@pytest.fixture(params=[False, True], ids=['sync', 'async'])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize('blocks', [200, 14])
@pytest.mark.parametrize('seed', range(6))
def test_no_interleaving_corrupts_anything(
    texts: TokenTexts, asynchronous: bool, blocks: int, seed: int
) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=blocks)
    tear(bench, random.Random(seed))
    assert (bench.spilled > 0) == (blocks < 100)


@pytest.mark.parametrize('blocks', [200, 14])
def test_no_step_has_more_adapters_than_the_worker_has_places(
    texts: TokenTexts, asynchronous: bool, blocks: int
) -> None:
    """Three adapters and one place: the worker checks that, and whose KV is in each block."""
    bench = Bench(texts, asynchronous=asynchronous, blocks=blocks, adapters=3)
    tear(bench, random.Random(0))
    assert (bench.spilled > 0) == (blocks < 100)


@pytest.mark.parametrize('blocks', [200, 14])
@pytest.mark.parametrize(('stages', 'adapters'), [(2, 0), (4, 0), (2, 3)])
def test_no_interleaving_corrupts_a_pipeline(
    texts: TokenTexts, blocks: int, stages: int, adapters: int
) -> None:
    bench = Bench(
        texts, asynchronous=False, blocks=blocks, stages=stages, max_running=6, adapters=adapters
    )
    tear(bench, random.Random(stages))
    assert (bench.spilled > 0) == (blocks < 100)


def test_a_pipeline_gets_its_generations_in_even_steps(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200, stages=2, max_running=8)
    for number in range(8):
        bench.add(f'g{number}', PLANS[3], random.Random(number), utility=NORMAL)
    while not all(request.num_output_tokens for request in bench.scheduler.requests.values()):
        bench.step()
    begun = len(bench.steps)
    for _ in range(6):
        bench.step()
    assert [len(step) for step in bench.steps[begun:]] == [4] * 6
    while bench.step():
        pass
    bench.check(set())


def test_an_urgent_prompt_passes_a_long_one_in_a_pipeline(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200, stages=2)
    bench.add('long', PLANS[0], random.Random(0), prompt_tokens=420, utility=NORMAL)
    bench.step()
    assert 'long' in bench.steps[0]
    late = replace(URGENT, expected_response_s=0.0)
    bench.add('urgent', PLANS[0], random.Random(1), prompt_tokens=80, utility=late)
    bench.step()
    assert set(bench.steps[1]) == {'urgent'}
    assert sum(step.get('urgent', 0) for step in bench.steps) >= 80
    while bench.step():
        pass
    bench.check(set())


@pytest.mark.parametrize('seed', range(3))
def test_what_others_ask_ends_though_some_hang_up(
    texts: TokenTexts, asynchronous: bool, seed: int
) -> None:
    from vllm.v1.request import RequestStatus

    rng = random.Random(seed)
    bench = Bench(texts, asynchronous=asynchronous, blocks=60)
    canceled: set[str] = set()

    def hang_up() -> None:
        live = [name for name in bench.plans if name not in bench.ended]
        if live and rng.random() < 0.1:
            canceled.add(name := rng.choice(live))
            bench.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    bench.meanwhile = hang_up
    for number in range(24):
        bench.add_other(f'o{number}', rng.randint(1, 60), rng)
        bench.step()
        if number % 6 == 0:
            bench.add(f'g{number}', PLANS[0], rng)
    for _ in range(10_000):
        if not bench.step():
            break
    bench.check(canceled)
    assert canceled


def test_what_goes_wrong_while_the_worker_computes_is_told(
    texts: TokenTexts, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('timely_llm_ros.skills.segments.plan_segmenter.MAX_PLAN_LENGTH', 12)
    bench = Bench(texts, asynchronous=asynchronous, blocks=60)
    rng = random.Random(0)
    bench.add('g', ('move_up(20);move_up(20);move_up(20);',), rng)
    bench.add_other('o', 30, rng)
    told: list[Any] = []
    update = bench.scheduler.update_from_output

    def listen(*args: Any) -> Any:
        outputs = update(*args)
        told.extend(out for group in outputs.values() for out in group.outputs)
        return outputs

    monkeypatch.setattr(bench.scheduler, 'update_from_output', listen)
    for _ in range(1000):
        if not bench.step():
            break
    assert bench.ended['g'].reason == 'invalid_plan'
    assert 'expected at most 12 characters' in bench.ended['g'].error
    assert bench.ended['o'].reason == 'stop'
    assert [out.request_id for out in told if out.finish_reason is not None] == ['g', 'o']
    assert not bench.scheduler.requests


def test_more_suspended_than_slots_are_spilled(texts: TokenTexts, asynchronous: bool) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=200, slots=6)
    rng = random.Random(0)
    for number in range(20):
        bench.add(f'g{number}', ('is_visible(cat_1);#true ', 'land;'), rng)
    while bench.step():
        # The worker has no more places than these.
        requests = bench.scheduler.requests.values()
        assert sum(request.num_computed_tokens > 0 for request in requests) <= 6
    assert len(bench.awaiting) == 20
    assert bench.spilled > 0
    while bench.awaiting:
        bench.answer()
        while bench.step():
            pass
    bench.check(set())


def test_nobody_waits_while_all_are_held(texts: TokenTexts, asynchronous: bool) -> None:
    bench = Bench(texts, asynchronous=asynchronous, blocks=200)
    bench.add('a', PLANS[0], random.Random(0))
    bench.scheduler.control(Suspend('a'))
    assert not bench.scheduler.has_unfinished_requests()
    bench.scheduler.control(Resume('a'))
    assert bench.scheduler.has_unfinished_requests()
    while bench.step():
        pass
    bench.check(set())


def test_another_order_of_vllm_is_refused(texts: TokenTexts) -> None:
    from timely_llm_ros.engines.vllm.plugin.scheduler import TimelyScheduler
    from timely_llm_ros.errors import ConfigurationError

    bench = Bench(texts, asynchronous=False, blocks=20)
    config = bench.scheduler.vllm_config
    config.scheduler_config.policy = 'priority'
    with pytest.raises(ConfigurationError, match='policy \'priority\' of vLLM: expected "fcfs"'):
        TimelyScheduler(
            config,
            bench.scheduler.kv_cache_config,
            bench.scheduler.structured_output_manager,
            block_size=BLOCK,
        )


@pytest.mark.parametrize('rng_seed', range(4))
def test_no_prompt_with_a_seed_is_cut(texts: TokenTexts, rng_seed: int) -> None:
    rng = random.Random(rng_seed)
    bench = Bench(texts, asynchronous=False, blocks=200, max_running=6)
    for number in range(16):
        # A step takes 256 tokens: some prompts without a seed need two, none with one does.
        seed = rng.choice([None, number])
        tokens = rng.randint(5, 400 if seed is None else 200 - 40)
        bench.add(f'g{number}', PLANS[0], rng, prompt_tokens=tokens, seed=seed)
    requests = dict(bench.scheduler.requests)
    fixed = {name: request.num_prompt_tokens for name, request in requests.items()}
    begun: set[str] = set()
    while bench.step():
        for name, tokens in bench.steps[-1].items():
            if has_seed(requests[name]) and name not in begun:
                # Blocks that others computed before are found again.
                assert (fixed[name] - tokens) % BLOCK == 0
                assert tokens > 1 or fixed[name] % BLOCK == 1
            begun.add(name)
    bench.check(set())
    assert any(has_seed(request) for request in requests.values())


def test_a_seed_whose_prompt_would_be_cut_ends_at_once(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200)
    bench.add('long', PLANS[0], random.Random(0), prompt_tokens=190, seed=1)
    assert bench.ended['long'].reason == 'canceled'
    assert not bench.scheduler.requests


@pytest.mark.parametrize('blocks', [200, 9])
def test_no_interleaving_corrupts_what_is_forwarded(texts: TokenTexts, blocks: int) -> None:
    spilled = 0
    for seed in range(4):
        bench = Bench(texts, asynchronous=False, blocks=blocks, forwards=True)
        tear(bench, random.Random(seed))
        spilled += bench.spilled
        ended = [it for it in bench.ended.values() if it.reason == 'stop']
        # What must follow was never sampled, and what was is the whole rest: ends count as well.
        assert sum(it.forwarded for it in ended) > 0.3 * sum(it.tokens for it in ended)
    assert (spilled > 0) == (blocks < 100)


def test_what_must_follow_is_neither_sampled_nor_lost(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200, forwards=True)
    bench.add('g', ('goto(cat_1);', 'goto(cup_2);', 'land;'), random.Random(0))
    while bench.step():
        pass
    bench.check(set())
    ended = bench.ended['g']
    assert ended.forwarded > 0
    assert bench.sampled == ended.tokens + 1 - ended.forwarded
    sizes = [step['g'] for step in bench.steps if step]
    # Each step but the one with the prompt computes what the one before it brought.
    assert sum(sizes[1:]) <= ended.tokens
    assert max(sizes[1:]) > 1


def test_a_segment_whose_end_is_certain_leaves_at_once(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200, forwards=True)
    bench.add('g', ('goto(cat_1);', 'land;'), random.Random(0))
    while 'g' not in bench.segments:
        assert bench.step()
    assert bench.sampled < len(texts.encode('goto(cat_1);'))
    # Its last tokens are not computed yet.
    request = bench.scheduler.requests['g']
    assert request.num_tokens - request.num_computed_tokens > 1


@pytest.mark.parametrize('blocks', [200, 9])
def test_no_interleaving_corrupts_what_is_guessed(texts: TokenTexts, blocks: int) -> None:
    spilled = 0
    for seed in range(4):
        bench = Bench(texts, asynchronous=False, blocks=blocks, forwards=True, drafts=True)
        for number in range(8):
            bench.add(f'before{number}', PLANS[number % 4], random.Random(number))
            while bench.step() or bench.awaiting:
                if bench.awaiting:
                    bench.answer()
        assert bench.worker.guessed > bench.worker.came_true > 0
        tear(bench, random.Random(seed))
        spilled += bench.spilled
    assert (spilled > 0) == (blocks < 100)


def test_what_plans_of_late_went_on_with_takes_fewer_steps(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200, forwards=True, drafts=True)
    steps = []
    for name in ('first', 'second'):
        bench.add(name, PLANS[3], random.Random(0))
        begun = len(bench.steps)
        while bench.step():
            pass
        steps.append(sum(map(bool, bench.steps[begun:])))
        ended = bench.ended[name]
        # The end is one of the tokens that took a step, or not.
        assert steps[-1] == ended.tokens + 1 - ended.forwarded
    bench.check(set())
    assert steps[1] < 0.8 * steps[0]
    assert bench.segments['first'] == bench.segments['second'] == list(PLANS[3])


def test_nothing_is_guessed_where_a_token_of_the_step_is_drawn(texts: TokenTexts) -> None:
    bench = Bench(texts, asynchronous=False, blocks=200, forwards=True, drafts=True)
    bench.temperature = 1.0
    bench.add_other('drawn', 150, random.Random(0))
    bench.temperature = 0.0
    for name in ('first', 'second'):
        bench.add(name, PLANS[3], random.Random(0))
        while name not in bench.ended:
            bench.step()
    assert 'drawn' not in bench.ended
    assert bench.worker.guessed == 0
    while 'drawn' not in bench.ended:
        bench.step()
    bench.add('third', PLANS[3], random.Random(0))
    while bench.step():
        pass
    bench.check(set())
    assert bench.worker.guessed > 0


def test_where_vllm_cannot_fast_forward_it_says_why(
    texts: TokenTexts, caplog: pytest.LogCaptureFixture
) -> None:
    for options, why in (
        ({'asynchronous': True, 'forwards': True}, 'before the latest token is known'),
        ({'asynchronous': False, 'forwards': False}, "worker_extension_cls '': expected"),
        ({'asynchronous': False, 'forwards': True, 'stages': 2}, 'several steps are under way'),
    ):
        caplog.clear()
        bench = Bench(texts, blocks=200, **options)
        (record,) = [it for it in caplog.records if 'fast-forward is off' in it.message]
        assert why in record.message
        bench.add('g', PLANS[0], random.Random(0))
        while bench.step():
            pass
        bench.check(set())
        assert bench.ended['g'].forwarded == 0
