"""Which tasks are taken when more is asked than can be served, by the whole planner."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from support.engines.scripted import engine_of

from timely_llm_ros.errors import ConfigurationError, SupersededError, TaskRefusedError
from timely_llm_ros.planner import PlannerConfig, Task, TaskResult
from timely_llm_ros.planner.gate import client_weights
from timely_llm_ros.testing import Fleet, Script, acts, in_fleet
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

WANTED = replace(NORMAL, floor=0.0)


async def teach(fleet: Fleet) -> None:
    """Have plans served that take their robot 4 s."""
    for number in range(4):
        await fleet.submit(fleet.task(f'taught {number}', instruction='4')).result()


def test_a_task_whose_robot_is_busy_for_too_long_is_refused_with_numbers() -> None:
    async def body(fleet: Fleet) -> None:
        await teach(fleet)
        fleet.submit(fleet.task('first', instruction='4'))
        queued = fleet.task('second', instruction='4', utility=WANTED, when_busy='queue')
        with pytest.raises(TaskRefusedError, match=r'4.\d\d s for its robot.*expected more than 0'):
            fleet.planner.prepare(queued)
        # Whoever says nothing of a floor waits, and whoever comes late enough is taken.
        fleet.planner.prepare(replace(queued, utility=NORMAL))
        await asyncio.sleep(3.5)
        prepared = fleet.planner.prepare(queued)
        assert prepared.expected is not None
        assert 0.4 < prepared.expected.response_s < 1.5
        assert (await fleet.planner.submit(prepared).result()).utility > 0

    in_fleet(body)


def test_nothing_is_refused_where_that_is_not_wanted() -> None:
    async def body(fleet: Fleet) -> None:
        await teach(fleet)
        fleet.submit(fleet.task('first', instruction='4'))
        fleet.planner.prepare(fleet.task('second', utility=WANTED, when_busy='queue'))

    in_fleet(body, config=PlannerConfig(refuses_by_worth=False))


def test_where_robots_lack_a_free_one_is_kept_for_what_is_worth_more_in_its_time() -> None:
    async def body(fleet: Fleet) -> None:
        urgent = replace(URGENT, floor=0.0)

        def short(name: str, robot: str = 'r1') -> Task:
            return fleet.task(name, robot, instruction='1', utility=urgent, when_busy='queue')

        long = fleet.task('long', 'r3', instruction='8', utility=WANTED, when_busy='queue')
        for number in range(4):
            for task in (short(f's{number}'), replace(long, task_id=f'l{number}')):
                await fleet.submit(task).result()
        for robot in ('r1', 'r2'):
            fleet.submit(fleet.task(f'busy {robot}', robot, instruction='8'))
        await asyncio.sleep(1.0)
        # Nobody came in vain yet.
        fleet.planner.prepare(long)
        for number in range(40):
            with pytest.raises(TaskRefusedError, match='for its robot'):
                fleet.planner.prepare(short(f'in vain {number}', f'r{1 + number % 2}'))
            await asyncio.sleep(0.1)
        with pytest.raises(TaskRefusedError, match=r'expected at least .* 8\.\d s of its robot'):
            fleet.planner.prepare(long)
        assert fleet.submit(short('short', 'r3'))
        await asyncio.sleep(20.0)
        # No robot has a task now.
        fleet.planner.prepare(long)

    in_fleet(body, robots=('r1', 'r2', 'r3'))


def test_an_idle_fleet_refuses_nobody() -> None:
    async def body(fleet: Fleet) -> None:
        await teach(fleet)
        for number in range(500):
            # Whatever was asked for before.
            fleet.planner.prepare(fleet.task(f'asked {number}', utility=WANTED))
        assert fleet.submit(fleet.task('taken', utility=WANTED))

    in_fleet(body)


def test_the_robot_takes_whoever_loses_most_before_whoever_came_first() -> None:
    began: list[str] = []

    async def body(fleet: Fleet) -> None:
        await teach(fleet)
        utilities = {
            'first': NORMAL,
            'hopeless': URGENT,
            'normal': TimeUtility(60.0, -2.0, 1.0),
            'urgent': TimeUtility(60.0, -6.67, 2.0),
            'last': TimeUtility(60.0, -2.0, 1.0),
        }
        handles = [
            fleet.submit(
                fleet.task(name, instruction='4', utility=utility, when_busy='queue'),
            )
            for name, utility in utilities.items()
        ]
        for handle in handles:
            await handle.result()
        began.extend(request.generation_id for request in engine_of(fleet).requests[4:])

    in_fleet(body)
    assert began == ['first', 'urgent', 'normal', 'last', 'hopeless']


def test_nobody_waits_for_ever_behind_more_urgent_ones() -> None:
    async def body(fleet: Fleet) -> None:
        await teach(fleet)
        urgent = TimeUtility(1000.0, -6.67, 2.0)
        fleet.submit(fleet.task('running', instruction='4', utility=urgent))
        patient = fleet.submit(fleet.task('patient', instruction='4', when_busy='queue'))
        for number in range(14):
            task = fleet.task(f'u{number}', instruction='4', utility=urgent, when_busy='queue')
            fleet.submit(task)
            await asyncio.sleep(4.0)
        assert (await patient.result()).ending.succeeded
        assert asyncio.get_running_loop().time() < 16.0 + 14 * 4.0 + 10.0

    in_fleet(body)


def test_what_runs_is_ended_only_for_what_is_worth_more_than_it() -> None:
    results: dict[str, TaskResult] = {}

    async def body(fleet: Fleet) -> None:
        await teach(fleet)
        running = fleet.submit(fleet.task('running', instruction='4', utility=WANTED))
        await asyncio.sleep(1.0)
        # Each would end the one before it: none is worth more than that.
        for number in range(5):
            with pytest.raises(TaskRefusedError, match='for its robot'):
                fleet.planner.prepare(fleet.task(f'same {number}', utility=WANTED))
        urgent = fleet.task('urgent', instruction='4', utility=replace(URGENT, floor=0.0))
        results['urgent'] = await fleet.submit(urgent).result()
        results['running'] = await running.result()

    in_fleet(body)
    assert results['urgent'].ending.succeeded
    assert results['running'].ending.code == SupersededError.code


def test_nobody_takes_over_from_its_like_before_that_had_its_response() -> None:
    utility = replace(URGENT, floor=0.0)
    ended: list[int] = []

    async def body(fleet: Fleet) -> None:
        for number in range(50):
            await fleet.submit(fleet.task(f'taught {number}', utility=utility)).result()
        first = fleet.submit(fleet.task('first', utility=utility))
        for number in range(5):
            await asyncio.sleep(0.05)
            with contextlib.suppress(TaskRefusedError):
                fleet.submit(fleet.task(f'same {number}', utility=utility))
        ended.append((await first.result()).ending.code)

    in_fleet(body, lambda _: Script(acts(1), every_s=0.3))
    assert ended == [0]


def test_a_task_without_a_floor_takes_over_when_it_asks_to() -> None:
    async def body(fleet: Fleet) -> None:
        await teach(fleet)
        running = fleet.submit(fleet.task('running', instruction='4', utility=WANTED))
        await asyncio.sleep(1.0)
        fleet.submit(fleet.task('next', instruction='4'))
        assert (await running.result()).ending.code == SupersededError.code

    in_fleet(body)


@pytest.mark.parametrize('entry', ['noisy', ':2', 'noisy:0', 'noisy:much', 'noisy:inf'])
def test_a_weight_is_a_number_above_zero(entry: str) -> None:
    with pytest.raises(ConfigurationError, match='expected "name:weight"'):
        client_weights([entry])
    assert client_weights(['a:b:2', 'c:0.5']) == {'a:b': 2.0, 'c': 0.5}
