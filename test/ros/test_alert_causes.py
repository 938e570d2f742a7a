"""Alerts fire when what they are for happens to a fleet that runs.

What a recorder and model servers may suffer is caused where they are tested: ``test_recorder.py``,
``test_changing_servers.py``.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from builtin_interfaces.msg import Duration
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from std_srvs.srv import SetBool
from support.loopback import free_port
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED
from support.ros.scraping import Watch, scrape
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet
    from support.ros.ros_client import Goal

Result = PlanTask.Result
ROBOTS = ('drone_1', 'drone_2', 'drone_3')
AT_ONCE = TimeUtility(expected_response=Duration(nanosec=1_000_000), slope_per_s=-0.01, peak=1.0)


@pytest.fixture(scope='module')
def ports() -> dict[str, int]:
    """Return where planner and executor tell their metrics."""
    return {'planner': free_port(), 'executor': free_port()}


@pytest.fixture(scope='module')
def fleet(
    start_fleet: Callable[..., Fleet],
    tmp_path_factory: pytest.TempPathFactory,
    ports: dict[str, int],
) -> Fleet:
    folder = tmp_path_factory.mktemp('files')
    envelope = {'driver': 'simulated', 'envelope': {'maximum_height_m': 2.0}}
    files = {
        'drivers': dict.fromkeys(ROBOTS, envelope),
        'access': {'anyone': {'robots': ROBOTS[:2]}},
    }
    for name, content in files.items():
        (folder / name).write_text(yaml.safe_dump(content), encoding='utf-8')
    return start_fleet(
        robots=dict.fromkeys(ROBOTS, 'tello'),
        planner={
            'access_file': str(folder / 'access'),
            'max_kv_tokens': 600,
            'metrics_port': ports['planner'],
            'robot_timeout_s': 2.0,
        },
        executor={'drivers_file': str(folder / 'drivers'), 'metrics_port': ports['executor']},
    )


@pytest.fixture
def watch(fleet: Fleet, ports: dict[str, int]) -> Watch:
    del fleet
    return Watch(**ports)


def wait_each_fires(watch: Watch, *alerts: str) -> None:
    missing = set(alerts)

    def all_have_fired() -> bool:
        missing.difference_update([alert for alert in missing if watch.fires(alert)])
        return not missing

    wait_for(all_have_fired, f'{alerts}')


def test_tasks_that_are_refused_or_fail(fleet: Fleet, watch: Watch) -> None:
    assert fleet.plan('delay(100);').result()[0] == SUCCEEDED
    # The figures are those of the last second: the first ones may be from before its activation.
    wait_for(lambda: not watch.firing(), 'figures of an active planner, without an alert')
    assert fleet.plan('land;', 'drone_3').result()[1].error_code == Result.NOT_ALLOWED
    status, result = fleet.plan('takeoff;move_up(300);land;').result()
    assert (status, result.error_code) == (ABORTED, Result.EXECUTION_FAILED)
    wait_each_fires(watch, 'TimelyForbiddenGoals', 'TimelyOutOfEnvelope', 'TimelyTasksFail')


def test_more_is_asked_than_the_engine_can_do(
    fleet: Fleet, watch: Watch, ports: dict[str, int]
) -> None:
    def plan(robot: str, calls: int) -> Goal:
        return fleet.plan('delay(100);' * calls, robot, utility=AT_ONCE)

    plan('drone_1', 12).result()
    # Prometheus has to see a class of tasks before it can say what came since.
    late = ('expected_response_s', '0.001')
    wait_for(lambda: any(late in labels for _, labels in scrape(ports['planner'])), 'its class')
    watch.look()
    for _ in range(30):
        for robot in ROBOTS[:2]:
            plan(robot, 12)
    wait_each_fires(watch, 'TimelyOverloaded', 'TimelyLate')
    # There is no room for both: each segment of one costs the other its KV.
    for robot in ROBOTS[:2]:
        plan(robot, 40)
    wait_each_fires(watch, 'TimelyKvFull')


def test_a_robot_that_is_halted_or_not_active(fleet: Fleet, watch: Watch) -> None:
    def call(kind: Any, service: str, **fields: Any) -> None:
        assert fleet.client.service(kind, fleet.name(service), kind.Request(**fields)).success

    call(SetBool, 'drone_2/halt', data=True)
    wait_each_fires(watch, 'TimelyRobotHalted')
    call(SetBool, 'drone_2/halt', data=False)
    for transition in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_ACTIVATE):
        call(ChangeState, 'executor/change_state', transition=Transition(id=transition))
        if transition == Transition.TRANSITION_DEACTIVATE:
            wait_each_fires(watch, 'TimelyRobotInactive')


def test_an_executor_that_dies_and_a_planner_that_is_deactivated(
    fleet: Fleet, watch: Watch
) -> None:
    executor = fleet.executors[0]
    os.kill(executor.pid, signal.SIGKILL)
    wait_each_fires(watch, 'TimelyNodeDown', 'TimelyRobotLost')
    assert fleet.change_state(Transition.TRANSITION_DEACTIVATE)
    wait_each_fires(watch, 'TimelyPlannerInactive')
