"""A task that several robots may do goes to the one that is expected to earn most by it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.planner.worth import RobotOutlook, choose_robot
from timely_llm_ros.testing import in_fleet

if TYPE_CHECKING:
    from timely_llm_ros.planner import Task
    from timely_llm_ros.testing import Fleet

ROBOTS = ('r1', 'r2', 'r3')


def anybody(fleet: Fleet, name: str, **options: Any) -> Task:
    """Return a task of which the planner may choose the robot."""
    others = tuple((robot, 'exact') for robot in ROBOTS[1:])
    return fleet.task(name, when_busy='queue', alternatives=others, **options)


def test_a_free_robot_takes_what_a_busy_one_would_keep_waiting() -> None:
    async def body(fleet: Fleet) -> None:
        # So that it is known what a task takes.
        await fleet.submit(fleet.task('before', instruction='5')).result()
        fleet.submit(fleet.task('first', instruction='5'))
        await asyncio.sleep(0.5)
        handles = [fleet.submit(anybody(fleet, name, instruction='5')) for name in ('a', 'b', 'c')]
        assert [handle.task.robot for handle in handles] == ['r2', 'r3', 'r1']
        assert 'r2: expected utility' in handles[0].task.why_robot
        assert 'free' in handles[0].task.why_robot
        assert 'r1: expected utility' in handles[0].task.why_robot
        assert 'busy for' in handles[0].task.why_robot
        assert [(await handle.result()).ending.succeeded for handle in handles] == [True] * 3

    fleet = in_fleet(body, robots=ROBOTS)
    assert [note[1] for note in fleet.notes('r2') if note[0] == 'start'] == ['act(5000)']


def test_the_robot_that_is_free_sooner_gets_the_task() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.submit(fleet.task('before', instruction='8')).result()
        for number, robot in enumerate(ROBOTS):
            fleet.submit(fleet.task(robot, robot, instruction='8'))
            await asyncio.sleep(1.0 if number < 2 else 0.1)
        handle = fleet.submit(anybody(fleet, 'next', instruction='1'))
        assert handle.task.robot == 'r1'
        assert (await handle.result()).ending.succeeded

    in_fleet(body, robots=ROBOTS)


def test_of_equals_the_nearest_and_then_the_first() -> None:
    async def body(fleet: Fleet) -> None:
        planner, task = fleet.planner, anybody(fleet, 'task')
        assert planner.choose(task).robot == 'r1'
        near = planner.choose(task, {'r1': 4.0, 'r2': 1.5, 'r3': None}.get)
        assert (near.robot, near.alternatives) == ('r2', ())
        assert '1.5 m away' in near.why_robot
        # A task of one robot stays as it is.
        own = fleet.task('own')
        assert planner.choose(own) is own
        assert own.why_robot == ''

    in_fleet(body, robots=ROBOTS)


def test_robots_that_are_lost_or_full_are_left_out_and_told_if_there_is_no_other() -> None:
    async def body(fleet: Fleet) -> None:
        await fleet.executors['r1'].close()
        task = anybody(fleet, 'task')
        assert fleet.planner.choose(task).robot == 'r2'
        await fleet.executors['r2'].close()
        await fleet.executors['r3'].close()
        with pytest.raises(RobotUnavailableError, match="no robot can take it: robot 'r1': its ex"):
            fleet.planner.prepare(task)

    in_fleet(body, robots=ROBOTS)


def test_the_reason_names_the_chosen_one_first_and_few_of_many() -> None:
    outlooks = [RobotOutlook(f'r{n}', 0.5, 2.0 * n, 1) for n in range(10)]
    outlooks[7] = RobotOutlook('r7', 0.9, 0.0, 0, 3.0)
    robot, why = choose_robot(outlooks)
    assert robot == 'r7'
    assert why.startswith('r7: expected utility 0.90, free, 3.0 m away; r0: expected utility 0.50')
    assert why.endswith('; 4 more')
