"""KV that plans lost while they wait for a value is computed again before the value comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import SCENE, SKILLS, Bench, request
from support.examples import examples

from timely_llm_ros.engines import Cancel, Resume, RobotIdleAt, SegmentGenerated, Submit, Warm
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.kv_ledger import WATERMARK, KvLedger
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.simulated.step_time import StepTimeModel
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.skills import Prompt
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    import random

    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.engines.core.step import Generation, StepPlan

PLAN = 'takeoff;is_visible(cat_3);goto(cat_3);is_visible(cat_3);land;'
FIXED = 10
"""Tokens that all prompts share."""


def task(name: str, tokens: int, *, urgent: bool = False) -> Submit:
    return Submit(request(name, body='y' * 4 * tokens, urgent=urgent))


def robots(run: Bench[LanedCore]) -> list[Generation]:
    return list(run.core._robots.generations)


def lost(run: Bench[LanedCore], *, tokens: int = 60, **options: int) -> Generation:
    """Return a plan that waits and has just lost its KV to another, which is gone again."""
    run.core.apply(task('g', tokens))
    run.run()
    (plan,) = robots(run)
    run.core.apply(task('other', 80, urgent=True))
    run.step()
    assert plan.context.computed == 0
    run.core.apply(Cancel('other'))
    return plan


def bench(**options: object) -> Bench[LanedCore]:
    return Bench(LanedCore, PLAN, **{'max_kv_tokens': 120, 'prefill_chunk': 200, **options})


class Stopped(Bench[LanedCore]):
    """A core on a model that pauses, whose background's steps are interrupted now and then."""

    def __init__(self, stops: random.Random, **options: object) -> None:
        super().__init__(LanedCore, PLAN, **options)
        self.texts.pauses = True
        self._stops = stops

        self._plan = self.core.plan
        self.core.plan = self._planned  # type: ignore[method-assign]

    def _planned(self, now_s: float) -> StepPlan | None:
        plan = self._plan(now_s)
        if plan is not None and self.core.may_interrupt(plan) and self._stops.random() < 0.3:
            self.core.interrupt(plan, now_s, now_s)
            return None
        return plan


# Any order of things -----------------------------------------------------------------------------

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(['task', 'task', 'warm', 'background', 'value', 'value', 'due', 'cancel']),
        st.integers(0, 12),
    ),
    max_size=40,
)


@examples(120)
@given(
    actions=ACTIONS,
    kv=st.integers(120, 300),
    chunk=st.integers(1, 40),
    host=st.sampled_from([0, 80, 1000]),
    stops=st.randoms(use_true_random=False),
)
def test_nobody_who_is_back_sooner_gives_way_and_the_bound_holds(
    actions: list[tuple[str, int]], kv: int, chunk: int, host: int, stops: random.Random
) -> None:
    ledger = KvLedger(kv, host_capacity=host, copying_pays=lambda before, after: after > before + 9)
    run = Stopped(stops, kv=ledger, max_kv_tokens=kv, prefill_chunk=chunk)
    # What is accounted for an interrupted step is not all computed, so it could not be copied.
    run.texts.pauses = not host
    names: list[str] = []

    def waiting() -> list[str]:
        states = run.core.state(run.now_s).generations
        return [it.generation_id for it in states if it.phase is Phase.HELD]

    def step() -> StepPlan | None:
        generations = run.core._robots.generations
        before = {plan: plan.context.computed for plan in generations}
        states = run.core.state(run.now_s).generations
        plan = run.step()
        assert run.core.kv.used <= kv
        contexts = [plan.context for plan in generations]
        assert ledger.host_used == sum(context.hosted for context in contexts) <= host
        assert not any(context.hosted and context.computed for context in contexts)
        state = run.core.state(run.now_s)
        assert 0 <= state.restored_kv_tokens <= state.spare_kv_tokens <= state.kv_tokens
        if plan is not None and plan.background:
            assert all(state.phase is Phase.HELD for state in states)
            restored = plan.running[0]
            sooner = restored if restored in before else None
            for other, computed in before.items():
                if other.context.computed < computed:
                    assert sooner is not None
                    assert generations.due_s(sooner) < generations.due_s(other)
        return plan

    for number, (action, count) in enumerate(actions):
        name = f'{action}{number}'
        if action == 'task':
            run.core.apply(task(name, 5 * count + 1))
            names.append(name)
        elif action == 'background':
            run.core.apply(Submit(request(name, background=True)))
            names.append(name)
        elif action == 'warm':
            prompt = Prompt('x' * 4 * FIXED, 's' * 20 * count) if count else None
            run.core.apply(Warm('robot', prompt, SKILLS, SCENE))
        elif action == 'value' and waiting():
            run.core.apply(Resume(waiting()[count % len(waiting())], 'true'))
        elif action == 'due' and waiting():
            held = waiting()
            run.core.apply(RobotIdleAt(held[count % len(held)], run.now_s + number % 7))
        elif action == 'cancel' and names:
            run.core.apply(Cancel(names[count % len(names)]))
        for _ in range(count):
            step()
    for _ in range(3000):
        for name in waiting():
            run.core.apply(Resume(name, 'true'))
        if step() is None and not waiting() and not run.core._background.begun:
            break
    ended = run.all_ended()
    assert set(ended) == set(names)
    alone = Bench(EngineCore, PLAN)
    alone.core.apply(task('alone', 1))
    for _ in range(3):
        alone.run()
        alone.core.apply(Resume('alone', 'true'))
    for name, event in ended.items():
        assert event.reason in ('stop', 'canceled')
        if event.reason == 'stop' and name.startswith('task'):
            assert run.segments(name) == alone.segments('alone')
            assert event.token_ids == alone.ended('alone').token_ids
    state = run.core.state(run.now_s)
    assert state.restored_kv_tokens == ledger.host_used == 0
    assert state.warm_tokens <= state.kv_tokens <= state.warm_tokens + FIXED


# What it brings ----------------------------------------------------------------------------------


def test_a_plan_whose_kv_is_there_again_comes_back_as_a_row() -> None:
    run = bench()
    plan = lost(run)
    run.run()
    assert plan.context.missing == plan.brought == 1
    state = run.core.state(run.now_s)
    assert state.restored_kv_tokens == plan.context.computed
    run.core.apply(Resume('g', 'true'))
    assert run.phase() is Phase.SUSPENDED
    state = run.core.state(run.now_s)
    assert (state.restored, state.restored_kv_tokens) == (1, 0)
    assert not plan.context.spare


@pytest.mark.parametrize('parts', [0, 1, 2])
def test_a_plan_that_is_back_amid_it_computes_the_rest_as_a_prompt(parts: int) -> None:
    run = bench()
    plan = lost(run)
    for _ in range(parts):
        step = run.step()
        assert step is not None
        assert step.background
        assert not step.rows[0].samples
    known = plan.context.computed
    assert (known > 0) is (parts > 0)
    run.core.apply(Resume('g', 'true'))
    assert run.phase() is Phase.QUEUED
    step = run.step()
    assert step is not None
    assert not step.background
    assert [row.tokens for row in step.rows] == [plan.context.computed - known]
    assert not plan.lacks_kv
    assert run.core.state(run.now_s).restored == 0


def test_what_the_host_has_is_copied_back_and_not_computed() -> None:
    run = bench(kv=KvLedger(120, host_capacity=100))
    plan = lost(run)
    hosted = plan.context.hosted
    assert hosted == run.core.kv.host_used == plan.context.tokens - plan.brought
    step = run.step()
    assert step is not None
    assert (step.background, step.copied, step.tokens) == (True, hosted, 0)
    assert (plan.context.computed, plan.context.hosted, run.core.kv.host_used) == (hosted, 0, 0)
    run.core.apply(Resume('g', 'true'))
    assert run.phase() is Phase.SUSPENDED
    assert run.core.state(run.now_s).restored == 1


def test_a_plan_that_is_back_before_it_is_a_row_whose_step_copies() -> None:
    run = bench(kv=KvLedger(120, host_capacity=100))
    plan = lost(run)
    hosted = plan.context.hosted
    run.core.apply(Resume('g', 'true'))
    assert run.phase() is Phase.SUSPENDED
    step = run.step()
    assert step is not None
    assert step.copied == hosted
    assert [row.tokens for row in step.rows] == [plan.context.computed - hosted]
    assert run.core.state(run.now_s).restored == 0


def test_what_does_not_fit_there_or_does_not_pay_is_computed_again() -> None:
    for ledger in (
        KvLedger(120, host_capacity=50),
        KvLedger(120, host_capacity=100, copying_pays=lambda before, after: after - before > 90),
    ):
        run = bench(kv=ledger)
        plan = lost(run)
        assert (plan.context.hosted, ledger.host_used, ledger.copied) == (0, 0, 0)
        run.core.apply(Resume('g', 'true'))
        assert run.phase() is Phase.QUEUED


def test_a_plan_that_is_cancelled_amid_it_leaves_nothing() -> None:
    run = bench()
    plan = lost(run)
    run.step()
    assert plan.context.computed
    run.core.apply(Cancel('g'))
    run.run()
    assert run.core.kv.used == FIXED
    assert run.core.state(run.now_s).restored_kv_tokens == 0


def test_who_is_back_sooner_goes_first_and_is_kept() -> None:
    run = bench(max_kv_tokens=100)
    plans: dict[str, Generation] = {}
    for name, away_s in (('late', 9.0), ('soon', 5.0)):
        run.core.apply(task(name, 60))
        run.run()
        run.core.apply(RobotIdleAt(name, run.now_s + away_s))
        plans |= {plan.generation_id: plan for plan in robots(run)}
    # There is room for one.
    run.run()
    assert plans['soon'].context.computed > 0 == plans['late'].context.computed
    run.core.apply(RobotIdleAt('late', run.now_s + 1))
    run.run()
    assert plans['late'].context.computed > 0 == plans['soon'].context.computed
    assert plans['late'].context.missing == 1


def test_a_warm_scene_makes_room_for_it() -> None:
    run = bench(max_kv_tokens=130)
    plan = lost(run, tokens=80)
    run.core.apply(Warm('robot', Prompt('x' * 4 * FIXED, 's' * 4 * 90), SKILLS, SCENE))
    # What is being evicted is left alone, so the scene has the room first.
    plan.evicted = None
    run.run()
    assert run.core.state(run.now_s).warm_tokens == 90
    plan.evicted = 0
    run.run()
    state = run.core.state(run.now_s)
    assert (plan.lacks_kv, state.warm_tokens, state.spilled) == (False, 0, 1)


def test_what_is_computed_again_does_not_make_kv_scarce() -> None:
    run = bench(max_kv_tokens=95)
    lost(run, tokens=75)
    run.run()
    kv, state = run.core.kv, run.core.state(run.now_s)
    assert kv.used > WATERMARK * kv.capacity
    assert kv.spare_tokens() == state.spare_kv_tokens >= state.restored_kv_tokens > 0
    assert not kv.tight
    assert state.spilled == 1
    # A robot takes it back, and what was spare is no loss.
    run.core.apply(task('third', 80, urgent=True))
    run.step()
    assert run.core.state(run.now_s).spilled == 1


def test_the_next_segment_comes_sooner_in_virtual_time() -> None:
    async def after_value_s(*, others: int, idle_s: float = 10.0, host: int = 0) -> float:
        found: asyncio.Queue[SegmentGenerated] = asyncio.Queue()

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, SegmentGenerated):
                found.put_nowait(event)

        engine = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda _: PLAN,
                step_time=StepTimeModel(prefill_token_s=0.001, copy_token_s=0.0001),
                max_kv_tokens=1500,
                host_kv_tokens=host,
            )
        )
        await engine.start(on_event)
        for name in ['g', *(f'other{number}' for number in range(others))]:
            engine.submit(request(name, body='y' * 4000))
            while not (await found.get()).segment.awaits_value:
                pass
            await asyncio.sleep(0.1)
            engine.send(RobotIdleAt(name, asyncio.get_running_loop().time() + 30.0))
            if name != 'g':
                engine.cancel(name)
        await asyncio.sleep(idle_s)
        told_s = asyncio.get_running_loop().time()
        engine.resume('g', 'true')
        while (event := await found.get()).generation_id != 'g':
            pass
        await engine.close()
        return event.token_at_s - told_s

    kept_s, again_s = (run_virtual(after_value_s(others=count)) for count in (0, 1))
    assert again_s == pytest.approx(kept_s, abs=0.01)
    # Without idle time before: some thousand tokens as a prompt, or over the link. The segment is
    # not written ahead either.
    again_s, copied_s = (
        run_virtual(after_value_s(others=1, idle_s=0.0, host=host)) for host in (0, 2000)
    )
    assert again_s > 1.0
    assert 0.1 < copied_s < 0.2
