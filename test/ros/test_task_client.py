"""Tasks from a program of the user's own: every one ends, whatever becomes of the planner."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from std_msgs.msg import Header
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, wait_for
from support.ros.ros_client import CANCELED, SUCCEEDED, QuietNode
from timely_llm_ros.action import PlanTask

from timely_llm_ros.errors import (
    InvalidTaskError,
    PlannerLostError,
    ShutdownError,
    TaskCanceledError,
)
from timely_llm_ros.ros import HEARTBEAT_QOS, HEARTBEAT_TOPIC, TaskClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.ros.fleet import Fleet
    from support.ros.ros_client import Client

    from timely_llm_ros.ros import SentTask

pytestmark = pytest.mark.distro

LONG = 'repeat(10){delay(10000);};' * 6
BRIEF = {'meet_limit_s': 1.0}
DEACTIVATE, ACTIVATE = 4, 3


def test_tasks_that_met_no_planner_end_with_the_program() -> None:
    program = subprocess.Popen(
        [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client'],
        cwd=ROOT,
        env=os.environ | {'ROS_NAMESPACE': '/nobody_plans_here'},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    tasks = [json.dumps({'key': key, 'robot': 'r', 'instruction': 'land;'}) for key in 'abc']
    told, errors = program.communicate('\n'.join(tasks), timeout=LIMIT_S)
    assert program.returncode == 0
    events = [json.loads(line) for line in told.splitlines()]
    assert [(event['event'], event['key']) for event in events] == [
        ('rejected', 'a'), ('rejected', 'b'), ('rejected', 'c'),
    ]  # fmt: skip
    assert 'Traceback' not in errors


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet()


@pytest.fixture
def task_client(client: Client, fleet: Fleet) -> Iterator[Callable[..., TaskClient]]:
    nodes: list[QuietNode] = []

    def make(namespace: str = '', **options: Any) -> TaskClient:
        def on_thread() -> TaskClient:
            node = QuietNode('dispatcher', namespace=namespace or f'/{fleet.namespace}')
            nodes.append(node)
            made = TaskClient(node, **options)
            client.add_node(node)
            return made

        return client.do(on_thread)

    yield make
    for node in nodes:
        client.remove_node(node)


def send(client: Client, tasks: TaskClient, instruction: str, robot: str = 'drone_1') -> SentTask:
    return client.do(tasks.send, PlanTask.Goal(robot=robot, instruction=instruction))


def kill_planner(fleet: Fleet) -> None:
    assert fleet.planner is not None
    fleet.planner.signal(signal.SIGKILL)
    fleet.planner.wait()


def end_of(task: SentTask) -> Any:
    wait_for(task.result.done, 'end of a task')
    return task.result.result()


def test_a_task_is_accepted_and_ends(
    client: Client, fleet: Fleet, task_client: Callable[..., TaskClient]
) -> None:
    calls: list[str] = []
    tasks = task_client()
    goal = PlanTask.Goal(robot='drone_1', instruction='takeoff;hover;')
    task = client.do(tasks.send, goal, lambda feedback: calls.append(feedback.call))
    end = end_of(task)
    assert end.status == SUCCEEDED
    assert end.result.segments == 2
    plan_id = task.accepted.result()
    assert plan_id in {bytes(event.plan_id.uuid).hex() for event in fleet.events}
    assert calls
    assert client.do(lambda: tasks.open_tasks) == 0


def test_a_task_is_canceled(
    client: Client, fleet: Fleet, task_client: Callable[..., TaskClient]
) -> None:
    tasks = task_client()
    wait_for(lambda: tasks.ready, 'planner')
    for accepted in (False, True):
        task = send(client, tasks, LONG)
        if accepted:
            wait_for(task.accepted.done, 'acceptance')
        client.call(task.cancel)
        assert end_of(task).status == CANCELED


def test_a_refusal_has_its_reason(
    client: Client, fleet: Fleet, task_client: Callable[..., TaskClient]
) -> None:
    tasks = task_client()
    with pytest.raises(InvalidTaskError, match="robot 'drone_9': expected one of drone_1"):
        end_of(send(client, tasks, 'hover;', 'drone_9'))
    fleet.change_state(DEACTIVATE)
    with pytest.raises(ShutdownError, match='not active'):
        end_of(send(client, tasks, 'hover;'))
    fleet.change_state(ACTIVATE)
    assert end_of(send(client, tasks, 'hover;')).status == SUCCEEDED


def kept() -> int:
    """Return how many tasks, and goals of tasks, this program holds."""
    gc.collect()
    kinds = ('_Task', PlanTask.Goal.__name__)
    return sum(type(item).__name__ in kinds for item in gc.get_objects())


@pytest.mark.parametrize('robot', ['drone_1', 'drone_9'])
def test_nothing_is_kept_of_a_task_that_was_accepted_or_refused(
    client: Client, task_client: Callable[..., TaskClient], robot: str
) -> None:
    tasks, before = task_client(), kept()
    for number in range(5):
        task = send(client, tasks, f'delay({number + 10});', robot)
        wait_for(task.result.done, 'end of a task')
    del task
    wait_for(lambda: kept() <= before, 'tasks to be forgotten')


def test_nothing_is_kept_of_a_task_whose_planner_was_killed(
    client: Client,
    start_fleet: Callable[..., Fleet],
    task_client: Callable[..., TaskClient],
) -> None:
    fleet = start_fleet()
    tasks, before = task_client(f'/{fleet.namespace}'), kept()
    task = send(client, tasks, LONG)
    wait_for(task.accepted.done, 'acceptance')
    kill_planner(fleet)
    with pytest.raises(PlannerLostError):
        end_of(task)
    del task
    wait_for(lambda: kept() <= before, 'tasks to be forgotten')


def test_reasons_of_others_refusals_are_not_kept(
    client: Client, fleet: Fleet, task_client: Callable[..., TaskClient]
) -> None:
    tasks, others = task_client(), task_client()
    busy = send(client, tasks, LONG)
    wait_for(busy.accepted.done, 'acceptance')
    for number in range(3):
        with pytest.raises(InvalidTaskError):
            end_of(send(client, others, f'delay({number});', 'drone_9'))
    wait_for(lambda: not tasks._reasons, 'reasons to be forgotten')
    client.call(busy.cancel)
    assert end_of(busy).status == CANCELED


def test_a_planner_that_never_was_is_told(
    client: Client, task_client: Callable[..., TaskClient]
) -> None:
    tasks = task_client('/nobody_here', **BRIEF)
    waiting, canceled = send(client, tasks, 'hover;'), send(client, tasks, 'hover;')
    client.call(canceled.cancel)
    with pytest.raises(TaskCanceledError):
        end_of(canceled)
    with pytest.raises(PlannerLostError, match='not met, for 1 s: expected its heartbeat'):
        end_of(waiting)


def test_a_killed_planner_is_missed_though_a_stranger_beats_its_heart(
    client: Client, start_fleet: Callable[..., Fleet], task_client: Callable[..., TaskClient]
) -> None:
    fleet = start_fleet()
    tasks = task_client(f'/{fleet.namespace}')
    task = send(client, tasks, LONG)
    wait_for(task.accepted.done, 'acceptance')
    publisher = client.do(
        client.node.create_publisher, Header, fleet.name(HEARTBEAT_TOPIC), HEARTBEAT_QOS
    )
    timer = client.do(client.node.create_timer, 0.02, lambda: publisher.publish(Header()))
    try:
        kill_planner(fleet)
        with pytest.raises(PlannerLostError):
            end_of(task)
    finally:
        client.do(client.node.destroy_timer, timer)
        client.do(client.node.destroy_publisher, publisher)
    # The next planner serves the same client.
    fleet.restart_planner()
    assert end_of(send(client, tasks, 'hover;')).status == SUCCEEDED


def test_a_planner_that_was_replaced_keeps_nobody_waiting(
    client: Client, start_fleet: Callable[..., Fleet], task_client: Callable[..., TaskClient]
) -> None:
    fleet = start_fleet()
    # Its silence alone would not be missed in the time that anything here may take.
    tasks = task_client(f'/{fleet.namespace}', silence_limit_s=10 * LIMIT_S)
    task = send(client, tasks, LONG)
    wait_for(task.accepted.done, 'acceptance')
    kill_planner(fleet)
    fleet.restart_planner()
    with pytest.raises(PlannerLostError, match='it was started anew'):
        end_of(task)


def test_a_result_counts_only_if_its_planner_gives_it(
    client: Client, start_fleet: Callable[..., Fleet], task_client: Callable[..., TaskClient]
) -> None:
    fleet = start_fleet()
    tasks = task_client(f'/{fleet.namespace}')
    asked = []

    def answer(request: Any, response: Any) -> Any:
        asked.append(bytes(request.goal_id.uuid))
        response.status = GoalStatus.STATUS_UNKNOWN
        return response

    # A second planner that comes when the task was sent does not know it, and says so at once.
    kind, name = PlanTask.Impl.GetResultService, fleet.name('plan_task/_action/get_result')
    stranger = client.do(client.node.create_service, kind, name, answer)
    try:
        wait_for(lambda: client.node.count_services(name) == 2, 'two services')
        task = send(client, tasks, 'delay(3000);' * 2)
        wait_for(lambda: len(asked) > 1, 'its answers')
        assert not task.result.done()
    finally:
        client.do(client.node.destroy_service, stranger)
    assert end_of(task).status == SUCCEEDED


def test_a_planner_is_ready_while_discovery_is_unsure_of_its_action(
    client: Client,
    start_fleet: Callable[..., Fleet],
    task_client: Callable[..., TaskClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = task_client(f'/{start_fleet().namespace}')
    wait_for(lambda: tasks.ready, 'the planner')
    monkeypatch.setattr(ActionClient, 'server_is_ready', lambda _: False)
    assert tasks.ready
    assert not tasks.found


@pytest.fixture
def program(tmp_path: Path) -> str:
    """The program of the tutorial, with a plan for an engine that has no model."""
    text = (ROOT / 'docs' / 'how_to' / 'first_fleet.md').read_text(encoding='utf-8')
    (found,) = re.findall(r'```python\n(.*?)```', text, re.DOTALL)
    path = tmp_path / 'dispatcher.py'
    path.write_text(found.replace('look for the black cat', LONG), encoding='utf-8')
    return str(path)


def test_the_program_of_the_tutorial_ends_when_its_planner_is_killed(
    start_fleet: Callable[..., Fleet], program: str
) -> None:
    fleet = start_fleet()
    process = subprocess.Popen(
        [sys.executable, program, '--ros-args', '-r', f'__ns:=/{fleet.namespace}'],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {'PYTHONPATH': PYTHONPATH, 'PYTHONUNBUFFERED': '1'},
    )
    assert process.stdout is not None
    while 'delay(10000)' not in process.stdout.readline():
        assert process.poll() is None
    kill_planner(fleet)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert 'PlannerLostError: planner: no sign of life for 3 s: expected its heartbeat' in err
