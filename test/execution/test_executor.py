"""Segments on one driver: their order, their times, and what is told of them."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from support.robots.executor_bench import Bench, on_bench

from timely_llm_ros.execution import SegmentCode, SegmentProgress
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.statements import Call
from timely_llm_ros.testing import EXACT_SCENE, EXACT_SKILLS

# Statements


def test_calls_are_timed_one_by_one_and_loops_are_unrolled() -> None:
    async def body(bench: Bench) -> None:
        outcome = await bench.run('act(100);repeat(2){act(200);act(300);};')
        assert outcome.succeeded
        assert outcome.calls == ('act(100)', *('act(200)', 'act(300)') * 2)
        assert outcome.call_durations_s == pytest.approx((0.1, 0.2, 0.3, 0.2, 0.3))
        assert outcome.execution_s == pytest.approx(1.1)
        assert outcome.value is None

    on_bench(body)


@pytest.mark.parametrize(
    ('condition', 'value', 'expected'),
    [('', True, 'act(1)'), ('', False, 'act(2)'), ('!', True, 'act(2)'), ('!', False, 'act(1)')],
)
def test_conditionals_are_decided_on_the_robot(condition: str, value: bool, expected: str) -> None:
    async def body(bench: Bench) -> None:
        bench.driver.value = value
        outcome = await bench.run(f'if({condition}look(cup_1)){{act(1);}}else{{act(2);}};act(3);')
        assert outcome.calls == ('look(cup_1)', expected, 'act(3)')
        assert outcome.value is None

    on_bench(body)


def test_a_conditional_without_else_does_nothing_else() -> None:
    async def body(bench: Bench) -> None:
        bench.driver.value = False
        outcome = await bench.run('if(look(cup_1)){act(1);};')
        assert outcome.calls == ('look(cup_1)',)
        assert outcome.succeeded

    on_bench(body)


@pytest.mark.parametrize('value', [None, 'yes'])
def test_a_condition_that_is_no_bool_fails(value: str | None) -> None:
    async def body(bench: Bench) -> None:
        bench.driver.value = value
        outcome = await bench.run('if(look(cup_1)){act(1);};')
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert f'returned {value!r}: expected true or false' in outcome.ending.message

    assert on_bench(body).notes[2][1] == 'safe'


@pytest.mark.parametrize(
    ('value', 'expected'), [(True, 'true'), (False, 'false'), ('two cups', 'two cups')]
)
def test_an_awaited_value_comes_back_as_text(value: str | bool, expected: str) -> None:
    async def body(bench: Bench) -> None:
        bench.driver.value = value
        outcome = await bench.run('act(1);look(cup_1);', awaits_value=True)
        assert outcome.value == expected

    on_bench(body)


# Progress


def test_progress_tells_the_start_and_what_is_left() -> None:
    async def body(bench: Bench) -> None:
        await asyncio.sleep(1.0)
        await bench.run('act(200);if(look(cup_1)){act(2000);}else{act(1000);};act(3000);')

    seen = [
        (round(at_s, 6), p.current_call, round(p.elapsed_s, 6), round(p.remaining_s, 6))
        for at_s, p in on_bench(body, progress_period_s=None).progress
    ]
    assert seen == [
        (1.0, 'act(200)', 0.0, 0.2 + 0.5 + 1.5 + 3.0),
        (1.2, 'look(cup_1)', 0.2, 0.5 + 1.5 + 3.0),
        (1.7, 'act(2000)', 0.7, 2.0 + 3.0),
        (3.7, 'act(3000)', 2.7, 3.0),
    ]


def test_progress_is_repeated_in_long_calls_and_sparse_in_short_ones() -> None:
    async def body(bench: Bench) -> None:
        await bench.run('repeat(10){act(10);};act(2500);')

    bench = on_bench(body, progress_period_s=1.0)
    times_s = [at_s for at_s, _ in bench.progress]
    assert all(later - earlier > 0.0999 for earlier, later in itertools.pairwise(times_s))
    assert times_s == pytest.approx([0.0, 0.1, 1.1, 2.1])


def test_a_progress_callback_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench) -> None:
        def raises(_progress: SegmentProgress) -> None:
            raise ValueError('observer')

        segment = Segment(0, '', parse('act(10);', EXACT_SKILLS, EXACT_SCENE), 1)
        assert (await bench.executor.execute('p', segment, EXACT_SCENE, raises)).succeeded

    on_bench(body)
    assert 'observer' in caplog.text


# Order


def test_segments_run_in_index_order_however_they_come() -> None:
    async def body(bench: Bench) -> None:
        tasks = [bench.run(f'act({index + 1});', index) for index in (2, 0, 1)]
        outcomes = [await task for task in tasks]
        assert all(outcome.succeeded for outcome in outcomes)

    assert on_bench(body).calls == ['act(1)', 'act(2)', 'act(3)']


def test_an_index_that_came_already_is_refused() -> None:
    async def body(bench: Bench) -> None:
        first, again = bench.run('act(10);'), bench.run('act(10);')
        assert (await again).ending.code == SegmentCode.INVALID_SEGMENT
        assert (await first).succeeded
        assert (await bench.run('act(10);')).ending.code == SegmentCode.INVALID_SEGMENT
        assert (await bench.run('act(20);', 1)).succeeded

    assert on_bench(body).calls == ['act(10)', 'act(20)']


def test_a_skill_that_the_robot_does_not_have_is_refused() -> None:
    async def body(bench: Bench) -> None:
        segment = Segment(0, 'fly;', (Call('fly'),), 1)
        outcome = await bench.executor.execute('p', segment, EXACT_SCENE, lambda _: None)
        assert outcome.ending.code == SegmentCode.INVALID_SEGMENT
        assert "skill 'fly'" in outcome.ending.message

    assert on_bench(body).calls == []


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        (
            'repeat(10){repeat(10){repeat(10){act(100);};};};',
            'segment of 1000 calls: expected at m',
        ),
        ('repeat(10){repeat(10){act(100000);};};', 'segment that takes 10000 s: expected at most'),
    ],
)
def test_a_segment_that_asks_for_too_much_is_refused(text: str, problem: str) -> None:
    async def body(bench: Bench) -> None:
        running = bench.run('act(5000);')
        await asyncio.sleep(1.0)
        for plan, index in (('p', 1), ('q', 0)):
            outcome = await bench.run(text, index, plan)
            assert outcome.ending.code == SegmentCode.INVALID_SEGMENT
            assert problem in outcome.ending.message
        # It took nothing over, and its place is free.
        assert (await running).succeeded
        assert (await bench.run('act(100);', 1)).succeeded

    assert on_bench(body).calls == ['act(5000)', 'act(100)']


def test_a_plan_that_asks_for_too_much_is_refused_segment_by_segment() -> None:
    async def body(bench: Bench) -> None:
        ten = 'repeat(10){repeat(10){act(10);};};'
        outcomes = [await bench.run(ten, index) for index in range(11)]
        assert all(outcome.succeeded for outcome in outcomes[:10])
        assert outcomes[10].ending.code == SegmentCode.INVALID_SEGMENT
        assert 'plan of 1100 calls: expected at most 1024' in outcomes[10].ending.message
        assert (await bench.run(ten, plan='q')).succeeded

    on_bench(body)


def test_a_robot_has_only_so_many_segments_waiting() -> None:
    async def body(bench: Bench) -> None:
        tasks = [bench.run('act(10);', index) for index in range(200)]
        await asyncio.sleep(0)
        assert bench.executor.state.queued <= 64
        outcomes = [await task for task in tasks]
        refused = [o.index for o in outcomes if o.ending.code == SegmentCode.INVALID_SEGMENT]
        assert refused == list(range(64, 200))
        assert 'segment 64: 64 wait before it: expected less than 64, queued_segments of' in (
            outcomes[64].ending.message
        )
        # Another plan takes over from a queue that is full.
        for index in range(70):
            bench.run('act(10000);', index, 'q')
        assert (await bench.run('act(10);', plan='r')).succeeded

    assert on_bench(body).calls[:64] == ['act(10)'] * 64


def test_another_plan_supersedes_the_one_in_hand() -> None:
    async def body(bench: Bench) -> None:
        old = [bench.run('act(5000);', index) for index in range(3)]
        await asyncio.sleep(1.0)
        new = bench.run('act(100);', 0, 'q')
        assert [(await task).ending.code for task in old] == [SegmentCode.SUPERSEDED] * 3
        assert (await new).succeeded
        # A segment of the old plan that was on its way does not supersede the new one.
        assert (await bench.run('act(300);', 3)).ending.code == SegmentCode.CANCELED
        assert (await bench.run('act(200);', 1, 'q')).succeeded

    assert on_bench(body).notes[:4] == [
        (0.0, 'start', 'act(5000)'), (1.0, 'safe', 'halt'),
        (1.0, 'start', 'act(100)'), (1.1, 'end', 'act(100)'),
    ]  # fmt: skip


def test_after_a_failure_nothing_of_the_plan_runs() -> None:
    async def body(bench: Bench) -> None:
        bench.driver.fails_at = 'act(200)'
        tasks = [bench.run(f'act({100 * (index + 1)});', index) for index in range(4)]
        outcomes = [await task for task in tasks]
        assert [outcome.ending.code for outcome in outcomes] == [
            SegmentCode.NONE, SegmentCode.SKILL_FAILED, SegmentCode.CANCELED, SegmentCode.CANCELED,
        ]  # fmt: skip
        assert 'motor stop' in outcomes[1].ending.message
        assert 'motor stop' in outcomes[2].ending.message
        assert (await bench.run('act(500);', 4)).ending.code == SegmentCode.CANCELED

    assert on_bench(body).notes[:4] == [
        (0.0, 'start', 'act(100)'), (0.1, 'end', 'act(100)'),
        (0.1, 'start', 'act(200)'), (0.1, 'safe', 'halt'),
    ]  # fmt: skip


# State


def test_the_state_names_plan_segment_and_call() -> None:
    async def body(bench: Bench) -> None:
        assert bench.executor.state.phase == 'idle'
        bench.run('act(1000);act(3000);')
        bench.run('act(2000);', 1)
        await asyncio.sleep(1.5)
        state = bench.executor.state
        assert (state.phase, state.plan_id, state.index) == ('executing', 'p', 0)
        assert (state.call, state.queued) == ('act(3000)', 1)
        assert state.elapsed_s == pytest.approx(1.5)
        assert state.remaining_s == pytest.approx(2.5 + 2.0)

    on_bench(body)


def test_a_plan_whose_end_is_announced_leaves_the_robot_idle() -> None:
    async def body(bench: Bench) -> None:
        assert (await bench.run('act(1000);')).succeeded
        assert bench.executor.state.phase == 'waiting'
        bench.executor.end_plan('another')
        assert bench.executor.state.phase == 'waiting'
        bench.executor.end_plan('p')
        assert (bench.executor.state.phase, bench.executor.state.plan_id) == ('idle', '')
        late = await bench.run('act(1000);', 1)
        assert late.ending.code == SegmentCode.CANCELED
        await asyncio.sleep(60.0)

    assert on_bench(body, idle_limit_s=5.0).calls == ['act(1000)']


def test_the_end_of_a_plan_that_still_runs_changes_nothing() -> None:
    async def body(bench: Bench) -> None:
        running = bench.run('act(1000);')
        await asyncio.sleep(0.5)
        bench.executor.end_plan('p')
        assert bench.executor.state.phase == 'executing'
        assert (await running).succeeded

    on_bench(body)
