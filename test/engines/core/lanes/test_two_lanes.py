"""Robots' lane and the background lane on one engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st
from support.engines.core_bench import Bench, request
from support.examples import examples

from timely_llm_ros.engines import (
    Cancel,
    EngineStateChanged,
    GenerationEnded,
    Resume,
    SegmentGenerated,
    Submit,
    Suspend,
)
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.simulated.step_time import StepTimeModel
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    import pytest

    from timely_llm_ros.engines import EngineEvent, GenerationRequest
    from timely_llm_ros.engines.core.step import StepPlan

PLAN = 'takeoff;goto(cat_3);is_visible(cat_3);land;'


class LanedBench(Bench[LanedCore]):
    """A laned core that answers blocking calls after a while."""

    def __init__(self, **options: object) -> None:
        super().__init__(LanedCore, PLAN, **options)

    def runnable(self) -> bool:
        """Whether a robot's generation could run."""
        states = self.core.state(self.now_s).generations
        return any(state.phase is not Phase.HELD for state in states)

    def robots_kv(self) -> int:
        return sum(state.kv_tokens for state in self.core.state(self.now_s).generations)


def is_background(plan: StepPlan) -> bool:
    (kind,) = {generation.request.background for generation in plan.running}
    return kind


PREFILL_CHUNK = 64

ACTIONS = st.lists(
    st.one_of(
        st.just('robot'),
        st.just('background'),
        st.just('value'),
        st.just('cancel'),
        st.integers(1, 12),
    ),
    max_size=40,
)


@examples(150)
@example(actions=['robot', 3, 12], kv=400, chunk=1, prefixes=1)
@given(
    actions=ACTIONS,
    kv=st.integers(70, 400),
    chunk=st.integers(1, 30),
    prefixes=st.integers(1, 3),
)
def test_the_background_gets_only_what_no_robot_needs(
    actions: list[str | int], kv: int, chunk: int, prefixes: int
) -> None:
    options = SchedulingOptions(background_batch=3, background_chunk=chunk)
    bench = LanedBench(max_kv_tokens=kv, prefill_chunk=PREFILL_CHUNK, scheduling=options)
    names: list[str] = []

    def step() -> None:
        runnable, held = bench.runnable(), bench.robots_kv()
        left = bench.core.state(bench.now_s).background
        plan = bench.step()
        if plan is not None and is_background(plan):
            assert not runnable
            assert bench.robots_kv() == held
            computed = [it.tokens for it in plan.prefixes] + [it.tokens for it in plan.rows]
            # What is written ahead of a value is a robot's, in steps as large as those of robots.
            ahead = any(it.generation_id not in names for it in plan.running)
            most = PREFILL_CHUNK if ahead else chunk
            assert sum(tokens for tokens in computed if tokens > 1) <= most
        elif left and not names_alive(bench):
            # No robot has a generation: the background always gets on, whatever its memory.
            assert plan is not None or bench.core.state(bench.now_s).background < left

    for number, action in enumerate(actions):
        name = f'{action}{number}'
        if action in ('robot', 'background'):
            fixed = chr(ord('a') + number % prefixes) * 40
            bench.core.apply(Submit(request(name, background=action == 'background', fixed=fixed)))
            names.append(name)
        elif action == 'value':
            for state in bench.core.state(bench.now_s).generations:
                bench.core.apply(Resume(state.generation_id, 'true'))
        elif action == 'cancel' and names:
            bench.core.apply(Cancel(names[number % len(names)]))
        elif isinstance(action, int):
            for _ in range(action):
                step()
    for _ in range(3000):
        for state in bench.core.state(bench.now_s).generations:
            bench.core.apply(Resume(state.generation_id, 'true'))
        if bench.step() is None and not bench.core.state(bench.now_s).generations:
            break
    ended = bench.all_ended()
    assert set(ended) == set(names)
    assert {event.reason for event in ended.values()} <= {'stop', 'canceled', 'error'}
    if kv >= 100:
        assert 'error' not in {event.reason for event in ended.values()}


def names_alive(bench: LanedBench) -> bool:
    return bool(bench.core.state(bench.now_s).generations)


def test_a_background_plan_is_one_segment_and_waits_for_no_value() -> None:
    bench = LanedBench()
    bench.core.apply(Submit(request('b', background=True)))
    bench.run()
    (segment,) = (event for event in bench.events if isinstance(event, SegmentGenerated))
    assert segment.segment.text == PLAN
    assert bench.all_ended()['b'].reason == 'stop'


def test_a_robot_interrupts_a_background_plan_that_goes_on_afterwards() -> None:
    bench = LanedBench()
    bench.core.apply(Submit(request('b', background=True)))
    for _ in range(8):
        bench.step()
    bench.core.apply(Submit(request('r')))
    plan = bench.step()
    assert plan is not None
    assert not is_background(plan)
    while bench.core.state(bench.now_s).generations:
        plan = bench.step()
        if plan is None or is_background(plan):
            bench.core.apply(Resume('r', 'true'))
    bench.run()
    ended = bench.all_ended()
    assert {name: event.reason for name, event in ended.items()} == {'b': 'stop', 'r': 'stop'}
    assert ended['b'].token_ids == tuple(range(len(ended['b'].token_ids)))
    assert bench.core.kv.spilled == 0


def test_robots_take_the_backgrounds_memory_first() -> None:
    bench = LanedBench(
        max_kv_tokens=120, scheduling=SchedulingOptions(admission='fixed', background_chunk=64)
    )
    for name in ('b1', 'b2', 'b3'):
        bench.core.apply(Submit(request(name, background=True, body='y' * 80)))
    while bench.core.kv.used < 90:
        assert bench.step() is not None
    bench.core.apply(Submit(request('r1', fixed='z' * 80)))
    bench.core.apply(Submit(request('r2', fixed='z' * 80)))
    plan = bench.step()
    assert plan is not None
    assert {generation.generation_id for generation in plan.running} == {'r1', 'r2'}
    assert bench.core.kv.spilled > 0


def test_an_id_that_comes_again_in_the_other_lane_ends_the_first_one() -> None:
    bench = LanedBench()
    bench.core.apply(Submit(request('a', background=True)))
    bench.core.apply(Submit(request('a')))
    (first,) = bench.core.take_events()
    assert isinstance(first, GenerationEnded)
    assert (first.generation_id, first.reason) == ('a', 'error')
    assert bench.core.state(0.0).background == 0
    assert len(bench.core.state(0.0).generations) == 1


@examples(25)
@given(
    arrivals=st.lists(st.floats(0.0, 0.4), min_size=1, max_size=4),
    background=st.integers(1, 12),
    chunk=st.integers(1, 32),
)
def test_a_robot_is_delayed_by_one_background_step_at_most(
    arrivals: list[float], background: int, chunk: int
) -> None:
    """On virtual time, against the same robots without a background."""
    model = StepTimeModel(decode_s=0.02, batch_factor=0.1, prefill_token_s=0.001, prefill_s=0.005)
    # The longest step that the background can have.
    longest_s = 0.02 * 1.7 + 0.001 * chunk + 8 * 0.005
    gaps_s = [5.0 * number + at_s for number, at_s in enumerate(arrivals)]

    async def serve(count: int) -> tuple[dict[str, float], int]:
        loop = asyncio.get_running_loop()
        firsts: dict[str, float] = {}
        background_tokens = 0

        def on_event(event: EngineEvent) -> None:
            nonlocal background_tokens
            if isinstance(event, SegmentGenerated):
                firsts.setdefault(event.generation_id, event.token_at_s)
            elif isinstance(event, GenerationEnded):
                background_tokens += event.tokens if event.generation_id.startswith('b') else 0
                if event.generation_id.startswith('b'):
                    again = request(f'{event.generation_id}+', background=True)
                    engine.submit(again)

        engine = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda _: PLAN,
                step_time=model,
                scheduling=SchedulingOptions(background_batch=8, background_chunk=chunk),
            )
        )
        await engine.start(on_event)
        for number in range(count):
            engine.submit(request(f'b{number}', background=True))
        for number, at_s in enumerate(gaps_s):
            await asyncio.sleep(at_s - loop.time())
            engine.submit(request(f'r{number}'))
        await asyncio.sleep(gaps_s[-1] + 5.0 - loop.time())
        await engine.close()
        return {name: at_s for name, at_s in firsts.items() if name[0] == 'r'}, background_tokens

    alone, none = run_virtual(serve(0))
    busy, tokens = run_virtual(serve(background))
    assert none == 0
    assert tokens > 0
    assert alone.keys() == busy.keys()
    for name, at_s in busy.items():
        assert at_s <= alone[name] + longest_s + 1e-9


def test_the_backgrounds_steps_are_kept_short() -> None:
    """On a machine whose steps last in proportion to their tokens."""
    options = SchedulingOptions(background_step_s=0.01)
    bench = LanedBench(scheduling=options)
    for number in range(40):
        bench.core.apply(Submit(request(f'b{number}', background=True, body='y' * 400)))
    steps: list[tuple[int, bool]] = []
    while (plan := bench.core.plan(bench.now_s)) is not None or bench.core.prepare():
        if plan is None:
            continue
        outputs = [
            bench.texts.next(row.generation.generation_id) for row in plan.rows if row.samples
        ]
        ended_s = bench.now_s + 0.004 + 0.001 * plan.tokens
        bench.core.complete(plan, outputs, bench.now_s, ended_s)
        bench.now_s = ended_s
        steps.append((plan.tokens, plan.decodes_only))
    settled = steps[len(steps) // 4 :]
    assert max(tokens for tokens, _ in settled) == 6
    for decodes in (False, True):
        sizes = [tokens for tokens, kind in settled if kind is decodes]
        assert sorted(sizes)[len(sizes) // 2] >= 5


def test_a_background_generation_is_opened_when_its_turn_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = LanedBench(scheduling=SchedulingOptions(background_batch=2))
    opened: list[str] = []
    real = bench.texts.open

    def open_(one: GenerationRequest) -> tuple[str, int, int]:
        opened.append(one.generation_id)
        return real(one)

    monkeypatch.setattr(bench.texts, 'open', open_)
    for name in ('a', 'b', 'c', 'd'):
        bench.core.apply(Submit(request(name, background=True)))
    bench.core.apply(Submit(request('r')))
    while 'r' not in {state.generation_id for state in bench.core.state(0.0).generations}:
        bench.step()
    bench.step()
    assert opened == ['r']
    bench.core.apply(Suspend('r'))
    bench.step()
    assert opened == ['r', 'a', 'b']
    bench.core.apply(Cancel('d'))
    bench.core.apply(Cancel('r'))
    assert bench.core.state(bench.now_s).background == 3
    bench.run()
    assert opened == ['r', 'a', 'b', 'c']
    reasons = {name: event.reason for name, event in bench.all_ended().items()}
    assert reasons == {'a': 'stop', 'b': 'stop', 'c': 'stop', 'd': 'canceled', 'r': 'canceled'}


def test_the_state_counts_the_background() -> None:
    async def run() -> list[int]:
        seen: list[int] = []

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, EngineStateChanged):
                seen.append(event.state.background)

        engine = SimulatedEngine(SimulatedConfig(plan_text=lambda _: PLAN))
        await engine.start(on_event)
        for number in range(3):
            engine.submit(request(f'b{number}', background=True))
        await asyncio.sleep(5.0)
        await engine.close()
        return seen

    seen = run_virtual(run())
    assert seen[0] == 3
    assert seen[-1] == 0
