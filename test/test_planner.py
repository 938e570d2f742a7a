"""The life of one task, on virtual time: what the words of its result mean, and all its ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from planner_fakes import Script, ScriptedEngine, acts, make_fleet
from virtual_time import run_virtual

from timely_llm_ros.errors import (
    InvalidTaskError,
    RobotUnavailableError,
    ShutdownError,
    TaskRefusedError,
)
from timely_llm_ros.planning import (
    PhaseChanged,
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
    TaskPhase,
    TaskStatus,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from planner_fakes import Fleet

    from timely_llm_ros.planning import Task, TaskFeedback


def in_fleet(
    body: Callable[[Fleet], Awaitable[None]],
    script: Callable[..., Script] | None = None,
    **options: object,
) -> Fleet:
    """Run ``body`` with a fleet on virtual time, close the fleet, return what is left of it."""

    async def main() -> Fleet:
        fleet = await make_fleet(script, **options)  # type: ignore[arg-type]
        try:
            await body(fleet)
        finally:
            await fleet.close()
        return fleet

    return run_virtual(main())


def engine_of(fleet: Fleet) -> ScriptedEngine:
    assert isinstance(fleet.engine, ScriptedEngine)
    return fleet.engine


def test_a_plan_runs_in_order_and_its_times_are_those_of_the_table_of_words() -> None:
    async def body(fleet: Fleet) -> None:
        await asyncio.sleep(5.0)
        result = await fleet.planner.submit(fleet.task('t', instruction='2 1 3')).result()
        assert result.status is TaskStatus.SUCCEEDED
        assert result.error == ''
        assert result.response_s == pytest.approx(0.108)
        # Segments 1 and 2 are there long before the robot needs them.
        assert result.waits_s == pytest.approx((0.108, 0.0, 0.0))
        assert result.waiting_s == pytest.approx(0.108)
        assert result.execution_s == pytest.approx(6.0)
        assert result.completion_s == pytest.approx(6.108)
        assert (result.segments, result.tokens, result.utility) == (3, 20, 1.0)

    fleet = in_fleet(body, latency_s=0.008)
    assert fleet.notes()[:6] == [
        ('start', 'act(2000)'), ('end', 'act(2000)'), ('start', 'act(1000)'),
        ('end', 'act(1000)'), ('start', 'act(3000)'), ('end', 'act(3000)'),
    ]  # fmt: skip
    kinds = [type(event) for event in fleet.events_of('t')]
    assert kinds[0] is TaskAccepted
    assert kinds[-1] is TaskEnded
    assert [kinds.count(k) for k in (SegmentReady, SegmentStarted, SegmentEnded)] == [3, 3, 3]
    times = [event.at_s for event in fleet.events_of('t')]
    assert times == sorted(times)


def test_the_robot_idle_time_follows_its_progress() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.planner.submit(fleet.task('t', instruction='2 4')).result()

    told = engine_of(in_fleet(body)).idle_at_s['t']
    # Generated at 0.1 s, starts at once, 2 s long; the end of the plan comes with segment 1.
    assert told[0] == pytest.approx(2.1)
    assert {round(idle_at_s, 6) for idle_at_s in told} <= {2.1, 6.1}
    assert told[-1] == pytest.approx(6.1)


def test_an_idle_robot_is_due_since_its_last_segment_ended() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.planner.submit(fleet.task('t')).result()

    told = engine_of(in_fleet(body, lambda _: Script(acts(1, 1), at_s=[0.5, 9.0]))).idle_at_s['t']
    assert told[:-1] == pytest.approx([1.5] * (len(told) - 1))
    assert told[-1] == pytest.approx(10.0)


def test_a_value_goes_back_to_the_generation_that_waits_for_it() -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.planner.submit(fleet.task('t'))
        await asyncio.sleep(0.3)
        assert handle.phase is TaskPhase.HELD
        assert (await handle.result()).segments == 3

    fleet = in_fleet(body, lambda _: Script('act(100);look(cup_1);act(100);'))
    assert engine_of(fleet).resumed == [('t', 'true')]


def test_a_missing_value_ends_the_task() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].value = None
        result = await fleet.planner.submit(fleet.task('t')).result()
        assert result.error_code == 8
        assert 'look(cup_1)' in result.error

    fleet = in_fleet(body, lambda _: Script('look(cup_1);act(100);'))
    assert engine_of(fleet).canceled == ['t']
    assert fleet.notes()[-1] == ('safe', 'halt')


@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        ({'robot': 'r9'}, "robot 'r9'.*'r1', 'r2'"),
        ({'instruction': ' '}, 'instruction'),
        ({'instruction': 'x' * 401}, 'instruction'),
        ({'time_budget_s': 0.0}, 'time budget 0.0'),
        ({'time_budget_s': float('nan')}, 'time budget nan'),
        ({'overrun': 'pray'}, "overrun strategy 'pray'"),
        ({'when_busy': 'fight'}, "when_busy 'fight'"),
        ({'task_id': ''}, 'task id'),
    ],
)
def test_invalid_tasks_are_refused_before_anything_starts(
    changes: dict[str, object], expected: str
) -> None:
    async def body(fleet: Fleet) -> None:
        with pytest.raises(InvalidTaskError, match=expected):
            fleet.planner.submit(fleet.task(**{'task_id': 't', **changes}))  # type: ignore[arg-type]

    fleet = in_fleet(body)
    assert fleet.events == []
    assert engine_of(fleet).requests == []


def test_an_unknown_skill_set_and_a_taken_id_are_refused() -> None:
    async def body(fleet: Fleet) -> None:
        task = fleet.task('t', instruction='1')
        other = type(task)('u', 'r1', 'tello', 'act', task.scene, task.utility)
        with pytest.raises(InvalidTaskError, match="skill set 'tello': expected one of 'exact'"):
            fleet.planner.submit(other)
        fleet.planner.submit(task)
        with pytest.raises(InvalidTaskError, match="task id 't'"):
            fleet.planner.submit(task)

    in_fleet(body)


def test_a_lost_robot_gets_no_task() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].gone = True
        result = await fleet.planner.submit(fleet.task('t', instruction='1 1')).result()
        assert (result.error_code, result.status) == (7, TaskStatus.ABORTED)
        assert result.response_s is not None
        with pytest.raises(RobotUnavailableError, match="'r1'"):
            fleet.planner.submit(fleet.task('u', instruction='1'))
        other = await fleet.planner.submit(fleet.task('v', 'r2', instruction='1')).result()
        assert other.status is TaskStatus.SUCCEEDED

    in_fleet(body)


def test_no_task_before_start_or_after_close() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.planner.close()
        with pytest.raises(ShutdownError):
            fleet.planner.submit(fleet.task('t'))
        await fleet.planner.close()

    in_fleet(body)


# How tasks end


@pytest.mark.parametrize('at_s', [0.0, 0.05, 0.1, 0.5, 1.1, 1.5])
def test_cancel_at_any_point(at_s: float) -> None:
    """Before the first token, while it is generated, while it is executed."""

    async def body(fleet: Fleet) -> None:
        handle = fleet.planner.submit(fleet.task('t', instruction='1 1'))
        await asyncio.sleep(at_s)
        handle.cancel()
        handle.cancel()
        result = await handle.result()
        assert result.status is TaskStatus.CANCELED
        assert result.completion_s == pytest.approx(result.waiting_s + result.execution_s)
        assert handle.phase is TaskPhase.ENDED
        count = len(fleet.journal)
        await asyncio.sleep(10)
        assert len(fleet.journal) == count

    fleet = in_fleet(body)
    if ('start', 'act(1000)') in fleet.notes():
        assert fleet.notes().count(('safe', 'halt')) >= 1
    assert len(fleet.events_of('t', TaskEnded)) == 1


def test_cancel_while_held_for_a_value() -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.planner.submit(fleet.task('t'))
        await asyncio.sleep(0.2)
        assert handle.phase is TaskPhase.HELD
        handle.cancel()
        assert (await handle.result()).status is TaskStatus.CANCELED

    fleet = in_fleet(body, lambda _: Script('look(cup_1);act(100);'))
    assert engine_of(fleet).resumed == []
    assert ('end', 'look(cup_1)') not in fleet.notes()


def test_cancel_in_the_queue_leaves_the_current_task_alone() -> None:
    async def body(fleet: Fleet) -> None:
        first = fleet.planner.submit(fleet.task('a', instruction='1'))
        second = fleet.planner.submit(fleet.task('b', instruction='1', when_busy='queue'))
        await asyncio.sleep(0.5)
        assert second.phase is TaskPhase.QUEUED
        second.cancel()
        result = await second.result()
        assert (result.status, result.response_s) == (TaskStatus.CANCELED, None)
        assert (await first.result()).status is TaskStatus.SUCCEEDED

    fleet = in_fleet(body)
    assert [request.generation_id for request in engine_of(fleet).requests] == ['a']


def test_a_newer_task_takes_over_and_nothing_of_the_old_one_runs_after() -> None:
    async def body(fleet: Fleet) -> None:
        old = fleet.planner.submit(fleet.task('old', instruction='1 1 1'))
        await asyncio.sleep(1.3)
        new = fleet.planner.submit(fleet.task('new', instruction='2'))
        result = await old.result()
        assert (result.error_code, result.status) == (3, TaskStatus.ABORTED)
        assert 'new' in result.error
        assert result.segments == 1
        assert (await new.result()).status is TaskStatus.SUCCEEDED

    notes = in_fleet(body).notes()
    assert notes[:3] == [('start', 'act(1000)'), ('end', 'act(1000)'), ('start', 'act(1000)')]
    assert set(notes[3:5]) == {('safe', 'halt')}
    assert notes[-3:-1] == [('start', 'act(2000)'), ('end', 'act(2000)')]


def test_a_robot_that_stops_slowly_gets_nothing_new_before_it_has_stopped() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].safe_s = 1.0
        handles = [fleet.planner.submit(fleet.task('a', instruction='5'))]
        for name in 'bcd':
            await asyncio.sleep(0.3)
            handles.append(fleet.planner.submit(fleet.task(name, instruction='2 1')))
        results = [await handle.result() for handle in handles]
        assert [result.error_code for result in results] == [3, 3, 3, 0]
        assert [result.segments for result in results] == [0, 0, 0, 2]

    fleet = in_fleet(body)
    # One stop of the call, one by the planner, and only then the last task; b and c never moved.
    assert fleet.notes()[:7] == [
        ('start', 'act(5000)'), ('safe', 'halt'), ('safe', 'halt'), ('start', 'act(2000)'),
        ('end', 'act(2000)'), ('start', 'act(1000)'), ('end', 'act(1000)'),
    ]  # fmt: skip


def test_queued_tasks_follow_in_order_and_one_that_takes_over_goes_first() -> None:
    async def body(fleet: Fleet) -> None:
        a = fleet.planner.submit(fleet.task('a', instruction='1'))
        b = fleet.planner.submit(fleet.task('b', instruction='2', when_busy='queue'))
        c = fleet.planner.submit(fleet.task('c', instruction='3', when_busy='queue'))
        await asyncio.sleep(0.5)
        d = fleet.planner.submit(fleet.task('d', instruction='4'))
        statuses = [(await handle.result()).status.value for handle in (a, b, c, d)]
        assert statuses == ['aborted', 'succeeded', 'succeeded', 'succeeded']

    fleet = in_fleet(body)
    assert [request.generation_id for request in engine_of(fleet).requests] == ['a', 'd', 'b', 'c']


def test_a_full_queue_refuses() -> None:
    async def body(fleet: Fleet) -> None:
        for name in 'abc':
            fleet.planner.submit(fleet.task(name, instruction='1', when_busy='queue'))
        with pytest.raises(TaskRefusedError, match='2 tasks queued: expected less than 2'):
            fleet.planner.submit(fleet.task('d', instruction='1', when_busy='queue'))
        fleet.planner.submit(fleet.task('e', 'r2', instruction='1', when_busy='queue'))

    in_fleet(body, max_queue_per_robot=2)


@pytest.mark.parametrize(
    ('script', 'code', 'text'),
    [
        (Script(acts(5, 5), reason='invalid_plan', error='plan, character 9: xyz'), 5, 'xyz'),
        (Script(acts(5, 5), reason='length'), 5, '20 tokens'),
        (Script(''), 5, 'empty'),
        (Script(acts(5, 5), reason='error', error='out of memory'), 6, 'out of memory'),
        (Script('', reason='error', error='out of memory'), 6, 'out of memory'),
        (Script(acts(5, 5), reason='canceled'), 6, 'dropped'),
    ],
)
def test_a_generation_that_ends_badly_ends_the_task_and_stops_the_robot(
    script: Script, code: int, text: str
) -> None:
    async def body(fleet: Fleet) -> None:
        result = await fleet.planner.submit(fleet.task('t')).result()
        assert (result.error_code, result.status) == (code, TaskStatus.ABORTED)
        assert text in result.error

    fleet = in_fleet(body, lambda _: script)
    assert ('end', 'act(5000)') not in fleet.notes()
    if script.plan:
        assert ('safe', 'halt') in fleet.notes()[:2]


def test_an_engine_failure_ends_what_it_generated_and_nothing_else() -> None:
    async def body(fleet: Fleet) -> None:
        generating = fleet.planner.submit(fleet.task('a', instruction='1 1 1 1 1 1 1'))
        planned = fleet.planner.submit(fleet.task('b', 'r2', instruction='3'))
        await asyncio.sleep(0.55)
        engine_of(fleet).fail('worker died')
        result = await generating.result()
        assert result.error_code == 6
        assert 'worker died' in result.error
        # Accepted meanwhile, a task waits for the engine.
        late = fleet.planner.submit(fleet.task('c', instruction='1'))
        await asyncio.sleep(1.0)
        assert late.phase is TaskPhase.QUEUED
        engine_of(fleet).recover()
        assert (await late.result()).status is TaskStatus.SUCCEEDED
        assert (await planned.result()).status is TaskStatus.SUCCEEDED

    in_fleet(body)


def test_a_failed_skill_ends_the_task() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].fails_at = 'act(2000)'
        result = await fleet.planner.submit(fleet.task('t', instruction='1 2 3')).result()
        assert (result.error_code, result.segments) == (8, 1)
        assert 'motor stop' in result.error

    fleet = in_fleet(body)
    assert fleet.notes()[3] == ('safe', 'halt')
    assert ('start', 'act(3000)') not in fleet.notes()


def test_a_skill_that_hangs_is_stopped() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].hangs_at = 'act(2000)'
        result = await fleet.planner.submit(fleet.task('t', instruction='1 2')).result()
        assert result.error_code == 8
        assert 'at most 7.0 s' in result.error

    assert in_fleet(body).notes()[3] == ('safe', 'halt')


def test_shutdown_ends_every_task_with_its_robot_safe() -> None:
    async def body(fleet: Fleet) -> None:
        running = [
            fleet.planner.submit(fleet.task(f't{robot}', robot, instruction='5 5'))
            for robot in ('r1', 'r2')
        ]
        queued = fleet.planner.submit(fleet.task('q', instruction='1', when_busy='queue'))
        await asyncio.sleep(1.0)
        await fleet.planner.close()
        assert fleet.planner.tasks == ()
        for handle in (*running, queued):
            result = await handle.result()
            assert (result.error_code, result.status) == (10, TaskStatus.ABORTED)
        for robot in ('r1', 'r2'):
            assert fleet.notes(robot)[-1] == ('safe', 'halt')

    fleet = in_fleet(body)
    assert [request.generation_id for request in engine_of(fleet).requests] == ['tr1', 'tr2']


def test_ending_all_tasks_keeps_the_planner_open() -> None:
    async def body(fleet: Fleet) -> None:
        handles = [
            fleet.planner.submit(fleet.task(f't{n}', instruction='1', when_busy='queue'))
            for n in range(3)
        ]
        await asyncio.sleep(0.5)
        fleet.planner.end_all(ShutdownError('deactivated'))
        assert [(await handle.result()).error_code for handle in handles] == [10] * 3
        after = fleet.planner.submit(fleet.task('u', instruction='1'))
        assert (await after.result()).status is TaskStatus.SUCCEEDED

    fleet = in_fleet(body)
    assert [request.generation_id for request in engine_of(fleet).requests] == ['t0', 'u']


# Time budgets


def test_an_estimate_above_the_budget_refuses_at_once() -> None:
    async def body(fleet: Fleet) -> None:
        with pytest.raises(
            TaskRefusedError, match=r'1 s: expected at least the estimated 2\.500 s'
        ):
            fleet.planner.submit(fleet.task('t', time_budget_s=1.0))
        fleet.planner.submit(fleet.task('u', time_budget_s=3.0, instruction='1'))
        fleet.planner.submit(fleet.task('v', 'r2', instruction='1'))

    in_fleet(body, estimate_generation_s=lambda task: 2.5)


def test_kill_stops_the_generation_and_lets_the_robot_finish() -> None:
    async def body(fleet: Fleet) -> None:
        task = fleet.task('t', instruction='1 1 1 1', time_budget_s=0.25)
        result = await fleet.planner.submit(task).result()
        assert (result.error_code, result.segments) == (9, 2)
        assert 'time budget 0.25 s' in result.error
        assert result.execution_s == pytest.approx(2.0)

    fleet = in_fleet(body)
    assert engine_of(fleet).canceled == ['t']
    assert fleet.notes().count(('end', 'act(1000)')) == 2


def test_kill_before_the_first_segment_ends_at_once() -> None:
    async def body(fleet: Fleet) -> None:
        result = await fleet.planner.submit(
            fleet.task('t', instruction='1', time_budget_s=0.05)
        ).result()
        assert (result.error_code, result.response_s, result.utility) == (9, None, 0.0)
        assert asyncio.get_running_loop().time() == pytest.approx(0.05, abs=1e-5)

    in_fleet(body)


def test_a_generation_that_ends_exactly_at_its_budget_is_in_time() -> None:
    async def body(fleet: Fleet) -> None:
        for number, budget_s in enumerate((0.1, 0.2, 0.3)):
            durations = '1 ' * (number + 1)
            task = fleet.task(f't{number}', instruction=durations, time_budget_s=budget_s)
            assert (await fleet.planner.submit(task).result()).status is TaskStatus.SUCCEEDED

    in_fleet(body)


def test_skip_next_runs_on_and_skips_only_what_queued_behind_it() -> None:
    async def body(fleet: Fleet) -> None:
        late = fleet.planner.submit(
            fleet.task('late', instruction='1 1 1', time_budget_s=0.15, overrun='skip_next')
        )
        skipped = fleet.planner.submit(fleet.task('skipped', instruction='1', when_busy='queue'))
        other = fleet.planner.submit(fleet.task('other', 'r2', instruction='2'))
        behind = fleet.planner.submit(fleet.task('b', 'r2', instruction='1', when_busy='queue'))
        await asyncio.sleep(0.5)
        # Released after the late generation ended, though its robot still executes.
        after = fleet.planner.submit(fleet.task('after', instruction='1', when_busy='queue'))
        assert (await skipped.result()).error_code == 2
        assert 'late' in (await skipped.result()).error
        for handle in (late, other, behind, after):
            assert (await handle.result()).status is TaskStatus.SUCCEEDED

    in_fleet(body)


# Observers


def test_phases_and_feedback() -> None:
    seen: list[TaskFeedback] = []

    async def body(fleet: Fleet) -> None:
        task = fleet.task('t')
        await fleet.planner.submit(task, on_feedback=seen.append).result()

    fleet = in_fleet(body, lambda _: Script(acts(1, 1), at_s=[0.5, 3.0]))
    phases = [event.phase.value for event in fleet.events_of('t', PhaseChanged)]  # type: ignore[union-attr]
    assert phases == [
        'queued', 'generating', 'executing', 'waiting', 'executing', 'ended',
    ]  # fmt: skip
    assert [f.segments for f in seen] == sorted(f.segments for f in seen)
    assert seen[-1].phase is TaskPhase.ENDED
    assert any(f.call == 'act(1000)' and f.expected_remaining_s == pytest.approx(1) for f in seen)


def test_observers_that_raise_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def raises(thing: object) -> None:
        raise ValueError(f'observer of {type(thing).__name__}')

    async def body(fleet: Fleet) -> None:
        fleet.planner._on_event = raises
        result = await fleet.planner.submit(
            fleet.task('t', instruction='1'), on_feedback=raises
        ).result()
        assert result.status is TaskStatus.SUCCEEDED

    in_fleet(body, on_engine_event=raises)
    assert 'observer' in caplog.text


def test_a_task_may_be_submitted_from_an_observer() -> None:
    async def body(fleet: Fleet) -> None:
        follow_ups: list[Task] = [fleet.task(f'n{i}', instruction='1') for i in range(3)]
        handles = []

        def chain(event: object) -> None:
            if isinstance(event, TaskEnded) and follow_ups:
                handles.append(fleet.planner.submit(follow_ups.pop()))

        fleet.planner._on_event = chain
        await fleet.planner.submit(fleet.task('t', instruction='1')).result()
        await asyncio.sleep(10)
        for handle in handles:
            assert (await handle.result()).status is TaskStatus.SUCCEEDED
        assert len(handles) == 3

    in_fleet(body)
