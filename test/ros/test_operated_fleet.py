"""A fleet in operation, as ``timely-llm fleet`` starts it: watched, secured, ended with Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from lifecycle_msgs.srv import GetState
from rclpy.node import Node
from std_srvs.srv import SetBool
from support.loopback import free_port
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, wait_for
from support.ros.ros_client import SUCCEEDED, Goal
from support.ros.scraping import exported, has_all, names, plain_names, scrape
from timely_llm_ros.action import PlanTask

from lrtrace.record.recorder_health import RECORDER_METRICS
from lrtrace.storage import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.cli.operation.fleet_file import read_fleet_file
from timely_llm_ros.cli.operation.security_policy import Profile, fleet_profiles
from timely_llm_ros.nodes.executor.metrics import EXECUTOR_METRICS
from timely_llm_ros.nodes.fleet import FleetHalt
from timely_llm_ros.nodes.planner.metrics import (
    PLANNER_METRICS,
    SERVER_LOSSES,
    SERVER_RUNNING,
    SERVER_STEP,
    SERVER_UP,
)
from timely_llm_ros.ros import TaskClient
from timely_llm_ros.ros.action_client import GoalClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ros.ros_client import Client

MONITORING = ROOT / 'config' / 'monitoring'
ROBOTS = ('drone_1', 'drone_2')
ONLY_WITH_SERVERS = {SERVER_UP, SERVER_STEP, SERVER_RUNNING, SERVER_LOSSES}
_NAME = re.compile(r'\btimely_\w+\b')


@dataclass(slots=True)
class Operated:
    """A fleet that runs, and how to reach it."""

    client: Client
    folder: Path
    namespace: str
    process: subprocess.Popen[bytes]
    plan_task: Any
    ports: dict[str, int]

    @property
    def printed(self) -> str:
        return (self.folder / 'printed').read_text(encoding='utf-8')

    def plan(self, instruction: str, robot: str) -> Goal:
        goal = PlanTask.Goal(robot=robot, instruction=instruction)
        return Goal(self.client, self.plan_task, goal)

    def events(self, robot: str) -> list[str]:
        path = self.folder / f'{robot}.jsonl'
        text = path.read_text(encoding='utf-8') if path.exists() else ''
        return [json.loads(line)['event'] for line in text.splitlines()]


@pytest.fixture(scope='module')
def operated(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    folder = tmp_path_factory.mktemp('operated')
    namespace, port = f'operated_{os.getpid()}', free_port(1, 9, 10)
    patience: dict[str, Any] = {'planner_timeout_s': 4.0, 'worker_timeout_s': 4.0}
    content = {
        'namespace': namespace,
        'robots': dict.fromkeys(ROBOTS, 'tello'),
        'metrics_port': port,
        'planner': {'engine': 'simulated', 'robot_timeout_s': 4},
        'executor': patience | {'journal_path': str(folder / '{robot}.jsonl')},
        'recorder': {'output': str(folder / 'trace')},
        'window': {'port': 0},
    }
    (folder / 'fleet.yaml').write_text(yaml.safe_dump(content), encoding='utf-8')
    with (folder / 'printed').open('wb') as output:
        process = subprocess.Popen(
            [
                *(sys.executable, str(ROOT / 'scripts' / 'timely-llm'), 'fleet', 'fleet.yaml'),
                *('--log-format', 'json', '--logs', str(folder / 'logs')),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=os.environ | {'PYTHONPATH': PYTHONPATH},
        )
    try:
        state = f'/{namespace}/planner/get_state'
        wait_for(
            lambda: (
                client.service(GetState, state, GetState.Request()).current_state.label == 'active'
            )
        )
        plan_task = client.do(GoalClient, client.node, PlanTask, f'/{namespace}/plan_task')
        wait_for(plan_task.server_is_ready, 'planner')
        ports = {'planner': port, 'recorder': port + 1, 'executor': port + 9}
        yield Operated(client, folder, namespace, process, plan_task, ports)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT_S)


@pytest.fixture(scope='module')
def ports(operated: Operated) -> dict[str, int]:
    """Return the ports of the figures, once there is something to see."""
    ports = operated.ports
    # Until the planner has met a robot it refuses what is for it.
    there = ('timely_planner_robot_available', (('robot', 'drone_1'),))
    wait_for(lambda: scrape(ports['planner']).get(there) == 1.0, 'drone_1')
    assert operated.plan('delay(100);', 'drone_1').result()[0] == SUCCEEDED
    operated.plan('delay(100);', 'nobody').wait_rejected()
    wait_for(lambda: names(ports['recorder']), 'recorder')
    return ports


def test_every_program_exports_what_is_declared_and_nothing_else(ports: dict[str, int]) -> None:
    declared = {
        'planner': set(PLANNER_METRICS) - ONLY_WITH_SERVERS,
        'executor': set(EXECUTOR_METRICS),
        'recorder': set(RECORDER_METRICS),
    }
    for program, metrics in declared.items():
        wanted = {metric.name for metric in metrics}

        # What happened a moment ago is told with the next second's figures.
        wait_for(partial(has_all, ports[program], wanted), program, 20.0)
        assert plain_names(ports[program]) == wanted, program


def test_the_figures_are_those_of_what_happened(ports: dict[str, int]) -> None:
    def value(name: str, **labels: str) -> float:
        return scrape(ports['planner']).get((name, tuple(sorted(labels.items()))), -1.0)

    wait_for(lambda: value('timely_planner_tasks_ended_total', reason='none') == 1.0)
    assert value('timely_planner_tasks_accepted_total') == 1.0
    wait_for(lambda: value('timely_planner_tasks_refused_total', reason='invalid_task') == 1.0)
    told = scrape(ports['planner'])
    reasons = {dict(labels)['reason'] for name, labels in told if 'tasks_refused' in name}
    assert reasons == {error.removeprefix('_') for error in reasons} >= {'refused', 'not_allowed'}
    labels = {'skill_set': 'tello', 'expected_response_s': '1'}
    assert value('timely_planner_response_seconds_count', **labels) == 1.0
    assert value('timely_planner_response_seconds_bucket', le='+Inf', **labels) == 1.0
    assert value('timely_planner_robot_available', robot='drone_1') == 1.0
    key = ('timely_executor_segments_ended_total', (('reason', 'none'), ('robot', 'drone_1')))
    wait_for(lambda: scrape(ports['executor'])[key] == 1.0)


def test_alerts_and_pictures_ask_only_for_what_programs_export(ports: dict[str, int]) -> None:
    there = exported(ports) | {metric.name for metric in ONLY_WITH_SERVERS}
    rules = yaml.safe_load((MONITORING / 'alerts.yml').read_text(encoding='utf-8'))
    asked = [rule['expr'] for group in rules['groups'] for rule in group['rules']]
    board = json.loads((MONITORING / 'dashboard.json').read_text(encoding='utf-8'))
    asked += [target['expr'] for panel in board['panels'] for target in panel['targets']]
    for text in asked:
        used = set(_NAME.findall(re.sub(r'"[^"]*"', '', text)))
        assert used <= there, text
        assert used or 'up{' in text, text


@pytest.mark.skipif(
    shutil.which('prometheus') is None, reason='prometheus: expected on the PATH (Debian has it)'
)
def test_a_real_prometheus_scrapes_every_program_and_warns(
    operated: Operated, ports: dict[str, int], tmp_path: Path
) -> None:
    own = free_port()
    # The same rules once more, without their patience.
    rules = yaml.safe_load((MONITORING / 'alerts.yml').read_text(encoding='utf-8'))
    names = [rule['alert'] for group in rules['groups'] for rule in group['rules']]
    for group in rules['groups']:
        group['name'] += ' at once'
        for rule in group['rules']:
            rule |= {'alert': f'{rule["alert"]}AtOnce', 'for': '0s'}
    (tmp_path / 'at_once.yml').write_text(yaml.safe_dump(rules), encoding='utf-8')
    config = yaml.safe_load((MONITORING / 'prometheus.yml').read_text(encoding='utf-8'))
    config['global'] = {'scrape_interval': '200ms', 'evaluation_interval': '200ms'}
    config['rule_files'] = [str(MONITORING / 'alerts.yml'), 'at_once.yml']
    for job in config['scrape_configs']:
        port = ports[job['job_name'].removeprefix('timely_')]
        job['static_configs'] = [{'targets': [f'127.0.0.1:{port}']}]
    (tmp_path / 'prometheus.yml').write_text(yaml.safe_dump(config), encoding='utf-8')
    log = (tmp_path / 'log').open('wb')
    process = subprocess.Popen(
        [
            'prometheus',
            f'--config.file={tmp_path}/prometheus.yml',
            f'--storage.tsdb.path={tmp_path}/data',
            f'--web.listen-address=127.0.0.1:{own}',
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )

    def get(path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(
                f'http://127.0.0.1:{own}/api/v1/{path}', timeout=10
            ) as answer:
                return dict(json.load(answer)['data'])
        except (urllib.error.URLError, ConnectionError):
            return {}

    def ask(query: str) -> list[Any]:
        return list(get(f'query?query={urllib.parse.quote(query)}').get('result', ()))

    def loaded() -> dict[str, str]:
        groups = get('rules').get('groups', ())
        return {rule['name']: rule['health'] for group in groups for rule in group['rules']}

    def warns(alert: str) -> bool:
        return bool(ask(f'ALERTS{{alertname="{alert}AtOnce",alertstate="firing"}}'))

    def halt(robot: str, halts: bool) -> None:
        service = f'/{operated.namespace}/{robot}/halt'
        assert operated.client.service(SetBool, service, SetBool.Request(data=halts)).success

    try:
        wait_for(lambda: len(ask('up == 1')) == 3, 'three programs that are up')
        assert wait_for(lambda: ask('timely_planner_robot_available == 1'), 'a robot')
        assert wait_for(lambda: ask('timely_recorder_messages_total > 0'), 'messages')
        both = {name + end: 'ok' for name in names for end in ('', 'AtOnce')}
        wait_for(lambda: loaded() == both, 'every rule evaluated')
        assert ask('ALERTS{alertstate="firing",alertname!~".*AtOnce"}') == []
        assert not warns('TimelyRobotHalted')
        assert not warns('TimelyTasksFail')

        # A robot is halted in the middle of its task.
        goal = operated.plan('delay(10000);' * 6, 'drone_1').wait_accepted()
        wait_for(lambda: operated.events('drone_1')[-1:] == ['start'], 'drone_1 works')
        halt('drone_1', True)
        assert goal.result()[1].error_code == PlanTask.Result.EXECUTION_FAILED
        wait_for(lambda: warns('TimelyRobotHalted'), 'a warning of the halt')
        wait_for(lambda: warns('TimelyTasksFail'), 'a warning of the failed task')
        halt('drone_1', False)
        wait_for(lambda: not warns('TimelyRobotHalted'), 'no warning any more')
    finally:
        process.terminate()
        process.wait(30)
        log.close()


# Who may do what


def rights_of(node: Node, of: str, namespace: str) -> dict[str, set[str]]:
    """Return what a node really has on the graph, by what it does with it."""
    told = {
        right: {name for name, _ in ask(of, namespace)}
        for right, ask in (
            ('publish', node.get_publisher_names_and_types_by_node),
            ('subscribe', node.get_subscriber_names_and_types_by_node),
            ('reply', node.get_service_names_and_types_by_node),
            ('request', node.get_client_names_and_types_by_node),
        )
    }
    for right, services in (('execute', 'reply'), ('call', 'request')):
        end = '/_action/send_goal'
        told[right] = {name.removesuffix(end) for name in told[services] if name.endswith(end)}
    for action in told['execute'] | told['call']:
        for right, found in told.items():
            mine = action in told['execute' if right in ('publish', 'reply') else 'call']
            if mine and right not in ('execute', 'call'):
                found -= {name for name in found if name.startswith(f'{action}/_action/')}
    return told


def is_known(observer: Node, node: Node, namespace: str) -> bool:
    told = rights_of(observer, node.get_name(), namespace)
    return bool(told['call'] or told['request'])


def differences(profile: Profile, told: dict[str, set[str]]) -> tuple[set[str], set[str]]:
    """Return what a node does and may not, and what it may and does not."""
    allowed = {f'{right} {name}' for right, names in profile.rights.items() for name in names}
    done = {f'{right} {name}' for right, names in told.items() for name in names}
    return done - allowed, allowed - done


def seldom(line: str) -> bool:
    """Whether a program has it only with messages that are not here, or once somebody publishes."""
    return bool(
        re.search(
            r'(scene_markers|world_markers|/detections(_[23]d)?|/(pose|odom|amcl_pose))$', line
        )
    )


@pytest.mark.parametrize(
    'node', ['planner', 'drone_1_executor', 'drone_2_executor', 'recorder', 'window']
)
def test_a_policy_allows_what_a_program_does_and_no_more(
    operated: Operated, ports: dict[str, int], node: str
) -> None:
    fleet = read_fleet_file(operated.folder / 'fleet.yaml')
    (profile,) = [one for one in fleet_profiles(fleet) if one.node == node]

    def found() -> tuple[set[str], set[str]]:
        told = rights_of(operated.client.node, node, f'/{operated.namespace}')
        return differences(profile, told)

    # Discovery has no order: what is not there yet comes.
    wait_for(lambda: not any(not seldom(line) for line in found()[1]), f'{node}: {found()}', 20.0)
    assert found()[0] == set()


def test_a_client_and_an_operator_can_do_their_work(operated: Operated) -> None:
    profiles = {
        one.node: one for one in fleet_profiles(read_fleet_file(operated.folder / 'fleet.yaml'))
    }
    namespace = f'/{operated.namespace}'
    made: list[Node] = []

    def make() -> None:
        dispatcher = Node('dispatcher', namespace=namespace, start_parameter_services=False)
        TaskClient(dispatcher)
        halting = Node('halting', namespace=namespace, start_parameter_services=False)
        FleetHalt(halting, ROBOTS, halts=True, on_answer=lambda *_: None)
        made.extend((dispatcher, halting))

    operated.client.do(make)
    try:
        for node, role in zip(made, ('client', 'operator'), strict=True):
            wait_for(partial(is_known, operated.client.node, node, namespace), role)
            told = rights_of(operated.client.node, node.get_name(), namespace)
            told['reply'] = set()
            assert differences(profiles[role], told)[0] == set()
    finally:
        for node in made:
            operated.client.do(node.destroy_node)


# The end


def test_ctrl_c_ends_a_fleet_with_its_robots_safe_and_recorded(operated: Operated) -> None:
    for robot in ROBOTS:

        def started(robot: str = robot) -> bool:
            goal = operated.plan('delay(10000);' * 6, robot)
            wait_for(
                lambda: (
                    operated.events(robot)[-1:] == ['start']
                    or goal.accepted is False
                    or goal.answer is not None
                )
            )
            return operated.events(robot)[-1:] == ['start']

        wait_for(started, robot)
    operated.process.send_signal(signal.SIGINT)
    assert operated.process.wait(LIMIT_S) == 0, operated.printed
    for robot in ROBOTS:
        assert operated.events(robot)[-1] == 'safe'
    trace = Trace(operated.folder / 'trace')
    assert not trace.cut_off
    ended = [task for task in read_run(trace).tasks if task.ended_s is not None]
    assert {task.robot for task in ended} == set(ROBOTS)
    lines = [json.loads(line) for line in operated.printed.splitlines()]
    assert {line['program'] for line in lines} == {
        'planner',
        'drone_1_executor',
        'drone_2_executor',
        'recorder',
        'window',
    }
    assert any(line.get('tasks') for line in lines)
