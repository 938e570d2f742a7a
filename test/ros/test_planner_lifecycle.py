"""The planner's states, its parameters, and what it says when it cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from lifecycle_msgs.msg import Transition
from rcl_interfaces.msg import Log, ParameterType, ParameterValue
from rclpy.qos import ReliabilityPolicy
from support.process_table import is_running
from support.ros.programs import LIMIT_S, PYTHONPATH, Program, wait_for
from support.ros.ros_client import ABORTED, ASK_AGAIN_S, CANCELED, SUCCEEDED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import Detections, TaskEvent

from timely_llm_ros.demo import node_command
from timely_llm_ros.nodes.tools.parameters_page import NODES
from timely_llm_ros.ros.parameters import declarations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.fleet import Fleet
    from support.ros.ros_client import Client

pytestmark = pytest.mark.distro

Result = PlanTask.Result

DEAF = """
import timely_llm_ros.nodes.planner.node as module

def fail(_):
    raise RuntimeError('nobody knows how the planner is')

module.PlannerNode._tell_health = fail
"""
"""Run by the interpreter before a program that has it in its path."""


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet(planner={'autostart': False}, executor={'time_scale': 1.0})


def test_warnings_are_on_rosout_in_the_name_of_their_node(fleet: Fleet, client: Client) -> None:
    heard: list[Log] = []
    rosout = client.do(client.node.create_subscription, Log, '/rosout', heard.append, 10)
    # The planner is not active: it refuses, and says so.
    fleet.plan('delay(100);').wait_rejected()
    wait_for(
        lambda: [
            log
            for log in heard
            if log.level == 30
            and log.name.startswith(fleet.name('planner').strip('/').replace('/', '.'))
        ],
        'the warning',
    )
    client.do(client.node.destroy_subscription, rosout)


def whole(value: int) -> ParameterValue:
    return ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=value)


def texts(*values: str) -> ParameterValue:
    return ParameterValue(
        type=ParameterType.PARAMETER_STRING_ARRAY, string_array_value=list(values)
    )


def text(value: str) -> ParameterValue:
    return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=value)


def check_changes_while_active(fleet: Fleet) -> None:
    """With a task under way: refused with a reason, or in use for the next decision."""
    for name, value, expected in (
        ('policy', text('best'), 'one of'),
        ('policy', ParameterValue(type=ParameterType.PARAMETER_BOOL), 'expected'),
        ('client_weights', texts('web:-1'), '"name:weight"'),
        ('max_queue_per_robot', whole(-1), '0'),
        ('log_level', text('loud'), 'one of'),
    ):
        refused = fleet.set_parameter(name, value)
        assert not refused.successful
        assert expected in refused.reason
    assert fleet.scheduler[-1].policy == 'least_loss'
    assert fleet.set_parameter('policy', text('edf')).successful
    wait_for(lambda: fleet.scheduler[-1].policy == 'edf', 'the policy in the state')
    assert fleet.set_parameter('admission', text('fixed')).successful
    assert fleet.planner is not None
    assert 'admission: lookahead -> fixed' in fleet.planner.output

    assert fleet.set_parameter('max_queue_per_robot', whole(0)).successful
    full = fleet.plan('scan;', when_busy=PlanTask.Goal.BUSY_QUEUE)
    status, result = full.result()
    assert (status, result.error_code) == (ABORTED, Result.REFUSED)
    assert fleet.set_parameter('max_queue_per_robot', whole(8)).successful


def test_life(fleet: Fleet) -> None:
    assert fleet.state() == 'unconfigured'
    fleet.plan('delay(100);').wait_rejected()

    # A model that is not there: the node says so and stays unconfigured.
    # One parameter after the other: what belongs together is looked at when it is configured.
    assert fleet.set_parameter('engine', text('openai')).successful
    assert fleet.set_parameter('log_level', text('info')).successful
    assert fleet.set_parameter('max_queue_per_robot', whole(7)).successful
    assert fleet.set_parameter('max_queue_per_robot', whole(8)).successful
    assert fleet.set_parameter('engine', text('torch')).successful
    assert fleet.set_parameter('model_path', text('/no/such/model')).successful
    assert not fleet.change_state(Transition.TRANSITION_CONFIGURE)
    assert fleet.state() == 'unconfigured'
    assert fleet.planner is not None
    assert '/no/such/model' in fleet.planner.output

    assert fleet.set_parameter('engine', text('simulated')).successful
    assert fleet.change_state(Transition.TRANSITION_CONFIGURE)
    assert fleet.state() == 'inactive'
    before = len(fleet.events)
    fleet.plan('delay(100);').wait_rejected()
    event = wait_for(lambda: fleet.events[before:], 'refusal')[0]
    assert (event.event, event.error_code) == (TaskEvent.REFUSED, Result.SHUTDOWN)
    refused = fleet.set_parameter('mode', text('stream'))
    assert not refused.successful
    assert 'unconfigured' in refused.reason
    assert 'max_queue_per_robot' in refused.reason

    assert fleet.change_state(Transition.TRANSITION_ACTIVATE)
    fleet.wait_planning()
    assert fleet.plan('delay(100);').result()[0] == SUCCEEDED

    goal = fleet.plan('delay(10000);')
    fleet.wait_started('delay(10000)')
    check_changes_while_active(fleet)
    assert fleet.change_state(Transition.TRANSITION_DEACTIVATE)
    status, result = goal.result()
    assert (status, result.error_code) == (ABORTED, Result.SHUTDOWN)
    assert fleet.journal()[-1]['event'] == 'safe'

    assert fleet.change_state(Transition.TRANSITION_CLEANUP)
    assert fleet.set_parameter('policy', text('fcfs')).successful
    fleet.forget_planner()
    assert fleet.change_state(Transition.TRANSITION_CONFIGURE)
    assert fleet.change_state(Transition.TRANSITION_ACTIVATE)
    fleet.wait_planning()
    assert fleet.plan('delay(100);').result()[0] == SUCCEEDED
    wait_for(lambda: fleet.scheduler[-1].policy == 'fcfs', 'policy')

    assert fleet.change_state(Transition.TRANSITION_ACTIVE_SHUTDOWN)
    assert fleet.state() == 'finalized'
    fleet.plan('delay(100);').wait_rejected()


@pytest.mark.parametrize('node', ['planner', 'executor'])
def test_all_parameters_are_told_at_once(fleet: Fleet, node: str) -> None:
    told = fleet.parameters(node)
    assert set(declarations(NODES[node])) <= set(told)
    assert all(value.type != ParameterType.PARAMETER_NOT_SET for value in told.values())


@pytest.mark.parametrize('node', ['planner', 'executor'])
def test_parameters_are_declared_as_documented(fleet: Fleet, node: str) -> None:
    descriptors = fleet.described_parameters(node)
    expected = declarations(NODES[node])
    own = set(descriptors) - {'use_sim_time', 'start_type_description_service'}
    overrides = {name for name in own if name.startswith('qos_overrides.')}
    assert own - overrides == set(expected)
    topics = {
        'task_events.publisher', 'scheduler_state.publisher', 'diagnostics.publisher',
    } if node == 'planner' else set()  # fmt: skip
    assert {name.rpartition('.')[0] for name in overrides} == {
        f'qos_overrides.{fleet.name(topic)}' for topic in topics
    }
    for name, declaration in expected.items():
        descriptor, declared = descriptors[name], declaration.option
        assert descriptor.description == declared.description
        assert descriptor.read_only == declaration.read_only
        bounds = list(descriptor.floating_point_range) + list(descriptor.integer_range)
        if declared.minimum is not None:
            assert [(bound.from_value, bound.to_value) for bound in bounds] == [
                (declared.minimum, declared.maximum)
            ]


def test_bad_model_ends_the_program(tmp_path: Path) -> None:
    parameters = {'robots': ['drone_1:tello'], 'engine': 'torch', 'model_path': str(tmp_path)}
    planner = Program('planner', tmp_path, parameters, namespace='no_model')
    assert planner.wait() == 1
    assert str(tmp_path) in planner.output
    assert 'Traceback' not in planner.output


def test_a_planner_that_can_show_no_more_signs_of_life_ends(tmp_path: Path) -> None:
    # It would be there and serve nobody, and its robots' next planner might not claim its name.
    (tmp_path / 'sitecustomize.py').write_text(DEAF)
    environment = os.environ | {'PYTHONPATH': f'{tmp_path}{os.pathsep}{PYTHONPATH}'}
    command = node_command('planner', {'robots': ['drone_1:tello'], 'engine': 'simulated'})
    done = subprocess.run(
        [*command, '-r', '__ns:=/deaf'],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert 'no more signs of life: leaving' in done.stdout
    assert 'RuntimeError: nobody knows how the planner is' in done.stdout


@pytest.mark.parametrize(
    ('name', 'parameters', 'said'),
    [
        ('planner', {'max_running': 0}, ["'max_running'", '0', '1 to 1024']),
        ('planner', {'policy': 'best'}, ["'policy'", "'best'", 'utility']),
        ('planner', {'max_running': 'many'}, ["'max_running'", 'integer']),
        ('planner', {'robots': ['drone_1']}, ["'drone_1'", 'name:skill_set']),
        ('planner', {'robots': ['drone_1:nothing']}, ["'nothing'", 'tello']),
        ('executor', {'robot': ''}, ["'robot'"]),
        ('executor', {'robot': 'a b', 'skill_set': 'tello'}, ["'a b:tello'"]),
        ('executor', {'robot': 'd', 'skill_set': 'tello', 'driver': 'x'}, ["'driver'", "'x'"]),
        ('executor', {'robot': 'd', 'skill_set': 'tello', 'time_scale': -1.0}, ["'time_scale'"]),
    ],
)
def test_bad_parameter_ends_the_program(
    tmp_path: Path, name: str, parameters: dict[str, Any], said: list[str]
) -> None:
    program = Program(name, tmp_path, parameters, namespace='bad_parameters')
    assert program.wait() == 2
    assert 'Traceback' not in program.output
    line = next(line for line in program.output.splitlines() if line.startswith(f'{name}: '))
    for part in said:
        assert part in line


@pytest.mark.parametrize('name', ['planner', 'executor', 'recorder'])
def test_a_file_of_parameters_that_cannot_be_read_ends_the_program(
    tmp_path: Path, name: str
) -> None:
    absent, broken = tmp_path / 'absent.yaml', tmp_path / 'broken.yaml'
    broken.write_text('planner: [\n')
    for file in (absent, broken):
        given = ('--ros-args', '--params-file', str(file))
        program = Program(name, tmp_path, {}, *given, namespace='bad_file')
        assert program.wait() == 2
        assert 'Traceback' not in program.output
        # What comes before are rcl's own words.
        line = program.output.splitlines()[-1]
        assert f': --params-file {file}: ' in line
        assert line.endswith(': expected a readable YAML file of parameters')


def test_unknown_parameter_is_named_and_a_quality_of_service_overridden(
    tmp_path: Path, client: Client
) -> None:
    state, sight = 'scheduler_state', 'drone_1/detections'
    parameters = {
        'robots': ['drone_1:tello', 'drone_2:tello'],
        'engine': 'simulated',
        'max_runing': 3,
        f'qos_overrides./unknown_parameter/{state}.publisher.reliability': 'best_effort',
        f'qos_overrides./unknown_parameter/{sight}.subscription.reliability': 'reliable',
    }

    def told(endpoints: Callable[[str], list[Any]], name: str) -> ReliabilityPolicy:
        topic = f'/unknown_parameter/{name}'
        (endpoint,) = wait_for(lambda: endpoints(topic), topic)
        return endpoint.qos_profile.reliability

    planner = Program('planner', tmp_path, parameters, namespace='unknown_parameter')
    try:
        wait_for(lambda: "'max_runing'" in planner.output, 'warning')
        assert "'qos_overrides" not in planner.output
        offered = partial(told, client.node.get_publishers_info_by_topic)
        assert offered(state) == ReliabilityPolicy.BEST_EFFORT
        asked_for = partial(told, client.node.get_subscriptions_info_by_topic)
        for robot in ('drone_1', 'drone_2'):
            client.node.create_publisher(Detections, f'/unknown_parameter/{robot}/detections', 1)
        assert asked_for(sight) == ReliabilityPolicy.RELIABLE
        # Others of the same node stay as they were.
        assert offered('skill_catalogue') == ReliabilityPolicy.RELIABLE
        assert asked_for('drone_2/detections') == ReliabilityPolicy.BEST_EFFORT
    finally:
        planner.close()


def test_two_robots_may_hear_one_camera(tmp_path: Path, client: Client) -> None:
    robots = ('drone_1', 'drone_2')
    remaps = [text for name in robots for text in ('-r', f'{name}/detections:=camera')]
    parameters = {'robots': [f'{name}:tello' for name in robots], 'engine': 'simulated'}
    planner = Program('planner', tmp_path, parameters, '--ros-args', *remaps, namespace='camera')
    try:
        sender = client.node.create_publisher(Detections, '/camera/camera', 1)
        wait_for(lambda: sender.get_subscription_count() == 2, 'subscriptions')
    finally:
        planner.close()


@pytest.mark.engines
def test_interrupt_while_loading(tmp_path: Path) -> None:
    planner = Program('planner', tmp_path, {'engine': 'torch'}, namespace='early')
    children = wait_for(lambda: planner.children, 'engine process')
    planner.signal(signal.SIGINT)
    assert planner.wait() == 0
    assert 'Traceback' not in planner.output
    wait_for(lambda: not any(map(is_running, children)), 'its end')


def test_two_fleets_do_not_meet(start_fleet: Callable[..., Fleet]) -> None:
    fleets = [start_fleet(), start_fleet()]
    plans = ['take_picture;', 'scan;']
    goals = [fleet.plan(plan) for fleet, plan in zip(fleets, plans, strict=True)]
    for fleet, goal, plan in zip(fleets, goals, plans, strict=True):
        assert goal.result()[0] == SUCCEEDED
        assert fleet.started() == [plan[:-1]]
        fleet.wait_event(goal, TaskEvent.ENDED)
        assert {event.instruction for event in fleet.events} == {plan}


def test_a_goal_that_comes_before_its_robot_was_met_waits_for_it(
    start_fleet: Callable[..., Fleet],
) -> None:
    fleet = start_fleet(robots={'drone_1': 'tello', 'arm_1': 'arm'}, together=False)
    for robot, skill_set, plan in (
        ('drone_1', '', 'delay(100);'), ('arm_1', '', 'home;'), ('', 'tello', 'delay(100);'),
    ):  # fmt: skip
        assert fleet.planner is not None
        fleet.planner.signal(signal.SIGINT)
        fleet.planner.wait()
        wait_for(lambda: not fleet.plan_task.server_is_ready(), 'end of the planner')
        fleet.planner = fleet.start_planner()
        wait_for(fleet.plan_task.server_is_ready, 'the next planner')
        goal = fleet.plan(plan, robot, skill_set=skill_set)
        # It is there before it is active, and may not have met who asks.
        while not goal.is_answered(ASK_AGAIN_S) or not goal.accepted:
            goal = fleet.plan(plan, robot, skill_set=skill_set)
        assert goal.result()[0] == SUCCEEDED, goal.result()[1]


def test_a_goal_that_waits_for_its_robot_ends_when_it_is_cancelled(
    start_fleet: Callable[..., Fleet],
) -> None:
    fleet = start_fleet(start_planner=False)
    for executor in fleet.executors:
        executor.signal(signal.SIGINT)
        executor.wait()
    fleet.planner = fleet.start_planner()
    wait_for(fleet.plan_task.server_is_ready, 'the planner')
    waits = fleet.plan('delay(100);')
    while not waits.is_answered(ASK_AGAIN_S) or not waits.accepted:
        waits = fleet.plan('delay(100);')
    goal = fleet.plan('delay(100);')
    goal.cancel()
    assert goal.result()[0] in (CANCELED, ABORTED)
    assert waits.answer is None, 'both ended because the robot did not come'
    assert waits.result()[1].error_code == Result.ROBOT_UNAVAILABLE
