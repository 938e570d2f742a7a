"""The core and the simulated engine, without a model."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import Bench, request
from support.examples import examples

from timely_llm_ros.engines import (
    Cancel,
    EngineStateChanged,
    GenerationEnded,
    Resume,
    RobotIdleAt,
    SegmentGenerated,
    Submit,
    Suspend,
    create_engine,
)
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.kv_ledger import KvLedger
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.simulated.step_time import StepTimeModel
from timely_llm_ros.scheduling import Phase, SchedulingOptions
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.scheduling import ServingMode

PLAN = 'takeoff;goto(cat_3);repeat(2){take_picture;};land;'
BLOCKING = 'takeoff;is_visible(cat_3);land;'


def core_bench(plan: str = PLAN, **options: object) -> Bench[EngineCore]:
    return Bench(EngineCore, plan, **options)


@pytest.mark.parametrize('mode', ['segmented', 'stream', 'whole_plan'])
def test_a_plan_in_every_mode(mode: ServingMode) -> None:
    bench = core_bench(mode=mode)
    bench.core.apply(Submit(request()))
    bench.run()
    parts = ['takeoff;', 'goto(cat_3);', 'repeat(2){take_picture;};', 'land;']
    assert bench.segments() == ([''.join(parts)] if mode == 'whole_plan' else parts)
    assert bench.ended().reason == 'stop'
    assert bench.core.state(bench.now_s).generations == ()


def test_a_blocking_call_holds_the_generation() -> None:
    bench = core_bench(BLOCKING)
    bench.core.apply(Submit(request()))
    bench.run()
    assert bench.segments() == ['takeoff;', 'is_visible(cat_3);']
    assert bench.phase() is Phase.HELD
    assert bench.core.state(bench.now_s).waited_for == 0
    bench.core.apply(Resume('g'))
    assert bench.step() is None
    bench.core.apply(Resume('g', 'true'))
    bench.run()
    assert bench.segments()[2:] == ['land;']
    assert bench.ended().reason == 'stop'


def test_a_robot_waits_for_its_plan_until_it_executes() -> None:
    bench = core_bench(mode='stream')
    bench.core.apply(Submit(request()))
    assert bench.core.state(bench.now_s + 1.0).waited_for == 1
    bench.step()
    bench.core.apply(RobotIdleAt('g', bench.now_s + 9.0))
    assert bench.core.state(bench.now_s + 1.0).waited_for == 0
    assert bench.core.state(bench.now_s + 10.0).waited_for == 1


def test_a_wrong_value_ends_the_generation() -> None:
    bench = core_bench(BLOCKING)
    bench.core.apply(Submit(request()))
    bench.run()
    bench.core.apply(Resume('g', 'perhaps'))
    bench.events += bench.core.take_events()
    assert bench.ended().reason == 'error'
    assert 'perhaps' in bench.ended().error


def test_suspension_stops_and_resumption_goes_on() -> None:
    bench = core_bench()
    bench.core.apply(Submit(request()))
    bench.step()
    bench.core.apply(Suspend('g'))
    assert bench.step() is None
    assert bench.phase() is Phase.HELD
    assert bench.core.kv.used > 0
    bench.core.apply(Resume('g'))
    bench.run()
    assert bench.ended().reason == 'stop'


def test_what_is_no_plan_ends_with_invalid_plan() -> None:
    bench = core_bench('takeoff;explode;')
    bench.core.apply(Submit(request()))
    bench.run()
    assert bench.segments() == ['takeoff;']
    assert bench.ended().reason == 'invalid_plan'
    assert 'explode' in bench.ended().error


def test_an_unfinished_plan_ends_with_invalid_plan() -> None:
    bench = core_bench('takeoff;land')
    bench.core.apply(Submit(request()))
    bench.run()
    assert bench.ended().reason == 'invalid_plan'


def test_length_and_cancel() -> None:
    bench = core_bench()
    bench.core.apply(Submit(request('a', max_tokens=3)))
    bench.core.apply(Submit(request('b')))
    for _ in range(4):
        bench.step()
    bench.core.apply(Cancel('b'))
    bench.core.apply(Cancel('b'))
    bench.core.apply(Cancel('nobody'))
    bench.run()
    assert (bench.ended('a').reason, bench.ended('a').tokens) == ('length', 3)
    assert bench.ended('b').reason == 'canceled'


def test_an_id_used_twice_ends_the_first() -> None:
    bench = core_bench()
    bench.core.apply(Submit(request()))
    bench.core.apply(Submit(request()))
    bench.run()
    reasons = [e.reason for e in bench.events if isinstance(e, GenerationEnded)]
    assert reasons == ['error', 'stop']


def test_an_urgent_newcomer_takes_the_place_of_a_normal_one() -> None:
    bench = core_bench(max_running=1, scheduling=SchedulingOptions(interrupts=True))
    bench.core.apply(Submit(request('a')))
    bench.step()
    bench.core.apply(Submit(request('u', urgent=True, arrival_s=bench.now_s)))
    bench.step()
    assert bench.phase('u') is Phase.RUNNING
    assert bench.phase('a') is Phase.SUSPENDED
    bench.run()
    assert bench.ended('a').reason == bench.ended('u').reason == 'stop'


def test_a_robot_that_is_busy_for_long_gives_way() -> None:
    bench = core_bench(max_running=1)
    bench.core.apply(Submit(request('a')))
    bench.core.apply(Submit(request('b')))
    while not (bench.segments('a') and bench.segments('b')):
        bench.step()
    bench.core.apply(RobotIdleAt('a', bench.now_s + 0.2))
    bench.core.apply(RobotIdleAt('b', bench.now_s + 50.0))
    while len(bench.segments('a')) < 2:
        bench.step()
    assert len(bench.segments('b')) == 1


def test_generation_times_add_up() -> None:
    bench = core_bench()
    bench.core.apply(Submit(request()))
    bench.run()
    parts = [e.generation_s for e in bench.events if isinstance(e, SegmentGenerated)]
    # The last step finds the end and belongs to no segment.
    assert sum(parts) + 0.01 == pytest.approx(bench.ended().generation_s)


def test_a_step_is_full_where_there_is_no_kv_for_more() -> None:
    def cost_s(**options: int) -> float:
        bench = core_bench(PLAN, **options)
        bench.core.apply(Submit(request()))
        bench.run()
        return sum(it.cost_s for it in bench.events if isinstance(it, SegmentGenerated))

    alone_s = cost_s(max_running=1)
    assert cost_s(max_running=8) < alone_s / 4
    # The plan comes to hold thirty tokens: two of its kind, not eight, have room.
    assert alone_s / 4 < cost_s(max_running=8, max_kv_tokens=80) < alone_s


def test_who_came_before_anything_was_known_is_expected_to_take_what_others_took() -> None:
    bench = core_bench(max_running=1)
    for name in ('first', 'waits'):
        bench.core.apply(Submit(request(name)))
    while not bench.segments('first'):
        bench.step()
    bench.core.apply(Submit(request('comes after it')))
    table = bench.core.generations.table
    for column in ('expected_generation_s', 'worst_tokens'):
        assert table.get('waits', column) == table.get('comes after it', column)


def test_states_come_at_most_ten_times_a_second() -> None:
    bench = core_bench()
    bench.core.apply(Submit(request()))
    states = 0
    while bench.step() is not None:
        states += bench.core.generations.take_state(bench.now_s) is not None
    assert 1 <= states <= bench.now_s * 10 + 1
    assert bench.core.generations.state_due_s is not None
    last = bench.core.generations.take_state(bench.now_s + 1.0)
    assert last is not None
    assert last.state.generations == ()
    assert bench.core.generations.take_state(bench.now_s + 9.0) is None


@examples(60)
@given(st.integers(0, 1 << 30), st.sampled_from([45, 80, 200]), st.integers(1, 4))
def test_no_generation_is_lost(seed: int, room: int, max_running: int) -> None:
    """Whatever happens, each generation ends once and the account of KV is never exceeded."""
    rng = random.Random(seed)
    bench = core_bench(BLOCKING, max_kv_tokens=room, max_running=max_running, prefill_chunk=8)
    names = [f'g{number}' for number in range(8)]
    waiting = list(names)
    for _ in range(300):
        action, name = rng.random(), rng.choice(names)
        if waiting and action < 0.3:
            bench.core.apply(
                Submit(
                    request(waiting.pop(), fixed=rng.choice('ab') * 20, urgent=rng.random() < 0.5)
                )
            )
        elif action < 0.4:
            bench.core.apply(Suspend(name))
        elif action < 0.6:
            bench.core.apply(Resume(name, rng.choice([None, 'true'])))
        elif action < 0.63:
            bench.core.apply(Cancel(name))
        bench.step()
        assert 0 <= bench.core.kv.used <= room
    while waiting or bench.core.state(0.0).generations:
        if waiting:
            bench.core.apply(Submit(request(waiting.pop())))
        for name in names:
            bench.core.apply(Resume(name, 'true'))
        bench.step()
    for name in names:
        assert bench.ended(name).reason in ('stop', 'canceled')
    segments = {name: bench.segments(name) for name in names}
    for name, texts in segments.items():
        if bench.ended(name).reason == 'stop':
            assert texts == ['takeoff;', 'is_visible(cat_3);', 'land;']


def test_a_long_prompt_keeps_the_room_that_it_will_need() -> None:
    bench = core_bench(max_kv_tokens=100, prefill_chunk=8)
    bench.core.apply(Submit(request('a', fixed='', body='y' * 300, urgent=True, max_tokens=2)))
    bench.core.apply(Submit(request('b', fixed='', body='y' * 160, max_tokens=2)))
    bench.step()
    assert bench.phase('a') is Phase.RUNNING
    assert bench.phase('b') is Phase.QUEUED
    bench.run()
    assert bench.core.kv.spilled == 0
    assert bench.ended('a').reason == bench.ended('b').reason == 'length'


@pytest.mark.parametrize(('plan', 'phase'), [(PLAN, Phase.QUEUED), (BLOCKING, Phase.HELD)])
def test_a_plan_that_lost_its_kv_begins_again_with_a_prompt(plan: str, phase: Phase) -> None:
    bench = core_bench(plan, max_kv_tokens=100, max_running=1)
    bench.core.apply(Submit(request('a')))
    while len(bench.segments('a')) < (1 if phase is Phase.QUEUED else 2):
        bench.step()
    assert bench.phase('a') is (Phase.SUSPENDED if phase is Phase.QUEUED else phase)
    bench.core.apply(RobotIdleAt('a', 50.0))
    bench.core.apply(Submit(request('b', urgent=True, body='y' * 320, arrival_s=bench.now_s)))
    bench.step()
    assert bench.phase('b') is Phase.RUNNING
    assert bench.core.kv.spilled == 1
    assert bench.phase('a') is phase
    bench.core.apply(Resume('a', 'true'))
    assert bench.phase('a') is Phase.QUEUED
    bench.core.apply(Cancel('b'))
    bench.run()
    assert bench.ended('a').reason == 'stop'
    assert ''.join(bench.segments('a')) == plan


def test_a_generation_that_somebody_suspended_stays_so_without_its_kv() -> None:
    bench = core_bench(max_kv_tokens=100, max_running=1)
    bench.core.apply(Submit(request('a')))
    while not bench.segments('a'):
        bench.step()
    bench.core.apply(Suspend('a'))
    bench.core.apply(Submit(request('b', urgent=True, body='y' * 320, max_tokens=2)))
    bench.run()
    assert bench.core.kv.spilled == 1
    assert bench.phase('a') is Phase.HELD


def test_room_is_made_in_the_order_of_the_victims() -> None:
    ledger = KvLedger(100)
    contexts = [ledger.open(name, 'p', 10, 30) for name in 'abc']
    ledger.compute_prefix(contexts[0].prefix, 10)
    for context in contexts:
        ledger.compute(context, 30)
    dropped: list[str] = []

    def room(needed: int, victims: Iterable[int]) -> bool:
        return ledger.make_room(
            needed,
            (),
            [contexts[i] for i in victims],
            drop=lambda context: dropped.append(context.name),
            drop_prefix=lambda prefix: dropped.append(prefix.key),
        )

    assert not room(71, (0, 1))
    assert dropped == []
    assert room(40, (1, 0))
    assert dropped == ['b', 'a']
    assert ledger.used == 40
    assert room(100, (2,))
    assert dropped[2:] == ['c', 'p']
    assert (ledger.used, ledger.spilled) == (0, 3)


def test_simulated_engine_runs_on_virtual_time() -> None:
    async def main() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        log: list[tuple[float, str]] = []
        done = asyncio.Event()

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, EngineStateChanged):
                return
            log.append((round(loop.time(), 6), type(event).__name__))
            if isinstance(event, GenerationEnded):
                done.set()

        engine = create_engine(
            SimulatedConfig(
                plan_text=lambda _: PLAN,
                step_time=StepTimeModel(decode_s=1.0, batch_factor=0.0, prefill_token_s=0.0),
            )
        )
        assert isinstance(engine, SimulatedEngine)
        await engine.start(on_event)
        engine.submit(request(arrival_s=loop.time()))
        await done.wait()
        await engine.close()
        return log

    first, second = run_virtual(main()), run_virtual(main())
    assert first == second
    seconds = [at_s - first[0][0] for at_s, _ in first]
    # Tokens: takeoff ; | goto ( cat_ 3 ) ; | repeat ( 2 ) { take_picture ; } ; | land ; | end
    assert seconds == pytest.approx([0.0, 6.0, 15.0, 17.0, 18.0])
    assert [kind for _, kind in first] == 4 * ['SegmentGenerated'] + ['GenerationEnded']
