"""The whole planner with the simulated engine and simulated drones, hours in a moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import SegmentEnded, SegmentReady, Task, TaskResult, TaskStatus
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.planner import PlannerEvent

TELLO = find_skill_set('tello')
SCENE = Scene(
    (SceneObject('cat_3', 'cat', x_m=2.0, y_m=1.0), SceneObject('cup_1', 'cup', x_m=-1.0))
)
PLANS = (
    'takeoff;goto(cat_3);take_picture;move_up(50);land;',
    'takeoff;repeat(3){move_forward(40);scan;};land;',
    'takeoff;is_visible(cat_3);take_picture;land;',
    'takeoff;if(is_visible(cup_1)){goto(cup_1);take_picture;}else{scan;};land;',
)
ROBOTS = 12


def fly(seed: int, **engine_options: Any) -> tuple[list[PlannerEvent], list[TaskResult]]:
    """Give each of twelve drones one task and, behind it or instead of it, a second one."""

    async def main() -> tuple[list[PlannerEvent], list[TaskResult]]:
        clock, events = LoopClock(), list[Any]()
        engine = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda request: PLANS[
                    int(request.generation_id.split('-')[1]) % len(PLANS)
                ],
                **engine_options,
            )
        )
        executors = {
            f'drone_{n}': SegmentExecutor(
                SimulatedDriver(TELLO, SimulatedOptions(seed=seed + n)), TELLO, clock
            )
            for n in range(ROBOTS)
        }
        planner = Planner(
            engine=engine,
            robots={n: LocalRobotLink(e, clock, latency_s=0.008) for n, e in executors.items()},
            skill_sets={'tello': TELLO},
            clock=clock,
            on_event=events.append,
        )
        for executor in executors.values():
            await executor.start()
        await planner.start()
        handles = []
        for number in range(2 * ROBOTS):
            if number == ROBOTS:
                await asyncio.sleep(3.0)
            task = Task(
                f't-{number}',
                f'drone_{number % ROBOTS}',
                'tello',
                'look for the cat',
                SCENE,
                URGENT if number % 3 == 0 else NORMAL,
                when_busy='abort' if number % 2 else 'queue',
            )
            handles.append(planner.submit(planner.prepare(task)))
        results = [await handle.result() for handle in handles]
        await planner.close()
        for executor in executors.values():
            await executor.close()
        return events, results

    return run_virtual(main())


@pytest.mark.parametrize('mode', ['segmented', 'stream', 'whole_plan'])
@pytest.mark.parametrize('policy', ['fcfs', 'utility'])
def test_every_task_is_done_or_superseded(mode: str, policy: str) -> None:
    events, results = fly(1, mode=mode, policy=policy)
    first, second = results[:ROBOTS], results[ROBOTS:]
    assert all(result.status is TaskStatus.SUCCEEDED for result in second)
    assert [result.ending.code for result in first] == [3 if n % 2 else 0 for n in range(ROBOTS)]
    whole = mode == 'whole_plan'
    for result in second:
        assert (result.segments == 1) == whole
        assert result.response_s is not None
        assert result.response_s > 0
    ready = [event for event in events if isinstance(event, SegmentReady)]
    assert all(event.generation_s > 0 and event.expected_execution_s > 0 for event in ready)
    outcomes = [event.outcome for event in events if isinstance(event, SegmentEnded)]
    assert any(outcome.value in ('true', 'false') for outcome in outcomes) != whole


def test_segments_answer_sooner_than_whole_plans() -> None:
    def median_response_s(mode: str) -> float:
        responses_s = sorted(result.response_s or 0.0 for result in fly(1, mode=mode)[1][:ROBOTS])
        return responses_s[ROBOTS // 2]

    assert median_response_s('segmented') < 0.5 * median_response_s('whole_plan')


def test_equal_seeds_give_equal_runs_to_the_last_bit() -> None:
    assert repr(fly(1)) == repr(fly(1))
    assert repr(fly(1)) != repr(fly(2))
