"""All the ways in which a task ends before its plan does, on virtual time."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.engines.scripted import engine_of

from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.errors import (
    PlanError,
    ShutdownError,
    TaskRefusedError,
)
from timely_llm_ros.planner import (
    PlannerConfig,
    TaskEnded,
    TaskPhase,
    TaskStatus,
)
from timely_llm_ros.planner.task_run import TaskRun
from timely_llm_ros.testing import EXACT_SKILLS, Script, acts, in_fleet

if TYPE_CHECKING:
    from timely_llm_ros.engines import EndReason, GenerationRequest
    from timely_llm_ros.testing import Fleet


@pytest.mark.parametrize('at_s', [0.0, 0.05, 0.1, 0.5, 1.1, 1.5])
def test_cancel_at_any_point(at_s: float) -> None:
    """Before the first token, while it is generated, while it is executed."""

    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t', instruction='1 1'))
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


def test_a_plan_that_asks_for_too_much_is_a_bad_plan() -> None:
    bomb = 'act(10);repeat(10){repeat(10){repeat(10){act(100000);};};};'

    async def body(fleet: Fleet) -> None:
        result = await fleet.submit(fleet.task('t')).result()
        assert (result.status, result.ending.code) == (TaskStatus.ABORTED, PlanError.code)
        assert result.ending.message == (
            'plan, character 8: segment of 1000 calls: '
            "expected at most 256, segment_calls of skill set 'exact'"
        )

    engine = SimulatedEngine(SimulatedConfig(plan_text=lambda _: bomb))
    assert set(in_fleet(body, engine=engine).notes()) <= {
        ('start', 'act(10)'), ('end', 'act(10)'), ('safe', 'halt'),
    }  # fmt: skip


def test_a_plan_of_many_segments_waits_where_its_robot_takes_no_more() -> None:
    most: list[int] = []

    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t'))
        while handle.phase is not TaskPhase.ENDED:
            most.append(fleet.executors['r1'].state.queued)
            await asyncio.sleep(0.005)
        assert (await handle.result()).segments == 200

    fleet = in_fleet(body, lambda _: Script(acts(*[0.1] * 200), every_s=0.0))
    assert fleet.notes().count(('end', 'act(100)')) == 200
    assert max(most) == 63  # One of its 64 runs.


def test_a_plan_that_waits_for_its_robot_can_be_cancelled() -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t'))
        await asyncio.sleep(0.15)
        handle.cancel()
        assert (await handle.result()).status is TaskStatus.CANCELED
        later = fleet.submit(fleet.task('later'))
        await asyncio.sleep(0.15)
        assert later.phase is TaskPhase.EXECUTING

    fleet = in_fleet(body, lambda _: Script(acts(*[0.1] * 200), every_s=0.0))
    assert fleet.notes().count(('start', 'act(100)')) == 4


def test_cancel_while_held_for_a_value() -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t'))
        await asyncio.sleep(0.2)
        assert handle.phase is TaskPhase.HELD
        handle.cancel()
        assert (await handle.result()).status is TaskStatus.CANCELED

    fleet = in_fleet(body, lambda _: Script('look(cup_1);act(100);'))
    assert engine_of(fleet).resumed == []
    assert ('end', 'look(cup_1)') not in fleet.notes()


def test_cancel_in_the_queue_leaves_the_current_task_alone() -> None:
    async def body(fleet: Fleet) -> None:
        first = fleet.submit(fleet.task('a', instruction='1'))
        second = fleet.submit(fleet.task('b', instruction='1', when_busy='queue'))
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
        old = fleet.submit(fleet.task('old', instruction='1 1 1'))
        await asyncio.sleep(1.3)
        new = fleet.submit(fleet.task('new', instruction='2'))
        result = await old.result()
        assert (result.ending.code, result.status) == (3, TaskStatus.ABORTED)
        assert 'new' in result.ending.message
        assert result.segments == 1
        assert (await new.result()).status is TaskStatus.SUCCEEDED

    notes = in_fleet(body).notes()
    assert notes[:3] == [('start', 'act(1000)'), ('end', 'act(1000)'), ('start', 'act(1000)')]
    assert set(notes[3:5]) == {('safe', 'halt')}
    assert notes[-3:-1] == [('start', 'act(2000)'), ('end', 'act(2000)')]


def test_a_robot_that_stops_slowly_gets_nothing_new_before_it_has_stopped() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].safe_s = 1.0
        handles = [fleet.submit(fleet.task('a', instruction='5'))]
        for name in 'bcd':
            await asyncio.sleep(0.3)
            handles.append(fleet.submit(fleet.task(name, instruction='2 1')))
        results = [await handle.result() for handle in handles]
        assert [result.ending.code for result in results] == [3, 3, 3, 0]
        assert [result.segments for result in results] == [0, 0, 0, 2]

    fleet = in_fleet(body)
    # One stop of the call, one by the planner, and only then the last task; b and c never moved.
    assert fleet.notes()[:7] == [
        ('start', 'act(5000)'), ('safe', 'halt'), ('safe', 'halt'), ('start', 'act(2000)'),
        ('end', 'act(2000)'), ('start', 'act(1000)'), ('end', 'act(1000)'),
    ]  # fmt: skip


def test_queued_tasks_follow_in_order_and_one_that_takes_over_goes_first() -> None:
    async def body(fleet: Fleet) -> None:
        a = fleet.submit(fleet.task('a', instruction='1'))
        b = fleet.submit(fleet.task('b', instruction='2', when_busy='queue'))
        c = fleet.submit(fleet.task('c', instruction='3', when_busy='queue'))
        await asyncio.sleep(0.5)
        d = fleet.submit(fleet.task('d', instruction='4'))
        statuses = [(await handle.result()).status.value for handle in (a, b, c, d)]
        assert statuses == ['aborted', 'succeeded', 'succeeded', 'succeeded']

    fleet = in_fleet(body)
    assert [request.generation_id for request in engine_of(fleet).requests] == ['a', 'd', 'b', 'c']


def test_a_full_queue_refuses() -> None:
    async def body(fleet: Fleet) -> None:
        for name in 'abc':
            fleet.submit(fleet.task(name, instruction='1', when_busy='queue'))
        with pytest.raises(TaskRefusedError, match='2 tasks queued: expected less than 2'):
            fleet.submit(fleet.task('d', instruction='1', when_busy='queue'))
        fleet.submit(fleet.task('e', 'r2', instruction='1', when_busy='queue'))

    in_fleet(body, config=PlannerConfig(max_queue_per_robot=2))


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
        result = await fleet.submit(fleet.task('t')).result()
        assert (result.ending.code, result.status) == (code, TaskStatus.ABORTED)
        assert text in result.ending.message

    fleet = in_fleet(body, lambda _: script)
    assert ('end', 'act(5000)') not in fleet.notes()
    if script.plan:
        assert ('safe', 'halt') in fleet.notes()[:2]


def test_an_engine_failure_ends_what_it_generated_and_nothing_else() -> None:
    async def body(fleet: Fleet) -> None:
        generating = fleet.submit(fleet.task('a', instruction='1 1 1 1 1 1 1'))
        planned = fleet.submit(fleet.task('b', 'r2', instruction='3'))
        await asyncio.sleep(0.55)
        engine_of(fleet).fail('worker died')
        result = await generating.result()
        assert result.ending.code == 6
        assert 'worker died' in result.ending.message
        # Accepted meanwhile, a task waits for the engine.
        late = fleet.submit(fleet.task('c', instruction='1'))
        await asyncio.sleep(1.0)
        assert late.phase is TaskPhase.QUEUED
        engine_of(fleet).recover()
        assert (await late.result()).status is TaskStatus.SUCCEEDED
        assert (await planned.result()).status is TaskStatus.SUCCEEDED

    in_fleet(body)


def test_a_failed_skill_ends_the_task() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].fails_at = 'act(2000)'
        result = await fleet.submit(fleet.task('t', instruction='1 2 3')).result()
        assert (result.ending.code, result.segments) == (8, 1)
        assert 'motor stop' in result.ending.message

    fleet = in_fleet(body)
    assert fleet.notes()[3] == ('safe', 'halt')
    assert ('start', 'act(3000)') not in fleet.notes()


def test_a_skill_that_hangs_is_stopped() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].hangs_at = 'act(2000)'
        result = await fleet.submit(fleet.task('t', instruction='1 2')).result()
        assert result.ending.code == 8
        assert 'at most 7.0 s' in result.ending.message

    assert in_fleet(body).notes()[3] == ('safe', 'halt')


def test_shutdown_ends_every_task_with_its_robot_safe() -> None:
    async def body(fleet: Fleet) -> None:
        running = [
            fleet.submit(fleet.task(f't{robot}', robot, instruction='5 5'))
            for robot in ('r1', 'r2')
        ]
        queued = fleet.submit(fleet.task('q', instruction='1', when_busy='queue'))
        await asyncio.sleep(1.0)
        await fleet.planner.close()
        assert fleet.planner.tasks == ()
        for handle in (*running, queued):
            result = await handle.result()
            assert (result.ending.code, result.status) == (10, TaskStatus.ABORTED)
        for robot in ('r1', 'r2'):
            assert fleet.notes(robot)[-1] == ('safe', 'halt')

    fleet = in_fleet(body)
    assert [request.generation_id for request in engine_of(fleet).requests] == ['tr1', 'tr2']


def test_ending_all_tasks_keeps_the_planner_open() -> None:
    async def body(fleet: Fleet) -> None:
        handles = [
            fleet.submit(fleet.task(f't{n}', instruction='1', when_busy='queue')) for n in range(3)
        ]
        await asyncio.sleep(0.5)
        fleet.planner.end_all(ShutdownError('deactivated'))
        assert [(await handle.result()).ending.code for handle in handles] == [10] * 3
        after = fleet.submit(fleet.task('u', instruction='1'))
        assert (await after.result()).status is TaskStatus.SUCCEEDED

    fleet = in_fleet(body)
    assert [request.generation_id for request in engine_of(fleet).requests] == ['t0', 'u']


# Time budgets


@pytest.mark.parametrize('reason', ['stop', 'length', 'invalid_plan', 'error'])
def test_a_budget_that_no_whole_plan_of_the_skill_set_kept_refuses_at_once(
    reason: EndReason,
) -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.submit(fleet.task('first')).result()
        short = fleet.task('short', time_budget_s=0.05)
        if reason == 'stop':
            with pytest.raises(
                TaskRefusedError, match=r'0\.05 s: expected at least the estimated 0\.100 s'
            ):
                fleet.submit(short)
        else:
            fleet.submit(short)
        fleet.submit(fleet.task('ample', 'r2', time_budget_s=0.1))
        fleet.skill_sets['other'] = replace(EXACT_SKILLS, name='other')
        fleet.submit(fleet.task('other', 'r2', skill_set='other', time_budget_s=0.05))

    def script(_: GenerationRequest) -> Script:
        return Script(acts(0.1), reason=reason, error='x')

    in_fleet(body, script, config=PlannerConfig(learns_least_time=True))


def test_kill_stops_the_generation_and_lets_the_robot_finish() -> None:
    async def body(fleet: Fleet) -> None:
        task = fleet.task('t', instruction='1 1 1 1', time_budget_s=0.25)
        result = await fleet.submit(task).result()
        assert (result.ending.code, result.segments) == (9, 2)
        assert 'time budget 0.25 s' in result.ending.message
        assert result.execution_s == pytest.approx(2.0)

    fleet = in_fleet(body)
    assert engine_of(fleet).canceled == ['t']
    assert fleet.notes().count(('end', 'act(1000)')) == 2


def test_kill_before_the_first_segment_ends_at_once() -> None:
    async def body(fleet: Fleet) -> None:
        result = await fleet.submit(fleet.task('t', instruction='1', time_budget_s=0.05)).result()
        assert (result.ending.code, result.response_s, result.utility) == (9, None, 0.0)
        assert asyncio.get_running_loop().time() == pytest.approx(0.05, abs=1e-5)

    in_fleet(body)


def test_a_generation_that_ends_exactly_at_its_budget_is_in_time() -> None:
    async def body(fleet: Fleet) -> None:
        for number, budget_s in enumerate((0.1, 0.2, 0.3)):
            durations = '1 ' * (number + 1)
            task = fleet.task(f't{number}', instruction=durations, time_budget_s=budget_s)
            assert (await fleet.submit(task).result()).status is TaskStatus.SUCCEEDED

    in_fleet(body)


def test_skip_next_runs_on_and_skips_only_what_queued_behind_it() -> None:
    async def body(fleet: Fleet) -> None:
        late = fleet.submit(
            fleet.task('late', instruction='1 1 1', time_budget_s=0.15, overrun='skip_next')
        )
        skipped = fleet.submit(fleet.task('skipped', instruction='1', when_busy='queue'))
        other = fleet.submit(fleet.task('other', 'r2', instruction='2'))
        behind = fleet.submit(fleet.task('b', 'r2', instruction='1', when_busy='queue'))
        await asyncio.sleep(0.5)
        # Released after the late generation ended, though its robot still executes.
        after = fleet.submit(fleet.task('after', instruction='1', when_busy='queue'))
        assert (await skipped.result()).ending.code == 2
        assert 'late' in (await skipped.result()).ending.message
        for handle in (late, other, behind, after):
            assert (await handle.result()).status is TaskStatus.SUCCEEDED

    in_fleet(body)


def test_what_has_ended_goes_with_its_last_reference() -> None:
    """No collector need go through all that a busy planner has."""

    async def body(fleet: Fleet) -> None:
        handles = [fleet.submit(fleet.task(name, instruction='1 1')) for name in 'ab']
        await asyncio.sleep(0.05)
        handles.pop().cancel()
        await handles.pop().result()
        await asyncio.sleep(10)
        assert not [one for one in gc.get_objects() if isinstance(one, TaskRun)]

    gc.collect()
    gc.disable()
    try:
        in_fleet(body)
    finally:
        gc.enable()
