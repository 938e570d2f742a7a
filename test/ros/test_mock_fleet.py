"""Four mock Tellos and a mock Indy, moved by a real executor program with the real drivers."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
from std_msgs.msg import Header
from std_srvs.srv import Trigger
from support.ros.mock_tellos import MockTellos
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import Detections

from timely_llm_ros.drivers.indy.mock.arm import MockIndy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.ros.fleet import Fleet
    from support.ros.ros_client import Client

Result = PlanTask.Result
DRONES = [f'drone_{number}' for number in range(1, 5)]
SAFE = ('hover', 'landing', 'ground', 'wreck')
LONG = 'takeoff;move_forward(500);move_backward(500);land;'


@pytest.fixture(scope='module')
def mocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockTellos]:
    mocks = MockTellos(tmp_path_factory.mktemp('mocks'), DRONES)
    yield mocks
    mocks.close()


@pytest.fixture(scope='module')
def arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockIndy]:
    arm = MockIndy(tmp_path_factory.mktemp('arm'), speed=4.0)
    yield arm
    arm.close()


@pytest.fixture(scope='module')
def fleet(
    mocks: MockTellos,
    arm: MockIndy,
    start_fleet: Callable[..., Fleet],
    tmp_path_factory: pytest.TempPathFactory,
) -> Fleet:
    """All in one executor, as Tellos have to be; one of them sees what a topic says."""
    entries = mocks.drivers | {
        'drone_4': mocks.drivers['drone_4'] | {'perception': 'topic'},
        'arm_1': {
            'driver': 'indy',
            'host': arm.host,
            'speed': 1.0,
            'perception': 'simulated',
            'answer_limit_s': 1.5,
            'link_limit_s': 5.0,
        },
    }
    file = tmp_path_factory.mktemp('drivers') / 'drivers.yaml'
    file.write_text(json.dumps(entries), encoding='utf-8')
    return start_fleet(
        robots=dict.fromkeys(DRONES, 'tello') | {'arm_1': 'arm'},
        executor={'drivers_file': str(file), 'timeout_margin_s': 60.0},
    )


def test_a_fleet_does_its_plans(fleet: Fleet, mocks: MockTellos, arm: MockIndy) -> None:
    plan = 'takeoff;move_up(30);turn_cw(90);goto(cat_1);take_picture;land;'
    goals = [fleet.plan(plan, drone, ('cat_1',)) for drone in DRONES[:3]]
    goals.append(fleet.plan('takeoff;repeat(2){move_left(50);turn_ccw(180);};land;', 'drone_4'))
    goals.append(fleet.plan('move_to(40,20,30);home;', 'arm_1'))
    for goal in goals:
        status, result = goal.result()
        assert status == SUCCEEDED, result.error_msg
    assert [entry['event'] for entry in arm.record].count('move') == 2
    assert arm.stands_still
    for drone in DRONES:
        assert mocks.phases(drone)[0] == 'takeoff'
        assert mocks.phases(drone)[-1] == 'ground'
    commands = mocks.commands('drone_4')
    assert commands[commands.index('takeoff') :] == [
        'takeoff', 'left 50', 'ccw 180', 'left 50', 'ccw 180', 'land',
    ]  # fmt: skip


def test_a_refusal_is_told_to_who_sent_the_task(fleet: Fleet, mocks: MockTellos) -> None:
    mocks.fault('drone_1', 'refuse right error Not joystick')
    status, result = fleet.plan('takeoff;move_right(50);land;').result()
    mocks.fault('drone_1', 'heal')
    assert status == ABORTED
    assert result.error_code == Result.EXECUTION_FAILED
    assert 'move_right(50)' in result.error_msg
    assert 'error Not joystick' in result.error_msg
    assert mocks.phases('drone_1')[-1] in SAFE


def test_a_low_battery_ends_the_flight_and_lands(fleet: Fleet, mocks: MockTellos) -> None:
    goal = fleet.plan(LONG, 'drone_2')
    mocks.wait_phase('drone_2', 'move')
    mocks.fault('drone_2', 'battery 9')
    status, result = goal.result()
    assert status == ABORTED
    assert '%: expected more than 10 % in the air' in result.error_msg
    mocks.wait_phase('drone_2', 'ground')
    mocks.fault('drone_2', 'battery 80')


def test_a_lost_aircraft_is_safe_when_it_is_back_and_flies_again(
    fleet: Fleet, mocks: MockTellos
) -> None:
    goal = fleet.plan(LONG, 'drone_3')
    mocks.wait_phase('drone_3', 'move')
    mocks.fault('drone_3', 'lost')
    status, result = goal.result()
    assert status == ABORTED
    assert 'silent for' in result.error_msg
    mocks.fault('drone_3', 'heal')
    mocks.wait_phase('drone_3', *SAFE)

    def flies() -> bool:
        return bool(fleet.plan('takeoff;land;', 'drone_3').result()[0] == SUCCEEDED)

    wait_for(flies, 'drone_3 flies again')


def test_what_it_sees_is_what_a_perception_node_says(
    fleet: Fleet, mocks: MockTellos, client: Client
) -> None:
    sender = client.node.create_publisher(Detections, fleet.name('drone_4/detections'), 1)
    asked: list[Header] = []
    client.node.create_subscription(Header, fleet.name('drone_4/take_picture'), asked.append, 10)
    message = Detections(labels=['cat', 'dog'], scores=[0.9, 0.2])
    timer = client.node.create_timer(0.05, lambda: sender.publish(message))
    wait_for(sender.get_subscription_count, 'executor that listens')
    plan = (
        'takeoff;if(is_visible(cat_1)){turn_cw(45);};if(is_visible(dog_1)){turn_cw(90);};'
        'take_picture;land;'
    )
    flown = len(mocks.commands('drone_4'))
    status, result = fleet.plan(plan, 'drone_4', ('cat_1', 'dog_1')).result()
    assert status == SUCCEEDED, result.error_msg
    assert mocks.commands('drone_4')[flown:] == ['takeoff', 'cw 45', 'land']
    wait_for(lambda: asked, 'request for a picture')
    timer.cancel()
    status, result = fleet.plan('is_visible(cat_1);', 'drone_4', ('cat_1',)).result()
    assert status == ABORTED
    assert 'expected a perception node' in result.error_msg


def test_an_emergency_cuts_the_motors(fleet: Fleet, mocks: MockTellos) -> None:
    goal = fleet.plan(LONG, 'drone_4')
    mocks.wait_phase('drone_4', 'move')
    name = fleet.name('drone_4/emergency')
    assert fleet.client.service(Trigger, name, Trigger.Request()).success
    status, result = goal.result()
    assert status == ABORTED
    assert 'emergency' in result.error_msg
    assert mocks.phases('drone_4')[-1] == 'wreck'


def test_a_killed_executor_leaves_nobody_in_the_air(
    fleet: Fleet, mocks: MockTellos, arm: MockIndy
) -> None:
    goals = [fleet.plan(LONG, drone) for drone in DRONES[:3]]
    for drone in DRONES[:3]:
        mocks.wait_phase(drone, 'move')
    goals.append(fleet.plan('repeat(10){move_to(40,20,30);move_to(20,-40,50);};', 'arm_1'))
    wait_for(lambda: not arm.stands_still, 'the arm moves')
    (worker,) = fleet.executors[0].children
    os.kill(worker, signal.SIGKILL)
    for drone in DRONES[:3]:
        mocks.wait_phase(drone, 'ground')
    wait_for(lambda: arm.stands_still, 'the arm stands still')
    for goal in goals:
        status, result = goal.result()
        assert status == ABORTED
        assert result.error_code == Result.ROBOT_UNAVAILABLE
