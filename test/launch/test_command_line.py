"""What people do with ``ros2`` on a running fleet: look, send, cancel, step, set and dump."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml
from support.ros.programs import ROOT, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.ros.ros2_tools import Launched, Ros2

PLAN_TASK = 'timely_llm_ros/action/PlanTask'
NAMESPACES = ('site_a', 'site_b')
LONG = 'delay(10000);' * 6
PAGE = ROOT / 'docs' / 'reference' / 'ros_interfaces.md'


@pytest.fixture(scope='module')
def fleets(ros2: Ros2) -> Iterator[dict[str, Launched]]:
    """Start a fleet in each of two namespaces, with robots of the same name."""
    fleets = {
        namespace: ros2.launch(
            'fleet',
            namespace=namespace,
            robots='drone_1:tello',
            params_file=ros2.folder / 'planner.yaml',
            executor_params_file=ros2.folder / 'executor.yaml',
        )
        for namespace in NAMESPACES
    }
    for fleet in fleets.values():
        fleet.wait_for('planning for', 'executing for drone_1')
    yield fleets
    for fleet in fleets.values():
        fleet.end()


def goal(instruction: str) -> str:
    return f'{{robot: drone_1, instruction: "{instruction}"}}'


@pytest.mark.usefixtures('fleets')
def test_nodes_of_two_fleets_are_told_apart(ros2: Ros2) -> None:
    expected = {
        f'/{site}/{name}' for site in NAMESPACES for name in ('planner', 'drone_1_executor')
    }

    def listed() -> bool:
        return set(ros2.run('node', 'list').split()) == expected

    wait_for(listed, f'{expected} in ros2 node list')


@pytest.mark.usefixtures('fleets')
@pytest.mark.parametrize('node', ['planner', 'drone_1_executor'])
def test_what_a_node_has_is_in_the_documentation(ros2: Ros2, node: str) -> None:
    wait_for(lambda: f'/site_a/{node}' in ros2.run('node', 'list').split(), f'{node} is known')
    told = ros2.run('node', 'info', f'/site_a/{node}')
    page = PAGE.read_text(encoding='utf-8')
    # Each robot here has a program of its own, whose first robot it is.
    page = page.replace('<first robot>', '<robot>')
    named = set(re.findall(r'`((?:~/|<robot>/|/)?[a-z0-9_]+)`', page))
    of_every_node = {'/rosout', '/parameter_events', '/clock', '/bond'}
    names = set(re.findall(r'^\s+(/[^:\s]+): ', told, re.MULTILINE)) - of_every_node
    assert names
    for name in names:
        relative = name.removeprefix('/site_a/').replace('drone_1/', '<robot>/')
        own = relative.removeprefix(f'{node}/')
        parameters = ('parameter', 'get_type_description')
        if own == relative or not any(word in own for word in parameters):
            known = relative in named or f'~/{own}' in named or own in LIFECYCLE
            assert known, f'{name} is not in {PAGE.name}'


LIFECYCLE = {
    'get_available_states', 'get_available_transitions', 'get_transition_graph', 'transition_event',
}  # fmt: skip
"""Behind the dots of the page's ``~/change_state``, ``~/get_state``, ..."""


@pytest.mark.usefixtures('fleets')
def test_the_action_of_each_fleet_has_one_server(ros2: Ros2) -> None:
    def has_one(site: str) -> bool:
        return 'Action servers: 1' in ros2.run('action', 'info', f'/{site}/plan_task')

    # The command looks for half a second, however many it has found by then.
    for site in NAMESPACES:
        wait_for(partial(has_one, site), f'one server of {site}')
    listed = ros2.run('action', 'list', '-t')
    assert f'/site_b/plan_task [{PLAN_TASK}]' in listed


@pytest.mark.usefixtures('fleets')
def test_a_goal_is_fed_back_and_ends(ros2: Ros2) -> None:
    answer = ros2.run(
        'action', 'send_goal', '--feedback', '/site_a/plan_task', PLAN_TASK, goal('takeoff;land;')
    )
    assert 'call: takeoff' in answer
    assert 'Goal finished with status: SUCCEEDED' in answer
    assert 'segments: 2' in answer


def test_ctrl_c_cancels_a_goal_and_the_robot_takes_the_next(
    ros2: Ros2, fleets: dict[str, Launched]
) -> None:
    sent = ros2.start(
        'action', 'send_goal', '--feedback', '/site_a/plan_task', PLAN_TASK, goal(LONG)
    )
    sent.wait_for('Feedback:')
    sent.interrupt()
    sent.wait()
    # It may say that it did not hear the answer: Ctrl-C has ended its context by then.
    assert 'Canceling goal' in sent.output
    fleets['site_a'].wait_for('cancelled by the client')
    answer = ros2.run('action', 'send_goal', '/site_a/plan_task', PLAN_TASK, goal('takeoff;'))
    assert 'Goal finished with status: SUCCEEDED' in answer
    fleets['site_a'].assert_clean()


@pytest.mark.usefixtures('fleets')
def test_a_planner_goes_round_its_lifecycle(ros2: Ros2) -> None:
    planner = '/site_b/planner'
    assert planner in ros2.run('lifecycle', 'nodes').split()
    assert 'deactivate' in ros2.run('lifecycle', 'list', planner)
    for transition, state in (
        ('deactivate', 'inactive'),
        ('cleanup', 'unconfigured'),
        ('configure', 'inactive'),
        ('activate', 'active'),
    ):
        assert 'Transitioning successful' in ros2.run('lifecycle', 'set', planner, transition)
        assert ros2.run('lifecycle', 'get', planner).split()[0] == state
        set_mode = ros2.run('param', 'set', planner, 'mode', 'stream', errors=True)
        expected = 'successful' if state == 'unconfigured' else 'expected the node to be unconfig'
        assert expected in set_mode
        assert 'successful' in ros2.run('param', 'set', planner, 'policy', 'fcfs', errors=True)
    assert 'fcfs' in ros2.run('param', 'get', planner, 'policy')
    answer = ros2.run('action', 'send_goal', '/site_b/plan_task', PLAN_TASK, goal('takeoff;'))
    assert 'Goal finished with status: SUCCEEDED' in answer


@pytest.mark.usefixtures('fleets')
def test_parameters_are_listed_described_and_refused_with_a_reason(ros2: Ros2) -> None:
    planner = '/site_a/planner'
    listed = ros2.run('param', 'list', planner).split()
    assert {'policy', 'engine', 'robots', 'use_sim_time'} <= set(listed)
    described = ros2.run('param', 'describe', planner, 'policy')
    assert 'Type: string' in described
    assert 'least_loss' in described
    assert 'simulated' in ros2.run('param', 'get', planner, 'engine')
    refused = ros2.run('param', 'set', planner, 'engine', 'steam', errors=True)
    assert "Setting parameter failed: parameter 'engine'" in refused


@pytest.mark.usefixtures('fleets')
@pytest.mark.parametrize('node', ['planner', 'drone_1_executor'])
def test_a_dump_of_the_parameters_is_a_parameter_file(ros2: Ros2, node: str) -> None:
    name = f'/site_a/{node}'
    dumped = yaml.safe_load(ros2.run('param', 'dump', name))
    parameters = dumped[name]['ros__parameters']
    assert parameters['robots'] == ['drone_1:tello']
    listed = set(ros2.run('param', 'list', name).split())
    assert {key.partition('.')[0] for key in listed} == set(parameters)


def test_a_fleet_starts_from_what_another_dumped(ros2: Ros2, fleets: dict[str, Launched]) -> None:
    files = {}
    for node in ('planner', 'drone_1_executor'):
        dumped = yaml.safe_load(ros2.run('param', 'dump', f'/site_a/{node}'))
        (parameters,) = dumped.values()
        files[node] = ros2.folder / f'dumped-{node}.yaml'
        files[node].write_text(yaml.safe_dump({'/**': parameters}), encoding='utf-8')
    third = ros2.launch(
        'fleet',
        namespace='site_c',
        robots='drone_1:tello',
        params_file=files['planner'],
        executor_params_file=files['drone_1_executor'],
    )
    third.wait_for('planning for', 'executing for drone_1')
    assert 'simulated' in ros2.run('param', 'get', '/site_c/planner', 'engine')
    third.end()
    for fleet in fleets.values():
        fleet.assert_clean()


CLOCK = """
import time, rclpy
from rosgraph_msgs.msg import Clock
rclpy.init()
node = rclpy.create_node('clock')
clock, start = node.create_publisher(Clock, '/clock', 10), time.monotonic()
while rclpy.ok():
    message = Clock()
    passed = time.monotonic() - start
    message.clock.sec, message.clock.nanosec = int(passed), int(passed % 1 * 1e9)
    clock.publish(message)
    time.sleep(0.02)
"""


def test_a_fleet_in_simulated_time_plans_from_the_first_second(ros2: Ros2) -> None:
    fleet = ros2.launch(
        'fleet',
        namespace='simulated',
        robots='drone_1:tello',
        use_sim_time='true',
        params_file=ros2.folder / 'planner.yaml',
        executor_params_file=ros2.folder / 'executor.yaml',
    )
    fleet.wait_for('planning for', 'executing for drone_1')
    for node in ('planner', 'drone_1_executor'):
        told = ros2.run('param', 'get', f'/simulated/{node}', 'use_sim_time')
        assert told.split()[-1] == 'True'
    send = ('action', 'send_goal', '/simulated/plan_task', PLAN_TASK, goal('takeoff;land;'))
    # Nobody has published a clock yet: its time is 0.
    assert 'SUCCEEDED' in ros2.run(*send)
    clock = ros2.program(CLOCK)
    try:
        assert 'SUCCEEDED' in ros2.run(*send)
    finally:
        clock.kill()
        clock.wait()
    fleet.end()
