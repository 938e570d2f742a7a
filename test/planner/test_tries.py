"""Goals that are planned again where a skill failed, on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.errors import ExecutionError, TaskCanceledError, TaskRefusedError, TimelyError
from timely_llm_ros.planner import PlannerConfig, SegmentStarted, TaskAccepted, TaskResult
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.testing import in_fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.planner import Task, TaskHandle
    from timely_llm_ros.testing import Fleet

SCENE = Scene((SceneObject('cup_9', 'cup'),))
"""What is known when a goal is planned again."""


@dataclass
class Goal:
    """Serves one goal as the planner node does, and keeps what its plans came to.

    Attributes:
        first: Its first task.
        on_begin: Called with each plan's number, from 0, when that begins.
    """

    first: Task
    on_begin: Callable[[int, TaskHandle], object] = lambda number, handle: None
    ended: list[TaskResult] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)

    async def serve(self, fleet: Fleet) -> TaskResult:
        clock = asyncio.get_running_loop()
        tries = fleet.planner.tries(self.first, clock.time())
        task: Task | None = self.first
        while task is not None:
            self.tasks.append(task)
            try:
                handle = fleet.submit(task)
            except TimelyError as err:
                tries.refused(err)
                break
            self.on_begin(len(self.tasks) - 1, handle)
            self.ended.append(await handle.result())
            task = tries.next(self.ended[-1], clock.time(), f'again_{len(self.tasks)}')
            if task is not None:
                task = replace(task, scene=SCENE)
        return tries.result


def serve(
    config: PlannerConfig,
    *,
    fails: int = 1,
    at: str = 'act(2000)',
    plan: str = '1 2 3',
    act: Callable[[Fleet, int, TaskHandle], object] = lambda fleet, number, handle: None,
    budget_s: float | None = None,
) -> tuple[Fleet, Goal, TaskResult]:
    """Serve a goal whose robot cannot do a call in its first plans."""
    found: list[tuple[Goal, TaskResult]] = []

    async def body(fleet: Fleet) -> None:
        def begin(number: int, handle: TaskHandle) -> None:
            fleet.drivers['r1'].fails_at = at if number < fails else None
            act(fleet, number, handle)

        goal = Goal(fleet.task('t', instruction=plan, time_budget_s=budget_s), begin)
        found.append((goal, await goal.serve(fleet)))

    fleet = in_fleet(body, config=config)
    return fleet, *found[0]


def test_a_goal_whose_skill_failed_is_planned_again_from_the_new_scene() -> None:
    fleet, goal, result = serve(PlannerConfig(replans=1))
    assert (result.ending.code, result.replans) == (0, 1)
    assert [task.goal_id for task in goal.tasks] == ['', 't']
    accepted = [event.task for event in fleet.events if isinstance(event, TaskAccepted)]
    assert [task.scene for task in accepted[1:]] == [SCENE]
    assert accepted[1].when_busy == 'queue'
    # The robot is made safe before it does anything of the new plan.
    notes = fleet.notes()
    failed = notes.index(('start', 'act(2000)'))
    assert notes[failed + 1] == ('safe', 'halt')
    assert [call for event, call in notes if event == 'end'] == [
        'act(1000)', 'act(1000)', 'act(2000)', 'act(3000)',
    ]  # fmt: skip


def test_the_failure_is_told_and_not_what_it_did_to_the_segments_behind_it() -> None:
    _, _, result = serve(PlannerConfig(), at='act(1000)')
    assert result.ending.code == ExecutionError.code
    assert result.ending.message == "segment 0, '': act(1000): motor stop"
    assert result.replans == 0


def test_a_goal_is_planned_again_only_so_often() -> None:
    _, goal, result = serve(PlannerConfig(replans=2), fails=9)
    assert len(goal.tasks) == 3
    assert (result.ending.code, result.replans) == (ExecutionError.code, 2)
    assert result.segments == 3


def test_a_robot_that_somebody_stopped_is_left_alone() -> None:
    def stop(fleet: Fleet, number: int, handle: TaskHandle) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, lambda: loop.create_task(fleet.executors['r1'].stop()))

    fleet, goal, result = serve(PlannerConfig(replans=3), act=stop)
    assert len(goal.tasks) == 1
    assert (result.ending.code, result.skill_failed) == (ExecutionError.code, False)
    assert fleet.notes()[-1][0] == 'safe'


def test_a_goal_that_its_client_cancels_is_not_planned_again() -> None:
    def cancel(fleet: Fleet, number: int, handle: TaskHandle) -> None:
        asyncio.get_running_loop().call_later(0.5, handle.cancel)

    _, goal, result = serve(PlannerConfig(replans=3), act=cancel)
    assert len(goal.tasks) == 1
    assert result.ending.code == TaskCanceledError.code


def test_a_new_plan_has_what_is_left_of_the_time_budget() -> None:
    _, goal, result = serve(PlannerConfig(replans=3), budget_s=30.0)
    assert result.ending.code == 0
    again_s = goal.tasks[1].time_budget_s
    assert again_s is not None
    assert 28.0 < again_s < 29.0
    # The first plan takes a second of the robot before it fails, which is all that there is.
    _, goal, result = serve(PlannerConfig(replans=3), budget_s=1.0)
    assert len(goal.tasks) == 1
    assert result.ending.code == ExecutionError.code


def test_a_new_plan_that_is_refused_leaves_the_failure() -> None:
    def lose(fleet: Fleet, number: int, handle: TaskHandle) -> None:
        # Its executor gives it up when it does not take its safe action.
        fleet.drivers['r1'].safe_s = 1000.0

    _, _, result = serve(PlannerConfig(replans=1), act=lose)
    assert result.ending.code == ExecutionError.code
    assert 'motor stop; not planned again: ' in result.ending.message
    assert result.replans == 0


def test_a_new_plan_has_the_place_of_the_one_before_it_in_a_full_queue() -> None:
    async def body(fleet: Fleet) -> None:
        fleet.submit(fleet.task('a', instruction='9'))
        new = fleet.task('b', when_busy='queue')
        with pytest.raises(TaskRefusedError):
            fleet.planner.prepare(new)
        fleet.planner.prepare(replace(new, goal_id='t'))

    in_fleet(body, config=PlannerConfig(max_queue_per_robot=0))


def test_a_goal_counts_from_when_it_came() -> None:
    fleet, goal, result = serve(PlannerConfig(replans=1))
    first, second = goal.ended
    assert result.response_s == first.response_s
    assert result.utility == first.utility
    assert result.waits_s == (*first.waits_s, *second.waits_s)
    assert result.completion_s == pytest.approx(result.waiting_s + result.execution_s)
    starts = [event.at_s for event in fleet.events if isinstance(event, SegmentStarted)]
    assert starts[-1] + 3.0 == pytest.approx(result.completion_s)


@examples(60)
@given(
    fails=st.integers(0, 4),
    most=st.integers(0, 4),
    at=st.sampled_from(['act(1000)', 'act(2000)', 'act(3000)']),
    budget_s=st.none() | st.floats(1.0, 20.0),
)
def test_whatever_fails_a_goal_ends_once_with_the_sums_of_its_plans(
    fails: int, most: int, at: str, budget_s: float | None
) -> None:
    fleet, goal, result = serve(PlannerConfig(replans=most), fails=fails, at=at, budget_s=budget_s)
    assert len(goal.tasks) == len(goal.ended) == result.replans + 1 <= most + 1
    assert result.ending == goal.ended[-1].ending
    assert result.segments == sum(one.segments for one in goal.ended)
    assert result.tokens == sum(one.tokens for one in goal.ended)
    done = [call for event, call in fleet.notes() if event == 'end']
    assert len(done) == result.segments
    if result.ending.succeeded:
        assert done[-3:] == ['act(1000)', 'act(2000)', 'act(3000)']
        assert result.replans == fails
    elif budget_s is None:
        assert fails > most
