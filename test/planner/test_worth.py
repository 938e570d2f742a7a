"""Tasks that can no longer earn what they are wanted for end as such, before they cost more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.engines.scripted import engine_of

from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine
from timely_llm_ros.errors import InvalidTaskError, WorthlessError
from timely_llm_ros.testing import Fleet, Script, acts, in_fleet
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

if TYPE_CHECKING:
    from timely_llm_ros.planner import TaskResult

WANTED = replace(NORMAL, floor=0.0)


def test_an_answer_is_not_wanted_once_it_is_worth_its_floor() -> None:
    assert WANTED.worthless_after_s == pytest.approx(1.5)
    assert replace(URGENT, floor=1.0).worthless_after_s == pytest.approx(0.2 + 1.0 / 6.67)
    assert NORMAL.worthless_after_s == float('inf')
    assert TimeUtility(1.0, 0.0, 1.0, floor=0.0).worthless_after_s == float('inf')


@pytest.mark.parametrize('floor', [1.0, 2.0, float('nan')])
def test_a_floor_lies_below_the_peak(floor: float) -> None:
    with pytest.raises(InvalidTaskError, match=f'utility floor {floor}: expected a number below'):
        replace(NORMAL, floor=floor)


def test_a_task_without_a_segment_in_time_is_ended_and_its_generation_with_it() -> None:
    results: list[TaskResult] = []

    async def body(fleet: Fleet) -> None:
        results.append(await fleet.submit(fleet.task('late', utility=WANTED)).result())
        assert asyncio.get_running_loop().time() == pytest.approx(1.5)

    fleet = in_fleet(body, lambda _: Script(acts(1), at_s=[1.7]))
    assert results[0].ending.code == WorthlessError.code
    assert 'no segment was there after 1.50 s' in results[0].ending.message
    assert engine_of(fleet).canceled == ['late']
    assert all(event != 'start' for event, _ in fleet.notes())


def test_a_task_with_a_segment_in_time_goes_on_however_long_it_takes() -> None:
    async def body(fleet: Fleet) -> None:
        task = fleet.task('long', utility=WANTED)
        assert (await fleet.submit(task).result()).ending.succeeded

    in_fleet(body, lambda _: Script(acts(1, 5), at_s=[1.4, 4.0]))


def test_a_task_whose_robot_never_comes_to_it_is_ended_while_it_queues() -> None:
    results: list[TaskResult] = []

    async def body(fleet: Fleet) -> None:
        fleet.submit(fleet.task('first', instruction='9'))
        task = fleet.task('second', utility=WANTED, when_busy='queue')
        results.append(await fleet.submit(task).result())

    fleet = in_fleet(body)
    assert results[0].ending.code == WorthlessError.code
    assert 'its robot had not come to it after 1.50 s' in results[0].ending.message
    assert [request.generation_id for request in engine_of(fleet).requests] == ['first']


def test_what_is_not_begun_and_cannot_be_in_time_costs_the_engine_no_step() -> None:
    robots = tuple(f'r{number}' for number in range(40))
    results: list[TaskResult] = []

    async def body(fleet: Fleet) -> None:
        handles = [
            fleet.submit(fleet.task(robot, robot, instruction='act(1);', utility=WANTED))
            for robot in robots
        ]
        results.extend([await handle.result() for handle in handles])

    # One at a time, 0.1 s a token: two tokens and the end of each plan.
    engine = SimulatedEngine(
        SimulatedConfig(plan_text=lambda _: ['', 'act(1);'], max_running=1, min_step_s=0.1)
    )
    in_fleet(body, engine=engine, robots=robots)
    codes = [result.ending.code for result in results]
    assert set(codes) == {0, WorthlessError.code}
    assert codes.count(0) >= 5
    assert all(result.tokens == 0 for result in results if result.ending.code)
    assert all(result.utility > 0 for result in results if not result.ending.code)
    (text, *_) = [result.ending.message for result in results if result.ending.code]
    assert 'its first action would come after' in text


def test_one_that_has_the_engine_to_itself_is_tried_whatever_others_took() -> None:
    results: list[TaskResult] = []

    async def body(fleet: Fleet) -> None:
        # Their first segments take 3 s; nothing else is known of the skill set.
        for number in range(4):
            task = fleet.task(f'long {number}', instruction='long', utility=NORMAL)
            assert (await fleet.submit(task).result()).ending.succeeded
        for utility in (WANTED, replace(URGENT, floor=0.0)):
            task = fleet.task(f'{utility.peak}', instruction='short', utility=utility)
            results.append(await fleet.submit(task).result())

    engine = SimulatedEngine(
        SimulatedConfig(
            plan_text=lambda request: (
                [''] * (29 if 'long' in request.prompt.body else 1) + ['act(1);']
            ),
            min_step_s=0.1,
        )
    )
    in_fleet(body, engine=engine)
    assert [result.ending.code for result in results] == [0, 0]
    assert all(result.utility > 0 for result in results)
