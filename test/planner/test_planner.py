"""The life of one task, on virtual time: what the words of its result mean, and who hears of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.engines.scripted import engine_of

from timely_llm_ros.errors import (
    Ending,
    InvalidTaskError,
    RobotUnavailableError,
    ShutdownError,
)
from timely_llm_ros.planner import (
    PhaseChanged,
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
    TaskPhase,
    TaskStatus,
)
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.testing import Script, acts, in_fleet

if TYPE_CHECKING:
    from timely_llm_ros.planner import Task, TaskFeedback
    from timely_llm_ros.testing import Fleet


def test_a_plan_runs_in_order_and_its_times_are_those_of_the_table_of_words() -> None:
    async def body(fleet: Fleet) -> None:
        await asyncio.sleep(5.0)
        result = await fleet.submit(fleet.task('t', instruction='2 1 3')).result()
        assert result.status is TaskStatus.SUCCEEDED
        assert result.ending == Ending()
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


def test_times_count_from_when_a_task_came_where_somebody_kept_it_back() -> None:
    async def body(fleet: Fleet) -> None:
        await asyncio.sleep(5.0)
        prepared = fleet.planner.prepare(fleet.task('t', instruction='2'))
        result = await fleet.planner.submit(prepared, received_s=3.0).result()
        assert result.response_s == pytest.approx(2.108)
        assert result.utility == pytest.approx(1.0 - 2.0 * 1.108)
        assert result.generation_s == pytest.approx(2.1)

    fleet = in_fleet(body, latency_s=0.008)
    accepted = fleet.events_of('t')[0]
    assert isinstance(accepted, TaskAccepted)
    assert (accepted.received_s, accepted.at_s) == (3.0, 5.0)
    assert engine_of(fleet).requests[0].arrival_s == 3.0


def test_the_robot_idle_time_follows_its_progress() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.submit(fleet.task('t', instruction='2 4')).result()

    told = engine_of(in_fleet(body)).idle_at_s['t']
    # Generated at 0.1 s, starts at once, 2 s long; the end of the plan comes with segment 1.
    assert told[0] == pytest.approx(2.1)
    assert {round(idle_at_s, 6) for idle_at_s in told} <= {2.1, 6.1}
    assert told[-1] == pytest.approx(6.1)


def test_an_idle_robot_is_due_since_its_last_segment_ended() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.submit(fleet.task('t')).result()

    told = engine_of(in_fleet(body, lambda _: Script(acts(1, 1), at_s=[0.5, 9.0]))).idle_at_s['t']
    assert told[:-1] == pytest.approx([1.5] * (len(told) - 1))
    assert told[-1] == pytest.approx(10.0)


def test_a_value_goes_back_to_the_generation_that_waits_for_it() -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t'))
        await asyncio.sleep(0.3)
        assert handle.phase is TaskPhase.HELD
        assert (await handle.result()).segments == 3

    fleet = in_fleet(body, lambda _: Script('act(100);look(cup_1);act(100);'))
    assert engine_of(fleet).resumed == [('t', 'true')]


def test_a_missing_value_ends_the_task() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].value = None
        result = await fleet.submit(fleet.task('t')).result()
        assert result.ending.code == 8
        assert 'look(cup_1)' in result.ending.message

    fleet = in_fleet(body, lambda _: Script('look(cup_1);act(100);'))
    assert engine_of(fleet).canceled == ['t']
    assert fleet.notes()[-1] == ('safe', 'halt')


@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        ({'robot': 'r9'}, "robot 'r9'.*'r1', 'r2'"),
        ({'instruction': ' '}, 'instruction'),
        ({'instruction': 'x' * 65_537}, 'instruction'),
        ({'time_budget_s': 0.0}, 'time budget 0.0'),
        ({'time_budget_s': float('nan')}, 'time budget nan'),
        ({'overrun': 'pray'}, "overrun strategy 'pray'"),
        ({'when_busy': 'fight'}, "when_busy 'fight'"),
        ({'task_id': ''}, 'task id'),
        ({'scene': Scene((SceneObject('act', 'cup'),))}, "object name 'act' is a skill of 'exact'"),
    ],
)
def test_invalid_tasks_are_refused_before_anything_starts(
    changes: dict[str, Any], expected: str
) -> None:
    async def body(fleet: Fleet) -> None:
        with pytest.raises(InvalidTaskError, match=expected):
            fleet.submit(fleet.task(**{'task_id': 't', **changes}))

    fleet = in_fleet(body)
    assert fleet.events == []
    assert engine_of(fleet).requests == []


def test_an_unknown_skill_set_and_a_taken_id_are_refused() -> None:
    async def body(fleet: Fleet) -> None:
        task = fleet.task('t', instruction='1')
        other = type(task)('u', 'r1', 'tello', 'act', task.scene, task.utility)
        with pytest.raises(InvalidTaskError, match="skill set 'tello': expected one of 'exact'"):
            fleet.submit(other)
        fleet.submit(task)
        with pytest.raises(InvalidTaskError, match="task id 't'"):
            fleet.submit(task)

    in_fleet(body)


def test_a_lost_robot_gets_no_task() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.drivers['r1'].gone = True
        result = await fleet.submit(fleet.task('t', instruction='1 1')).result()
        assert (result.ending.code, result.status) == (7, TaskStatus.ABORTED)
        assert result.response_s is not None
        with pytest.raises(RobotUnavailableError, match="'r1'"):
            fleet.submit(fleet.task('u', instruction='1'))
        other = await fleet.submit(fleet.task('v', 'r2', instruction='1')).result()
        assert other.status is TaskStatus.SUCCEEDED

    in_fleet(body)


def test_no_task_before_start_or_after_close() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.planner.close()
        with pytest.raises(ShutdownError):
            fleet.submit(fleet.task('t'))
        await fleet.planner.close()

    in_fleet(body)


# Observers


def test_phases_and_feedback() -> None:
    seen: list[TaskFeedback] = []

    async def body(fleet: Fleet) -> None:
        task = fleet.task('t')
        await fleet.submit(task, on_feedback=seen.append).result()

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
        result = await fleet.submit(fleet.task('t', instruction='1'), on_feedback=raises).result()
        assert result.status is TaskStatus.SUCCEEDED

    in_fleet(body, on_engine_event=raises)
    assert 'observer' in caplog.text


def test_a_task_may_be_submitted_from_an_observer() -> None:
    async def body(fleet: Fleet) -> None:
        follow_ups: list[Task] = [fleet.task(f'n{i}', instruction='1') for i in range(3)]
        handles = []

        def chain(event: object) -> None:
            if isinstance(event, TaskEnded) and follow_ups:
                handles.append(fleet.submit(follow_ups.pop()))

        fleet.planner._on_event = chain
        await fleet.submit(fleet.task('t', instruction='1')).result()
        await asyncio.sleep(10)
        for handle in handles:
            assert (await handle.result()).status is TaskStatus.SUCCEEDED
        assert len(handles) == 3

    in_fleet(body)
