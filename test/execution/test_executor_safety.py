"""Limits, losses, stops and the end of an executor: the robot gets its safe action."""

from __future__ import annotations

import asyncio

import pytest
from support.robots.executor_bench import Bench, on_bench

from timely_llm_ros.errors import Ending, RobotUnavailableError
from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.skills.statements import Call
from timely_llm_ros.testing import EXACT_SCENE, Note
from timely_llm_ros.virtual_time import run_virtual


@pytest.mark.parametrize(('call_ms', 'limit_s'), [(1000, 6.0), (10_000, 20.0)])
def test_a_call_that_hangs_ends_at_its_limit(call_ms: int, limit_s: float) -> None:
    async def body(bench: Bench) -> None:
        bench.driver.hangs_at = f'act({call_ms})'
        outcome = await bench.run(f'act({call_ms});')
        assert outcome.ending.code == SegmentCode.DRIVER_TIMEOUT
        assert f'at most {limit_s:.1f} s' in outcome.ending.message
        assert outcome.execution_s == pytest.approx(limit_s)
        assert outcome.call_durations_s == pytest.approx((limit_s,))

    assert on_bench(body).notes[1] == (limit_s, 'safe', 'halt')


def test_a_driver_that_ignores_its_cancel_is_made_safe_all_the_same() -> None:
    async def body(bench: Bench) -> None:
        async def stubborn(_call: Call, _scene: object) -> None:
            for _ in range(100):
                try:
                    await asyncio.sleep(1.0)
                except asyncio.CancelledError:
                    continue

        bench.driver.execute = stubborn  # type: ignore[method-assign,assignment]
        outcome = await bench.run('act(1000);')
        assert outcome.ending.code == SegmentCode.DRIVER_TIMEOUT

    assert on_bench(body).notes[0] == (8.0, 'safe', 'halt')


def test_a_driver_with_a_fault_fails_the_skill(caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench) -> None:
        async def faulty(_call: Call, _scene: object) -> None:
            raise ZeroDivisionError('oops')

        bench.driver.execute = faulty  # type: ignore[method-assign,assignment]
        outcome = await bench.run('act(1000);')
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert 'oops' in outcome.ending.message

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
        assert (await queued).ending.code == SegmentCode.CANCELED
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
        assert (await tasks[3]).ending.code == SegmentCode.CANCELED
        assert (await bench.run('act(1);', 4)).ending.code == SegmentCode.CANCELED

    assert on_bench(body).calls == ['act(1000)', 'act(1000)']


def test_stop_ends_everything_with_the_given_code() -> None:
    async def body(bench: Bench) -> None:
        tasks = [bench.run('act(1000);', index) for index in range(2)]
        await asyncio.sleep(0.5)
        await bench.executor.stop(SegmentCode.PLANNER_LOST, 'silent for 2 s')
        for task in tasks:
            outcome = await task
            assert outcome.ending == Ending(SegmentCode.PLANNER_LOST, 'silent for 2 s')
        assert bench.notes[-1] == (0.5, 'safe', 'halt')
        await bench.executor.stop()
        assert [note[1] for note in bench.notes].count('safe') == 2

    on_bench(body)


def test_a_robot_that_waits_too_long_is_made_safe_and_may_go_on() -> None:
    async def body(bench: Bench) -> None:
        await bench.run('act(1000);')
        before = bench.executor.state.phase
        await asyncio.sleep(4.9)
        assert len(bench.notes) == 2
        await asyncio.sleep(0.2)
        assert bench.notes[2:] == [(6.0, 'safe', 'halt')]
        assert (before, bench.executor.state.phase) == ('waiting', 'idle')
        assert (await bench.run('act(1000);', 1)).succeeded

    on_bench(body, idle_limit_s=5.0)


def test_a_gap_that_is_never_filled_ends() -> None:
    async def body(bench: Bench) -> None:
        outcome = await bench.run('act(1000);', 2)
        assert outcome.ending.code == SegmentCode.INVALID_SEGMENT
        assert 'segment 0 did not come within 5 s: expected it before 2' in outcome.ending.message
        assert asyncio.get_running_loop().time() == pytest.approx(5.0)

    assert on_bench(body, idle_limit_s=5.0).calls == []


def test_a_robot_that_is_lost_refuses_until_it_is_back() -> None:
    async def body(bench: Bench) -> None:
        bench.driver.gone = True
        assert (await bench.run('act(1);')).ending.code == SegmentCode.ROBOT_LOST
        assert not bench.executor.connected
        assert bench.executor.state.phase == 'lost'
        assert (await bench.run('act(1);', 0, 'q')).ending.code == SegmentCode.ROBOT_LOST
        bench.driver.gone = False
        await bench.executor.start()
        assert (await bench.run('act(1);', 0, 'r')).succeeded

    on_bench(body)


def test_a_driver_that_reports_the_loss_counts_as_lost_though_it_takes_the_safe_action() -> None:
    async def body(bench: Bench) -> None:
        async def loses(_call: Call, _scene: object) -> None:
            raise RobotUnavailableError('no answer')

        bench.driver.execute = loses  # type: ignore[method-assign,assignment]
        assert (await bench.run('act(1);')).ending.code == SegmentCode.ROBOT_LOST
        assert not bench.executor.connected

    assert on_bench(body).notes == [(0.0, 'safe', 'halt')]


def test_a_stop_at_the_very_end_of_a_call_keeps_the_next_from_starting() -> None:
    async def body(bench: Bench) -> None:
        stops = []
        bench.driver.on_end = lambda: stops.append(
            asyncio.get_running_loop().create_task(bench.executor.stop())
        )
        outcome = await bench.run('act(10);act(20);')
        assert (outcome.ending.code, outcome.calls) == (SegmentCode.CANCELED, ('act(10)',))

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
        assert (await task).ending.code == SegmentCode.SHUTDOWN
        assert (await bench.run('act(1);', 0, 'q')).ending.code == SegmentCode.ROBOT_LOST
        assert [note[1] for note in bench.notes] == ['start', 'safe']
        with pytest.raises(RobotUnavailableError):
            await bench.driver.execute(Call('act'), EXACT_SCENE)

    on_bench(body)


def test_a_loop_that_ends_in_the_middle_still_makes_the_robot_safe() -> None:
    journal: list[Note] = []

    async def main() -> None:
        bench = Bench()
        bench.journal = journal
        await bench.start()
        bench.run('act(5000);')
        await asyncio.sleep(1.0)

    run_virtual(main())
    assert [note.event for note in journal] == ['start', 'safe']


def test_a_plan_that_comes_while_the_executor_closes_never_starts() -> None:
    async def body(bench: Bench) -> None:
        bench.driver.safe_s = 0.5
        running = bench.run('act(5000);')
        await asyncio.sleep(1.0)
        closing = asyncio.get_running_loop().create_task(bench.executor.close())
        await asyncio.sleep(0.1)
        late = await bench.run('act(5000);', 0, 'q')
        assert late.ending == Ending(SegmentCode.ROBOT_LOST, 'the executor goes down')
        assert await closing
        assert (await running).ending.code == SegmentCode.SHUTDOWN

    assert on_bench(body).notes == [(0.0, 'start', 'act(5000)'), (1.5, 'safe', 'halt')]


def test_a_stop_after_the_close_is_confirmed_and_told_to_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(bench: Bench) -> None:
        assert await bench.executor.close()
        assert await bench.executor.stop()

    assert on_bench(body).notes == [(0.0, 'safe', 'halt')]
    assert not caplog.records


def test_stops_during_the_close_find_the_driver_open_or_have_nothing_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(bench: Bench) -> None:
        bench.driver.safe_s = 0.25
        bench.run('act(5000);')
        await asyncio.sleep(1.0)
        stops = [bench.executor.stop(), bench.executor.close(), bench.executor.stop()]
        assert await asyncio.gather(*stops) == [True, True, True]

    assert on_bench(body).notes[:2] == [(0.0, 'start', 'act(5000)'), (1.25, 'safe', 'halt')]
    assert not caplog.records


def test_a_stop_at_the_very_end_of_a_segment_still_makes_the_robot_safe() -> None:
    async def body(bench: Bench) -> None:
        stops: list[asyncio.Task[bool]] = []
        bench.driver.on_end = lambda: stops.append(
            asyncio.get_running_loop().create_task(bench.executor.stop())
        )
        assert (await bench.run('act(10);')).succeeded
        assert await stops[0]
        assert bench.notes[-1][1] == 'safe'

    on_bench(body)


@pytest.mark.parametrize('fault', ['gone', 'hangs', 'raises'])
def test_a_safe_action_that_was_not_issued_is_issued_once_the_robot_is_back(fault: str) -> None:
    async def body(bench: Bench) -> None:
        async def hangs() -> None:
            await asyncio.sleep(60.0)

        async def fails() -> None:
            raise ZeroDivisionError('oops')

        works = bench.driver.safe
        bench.driver.safe = {'gone': works, 'hangs': hangs, 'raises': fails}[fault]  # type: ignore[method-assign]
        running = bench.run('act(5000);')
        await asyncio.sleep(1.0)
        bench.driver.gone = fault == 'gone'
        # What takes over meets a robot that may still move.
        late = bench.run('act(10);', 0, 'q')
        assert (await running).ending.code == SegmentCode.SUPERSEDED
        assert (await late).ending.code == SegmentCode.ROBOT_LOST
        assert bench.executor.state.phase == 'lost'
        assert not await bench.executor.stop()
        with pytest.raises(RobotUnavailableError):
            await bench.executor.start()
        bench.driver.gone, bench.driver.safe = False, works  # type: ignore[method-assign]
        await bench.executor.start()
        assert [note[1] for note in bench.notes] == ['start', 'safe']
        assert (await bench.run('act(10);', 0, 'r')).succeeded

    on_bench(body)


def test_closing_says_whether_the_robot_is_safe() -> None:
    async def main() -> list[bool]:
        safe, moving = Bench(), Bench()
        for bench in (safe, moving):
            await bench.start()
            bench.run('act(5000);')
        await asyncio.sleep(1.0)
        moving.driver.gone = True
        answers = [await bench.executor.close() for bench in (safe, moving)]
        with pytest.raises(RobotUnavailableError, match='go down'):
            await safe.executor.start()
        return answers

    assert run_virtual(main()) == [True, False]


def test_a_robot_is_made_safe_before_it_takes_anything() -> None:
    async def main() -> list[str]:
        bench = Bench()
        bench.driver.gone = True
        with pytest.raises(RobotUnavailableError, match='safe action'):
            await bench.executor.start()
        assert (await bench.run('act(1);')).ending.code == SegmentCode.ROBOT_LOST
        bench.driver.gone = False
        await bench.executor.start()
        # Whoever had it before may have left it moving; whoever has it now finds it idle.
        assert [note.event for note in bench.journal] == ['safe']
        assert (await bench.run('act(1);', 0, 'q')).succeeded
        return [note.event for note in bench.journal]

    assert run_virtual(main()) == ['safe', 'start', 'end']


@pytest.mark.parametrize('lost', [2, 3])
def test_a_robot_that_has_just_been_found_is_asked_three_times(lost: int) -> None:
    async def main() -> list[str]:
        bench = Bench()
        takes = bench.driver.safe
        asked = 0

        async def deaf_at_first() -> None:
            nonlocal asked
            asked += 1
            if asked <= lost:
                raise RobotUnavailableError('no answer')
            await takes()

        bench.driver.safe = deaf_at_first  # type: ignore[method-assign]
        if lost < 3:
            await bench.executor.start()
        else:
            with pytest.raises(RobotUnavailableError, match='safe action'):
                await bench.executor.start()
        assert bench.executor.connected == (lost < 3)
        assert asked == 3
        return [note.event for note in bench.journal]

    assert run_virtual(main()) == ['safe'] * (lost < 3)


def test_an_executor_that_goes_down_asks_no_robot_again() -> None:
    async def main() -> None:
        bench = Bench()
        asked = 0

        async def deaf() -> None:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0.5)
            raise RobotUnavailableError('no answer')

        bench.driver.safe = deaf  # type: ignore[method-assign]
        start = asyncio.get_running_loop().create_task(bench.executor.start())
        await asyncio.sleep(0.1)
        await bench.executor.close()
        with pytest.raises(RobotUnavailableError):
            await start
        assert asked == 1

    run_virtual(main())
