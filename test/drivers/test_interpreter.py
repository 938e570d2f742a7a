"""Segments on one driver: their order, their times and limits, and the safe action."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from planner_fakes import SCENE, SKILLS, Note, RecordingDriver
from virtual_time import run_virtual

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SegmentCode, SegmentExecutor, SegmentOutcome, SegmentProgress
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.skills.language import Call, parse
from timely_llm_ros.skills.segmenter import Segment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Bench:
    """One executor with its driver; ``run`` starts a segment."""

    def __init__(self, **options: Any) -> None:
        self.journal: list[Note] = []
        self.progress: list[tuple[float, SegmentProgress]] = []
        self.driver = RecordingDriver(SKILLS, 'r1', self.journal, [])
        self.executor = SegmentExecutor(self.driver, SKILLS, LoopClock(), **options)

    def run(
        self, text: str, index: int = 0, plan: str = 'p', *, awaits_value: bool = False
    ) -> asyncio.Task[SegmentOutcome]:
        statements = parse(text, SKILLS, SCENE)
        segment = Segment(index, text, statements, 1, awaits_value=awaits_value)
        loop = asyncio.get_running_loop()
        return loop.create_task(self.executor.execute(plan, segment, SCENE, self._note))

    def _note(self, progress: SegmentProgress) -> None:
        self.progress.append((asyncio.get_running_loop().time(), progress))

    @property
    def notes(self) -> list[tuple[float, str, str]]:
        return [(round(note.at_s, 6), note.event, note.call) for note in self.journal]

    @property
    def calls(self) -> list[str]:
        return [note.call for note in self.journal if note.event == 'start']


def on_bench(body: Callable[[Bench], Awaitable[None]], **options: Any) -> Bench:
    async def main() -> Bench:
        bench = Bench(**options)
        await bench.executor.start()
        await body(bench)
        await bench.executor.close()
        return bench

    return run_virtual(main())


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
        assert outcome.error_code == SegmentCode.SKILL_FAILED
        assert f'returned {value!r}: expected true or false' in outcome.error

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
        def raises(progress: SegmentProgress) -> None:
            raise ValueError('observer')

        segment = Segment(0, '', parse('act(10);', SKILLS, SCENE), 1)
        assert (await bench.executor.execute('p', segment, SCENE, raises)).succeeded

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
        assert (await again).error_code == SegmentCode.INVALID_SEGMENT
        assert (await first).succeeded
        assert (await bench.run('act(10);')).error_code == SegmentCode.INVALID_SEGMENT
        assert (await bench.run('act(20);', 1)).succeeded

    assert on_bench(body).calls == ['act(10)', 'act(20)']


def test_a_skill_that_the_robot_does_not_have_is_refused() -> None:
    async def body(bench: Bench) -> None:
        segment = Segment(0, 'fly;', (Call('fly'),), 1)
        outcome = await bench.executor.execute('p', segment, SCENE, lambda progress: None)
        assert outcome.error_code == SegmentCode.INVALID_SEGMENT
        assert "skill 'fly'" in outcome.error

    assert on_bench(body).calls == []


def test_another_plan_supersedes_the_one_in_hand() -> None:
    async def body(bench: Bench) -> None:
        old = [bench.run('act(5000);', index) for index in range(3)]
        await asyncio.sleep(1.0)
        new = bench.run('act(100);', 0, 'q')
        assert [(await task).error_code for task in old] == [SegmentCode.SUPERSEDED] * 3
        assert (await new).succeeded
        # A segment of the old plan that was on its way does not supersede the new one.
        assert (await bench.run('act(300);', 3)).error_code == SegmentCode.CANCELED
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
        assert [outcome.error_code for outcome in outcomes] == [
            SegmentCode.NONE, SegmentCode.SKILL_FAILED, SegmentCode.CANCELED, SegmentCode.CANCELED,
        ]  # fmt: skip
        assert 'motor stop' in outcomes[1].error
        assert 'motor stop' in outcomes[2].error
        assert (await bench.run('act(500);', 4)).error_code == SegmentCode.CANCELED

    assert on_bench(body).notes[:4] == [
        (0.0, 'start', 'act(100)'), (0.1, 'end', 'act(100)'),
        (0.1, 'start', 'act(200)'), (0.1, 'safe', 'halt'),
    ]  # fmt: skip


# Limits and safety


@pytest.mark.parametrize(('call_ms', 'limit_s'), [(1000, 6.0), (10_000, 20.0)])
def test_a_call_that_hangs_ends_at_its_limit(call_ms: int, limit_s: float) -> None:
    async def body(bench: Bench) -> None:
        bench.driver.hangs_at = f'act({call_ms})'
        outcome = await bench.run(f'act({call_ms});')
        assert outcome.error_code == SegmentCode.DRIVER_TIMEOUT
        assert f'at most {limit_s:.1f} s' in outcome.error
        assert outcome.execution_s == pytest.approx(limit_s)
        assert outcome.call_durations_s == pytest.approx((limit_s,))

    assert on_bench(body).notes[1] == (limit_s, 'safe', 'halt')


def test_a_driver_that_ignores_its_cancel_is_made_safe_all_the_same() -> None:
    async def body(bench: Bench) -> None:
        async def stubborn(call: Call, scene: object) -> None:
            for _ in range(100):
                try:
                    await asyncio.sleep(1.0)
                except asyncio.CancelledError:
                    continue

        bench.driver.execute = stubborn  # type: ignore[method-assign]
        outcome = await bench.run('act(1000);')
        assert outcome.error_code == SegmentCode.DRIVER_TIMEOUT

    assert on_bench(body).notes[0] == (8.0, 'safe', 'halt')


def test_a_driver_with_a_fault_fails_the_skill(caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench) -> None:
        async def faulty(call: Call, scene: object) -> None:
            raise ZeroDivisionError('oops')

        bench.driver.execute = faulty  # type: ignore[method-assign]
        outcome = await bench.run('act(1000);')
        assert outcome.error_code == SegmentCode.SKILL_FAILED
        assert 'oops' in outcome.error

    assert on_bench(body).notes[0] == (0.0, 'safe', 'halt')
    assert 'oops' in caplog.text


def test_cancelling_the_running_segment_makes_the_robot_safe_before_anybody_knows() -> None:
    async def body(bench: Bench) -> None:
        bench.driver.safe_s = 0.25
        running, queued = bench.run('act(5000);'), bench.run('act(10);', 1)
        await asyncio.sleep(1.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert bench.notes[-1] == (1.25, 'safe', 'halt')
        assert (await queued).error_code == SegmentCode.CANCELED
        assert bench.executor.state.phase == 'safe'

    assert on_bench(body).calls == ['act(5000)']


def test_cancelling_a_queued_segment_lets_the_ones_before_it_finish() -> None:
    async def body(bench: Bench) -> None:
        tasks = [bench.run('act(1000);', index) for index in range(4)]
        await asyncio.sleep(0.5)
        tasks[2].cancel()
        assert (await tasks[0]).succeeded
        assert (await tasks[1]).succeeded
        with pytest.raises(asyncio.CancelledError):
            await tasks[2]
        assert (await tasks[3]).error_code == SegmentCode.CANCELED
        assert (await bench.run('act(1);', 4)).error_code == SegmentCode.CANCELED

    assert on_bench(body).calls == ['act(1000)', 'act(1000)']


def test_stop_ends_everything_with_the_given_code() -> None:
    async def body(bench: Bench) -> None:
        tasks = [bench.run('act(1000);', index) for index in range(2)]
        await asyncio.sleep(0.5)
        await bench.executor.stop(SegmentCode.PLANNER_LOST, 'silent for 2 s')
        for task in tasks:
            outcome = await task
            assert (outcome.error_code, outcome.error) == (5, 'silent for 2 s')
        assert bench.notes[-1] == (0.5, 'safe', 'halt')
        await bench.executor.stop()
        assert [note[1] for note in bench.notes].count('safe') == 2

    on_bench(body)


def test_a_robot_that_waits_too_long_is_made_safe_and_may_go_on() -> None:
    async def body(bench: Bench) -> None:
        await bench.run('act(1000);')
        assert bench.executor.state.phase == 'waiting'
        await asyncio.sleep(4.9)
        assert len(bench.notes) == 2
        await asyncio.sleep(0.2)
        assert bench.notes[2:] == [(6.0, 'safe', 'halt')]
        assert bench.executor.state.phase == 'idle'
        assert (await bench.run('act(1000);', 1)).succeeded

    on_bench(body, idle_limit_s=5.0)


def test_a_gap_that_is_never_filled_ends() -> None:
    async def body(bench: Bench) -> None:
        outcome = await bench.run('act(1000);', 2)
        assert outcome.error_code == SegmentCode.INVALID_SEGMENT
        assert 'segment 0 did not come within 5 s: expected it before 2' in outcome.error
        assert asyncio.get_running_loop().time() == pytest.approx(5.0)

    assert on_bench(body, idle_limit_s=5.0).calls == []


def test_a_robot_that_is_lost_refuses_until_it_is_back() -> None:
    async def body(bench: Bench) -> None:
        bench.driver.gone = True
        assert (await bench.run('act(1);')).error_code == SegmentCode.ROBOT_LOST
        assert not bench.executor.connected
        assert bench.executor.state.phase == 'lost'
        assert (await bench.run('act(1);', 0, 'q')).error_code == SegmentCode.ROBOT_LOST
        bench.driver.gone = False
        await bench.executor.start()
        assert (await bench.run('act(1);', 0, 'r')).succeeded

    on_bench(body)


def test_a_driver_that_reports_the_loss_counts_as_lost_though_it_takes_the_safe_action() -> None:
    async def body(bench: Bench) -> None:
        async def loses(call: Call, scene: object) -> None:
            raise RobotUnavailableError('no answer')

        bench.driver.execute = loses  # type: ignore[method-assign]
        assert (await bench.run('act(1);')).error_code == SegmentCode.ROBOT_LOST
        assert not bench.executor.connected

    assert on_bench(body).notes == [(0.0, 'safe', 'halt')]


def test_a_stop_at_the_very_end_of_a_call_keeps_the_next_from_starting() -> None:
    async def body(bench: Bench) -> None:
        stops = []
        bench.driver.on_end = lambda: stops.append(
            asyncio.get_running_loop().create_task(bench.executor.stop())
        )
        outcome = await bench.run('act(10);act(20);')
        assert (outcome.error_code, outcome.calls) == (SegmentCode.CANCELED, ('act(10)',))

    assert on_bench(body).calls == ['act(10)']


def test_nothing_starts_while_the_safe_action_is_issued() -> None:
    async def body(bench: Bench) -> None:
        bench.driver.safe_s = 0.5
        stop = asyncio.get_running_loop().create_task(bench.executor.stop())
        await asyncio.sleep(0.1)
        assert (await bench.run('act(10);')).succeeded
        await stop

    assert on_bench(body).notes[:2] == [(0.5, 'safe', 'halt'), (0.5, 'start', 'act(10)')]


def test_closing_makes_safe_and_refuses() -> None:
    async def body(bench: Bench) -> None:
        task = bench.run('act(1000);')
        await asyncio.sleep(0.5)
        await bench.executor.close()
        await bench.executor.close()
        assert (await task).error_code == SegmentCode.SHUTDOWN
        assert (await bench.run('act(1);', 0, 'q')).error_code == SegmentCode.ROBOT_LOST
        assert [note[1] for note in bench.notes] == ['start', 'safe']
        with pytest.raises(RobotUnavailableError):
            await bench.driver.execute(Call('act'), SCENE)

    on_bench(body)


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


def test_a_loop_that_ends_in_the_middle_still_makes_the_robot_safe() -> None:
    journal: list[Note] = []

    async def main() -> None:
        bench = Bench()
        bench.driver.journal = journal
        await bench.executor.start()
        bench.run('act(5000);')
        await asyncio.sleep(1.0)

    run_virtual(main())
    assert [note.event for note in journal] == ['start', 'safe']


def test_a_plan_whose_end_is_announced_leaves_the_robot_idle() -> None:
    async def body(bench: Bench) -> None:
        assert (await bench.run('act(1000);')).succeeded
        assert bench.executor.state.phase == 'waiting'
        bench.executor.end_plan('another')
        assert bench.executor.state.phase == 'waiting'
        bench.executor.end_plan('p')
        assert (bench.executor.state.phase, bench.executor.state.plan_id) == ('idle', '')
        late = await bench.run('act(1000);', 1)
        assert late.error_code == SegmentCode.CANCELED
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
