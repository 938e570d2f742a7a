"""What the tests of the nodes stand on: programs as processes, and a client that talks to them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rclpy
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, ListParameters, SetParameters
from rclpy.experimental import EventsExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger
from timely_llm_ros.action import ExecuteSegment, PlanTask
from timely_llm_ros.msg import RobotState, SceneObject, SchedulerState, SkillSegment, TaskEvent
from timely_llm_ros.srv import DescribeSkills
from unique_identifier_msgs.msg import UUID

from timely_llm_ros.nodes.action_client import GoalClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from rcl_interfaces.msg import ParameterValue
    from rclpy.action import ActionClient

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 30.0
_numbers = itertools.count(1)

SUCCEEDED = GoalStatus.STATUS_SUCCEEDED
CANCELED = GoalStatus.STATUS_CANCELED
ABORTED = GoalStatus.STATUS_ABORTED


def wait_for(
    condition: Callable[[], Any], what: str = 'condition', limit_s: float = LIMIT_S
) -> Any:
    """Return the condition's first true value; poll it until then."""
    end_s = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end_s, f'{what}: not within {limit_s:g} s'
        time.sleep(0.01)


class Program:
    """One of the scripts, running."""

    def __init__(
        self, name: str, folder: Path, parameters: dict[str, Any], *arguments: str, namespace: str
    ) -> None:
        self.log = folder / f'{name}-{next(_numbers)}.log'
        given = [
            text
            for key, value in parameters.items()
            for text in ('-p', f'{key}:={json.dumps(value)}')
        ]
        with self.log.open('wb') as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    str(ROOT / 'scripts' / name),
                    *arguments,
                    '--ros-args',
                    '-r',
                    f'__ns:=/{namespace}',
                    *given,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=folder,
                env=os.environ | {'PYTHONPATH': str(ROOT)},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def children(self) -> list[int]:
        """Process ids of its direct children, oldest first."""
        text = Path(f'/proc/{self.pid}/task/{self.pid}/children').read_text(encoding='utf-8')
        return list(map(int, text.split()))

    @property
    def output(self) -> str:
        return self.log.read_text(encoding='utf-8', errors='replace')

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        return self.process.wait(limit_s)

    def close(self) -> None:
        """End it, kindly at first."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                for child in self.children:
                    os.kill(child, signal.SIGKILL)
                self.process.kill()
                self.process.wait(5)


class Goal:
    """A goal that was sent."""

    def __init__(self, client: Client, action: ActionClient, message: Any) -> None:
        self._client = client
        self.feedback: list[tuple[float, Any]] = []
        self.accepted: bool | None = None
        self.handle: Any = None
        self.answer: Any = None
        self.uuid = UUID(uuid=list(uuid.uuid4().bytes))
        client.call(self._send, action, message)

    def _send(self, action: ActionClient, message: Any) -> None:
        future = action.send_goal_async(
            message,
            feedback_callback=lambda f: self.feedback.append((time.monotonic(), f.feedback)),
            goal_uuid=self.uuid,
        )
        future.add_done_callback(self._accepted)

    def _accepted(self, future: Any) -> None:
        self.handle = future.result()
        if self.handle.accepted:
            self.handle.get_result_async().add_done_callback(self._ended)
        self.accepted = self.handle.accepted

    def _ended(self, future: Any) -> None:
        self.answer = future.result()

    def wait_accepted(self) -> Goal:
        wait_for(lambda: self.accepted is not None, 'answer to a goal')
        assert self.accepted, 'goal rejected'
        return self

    def wait_rejected(self) -> None:
        wait_for(lambda: self.accepted is not None, 'answer to a goal')
        assert not self.accepted, 'goal accepted'

    def cancel(self) -> Any:
        """Ask for its cancellation; return the answer."""
        self.wait_accepted()
        answers: list[Any] = []
        self._client.call(
            lambda: self.handle.cancel_goal_async().add_done_callback(
                lambda future: answers.append(future.result())
            )
        )
        return wait_for(lambda: answers, 'answer to a cancel')[0]

    def result(self, limit_s: float = LIMIT_S) -> tuple[int, Any]:
        """Return its status and result."""
        self.wait_accepted()
        wait_for(lambda: self.answer is not None, 'result of a goal', limit_s)
        return self.answer.status, self.answer.result


class Client:
    """A node in the test's process."""

    def __init__(self) -> None:
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node('test_client')
        self._executor = EventsExecutor()
        self._executor.add_node(self.node)
        self._closing: Future = Future()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._closing.done():
            self._executor.spin_until_future_complete(self._closing, 5.0)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a function called on the executor's thread."""
        self._executor.create_task(function, *arguments)

    def service(self, service_type: Any, name: str, request: Any, limit_s: float = LIMIT_S) -> Any:
        """Call a service and return the response."""
        client = self.node.create_client(service_type, name)
        answers: list[Any] = []

        def ask() -> None:
            client.call_async(request).add_done_callback(
                lambda future: answers.append(future.result())
            )

        try:
            wait_for(client.service_is_ready, f'service {name}', limit_s)
            end_s = time.monotonic() + limit_s
            while not answers:
                assert time.monotonic() < end_s, f'response of {name}: not within {limit_s:g} s'
                # Asked again: a server that was killed is known for a while longer than it lives.
                self.call(ask)
                with contextlib.suppress(AssertionError):
                    wait_for(lambda: answers, limit_s=3.0)
            return answers[0]
        finally:
            self.node.destroy_client(client)

    def close(self) -> None:
        self.call(self._closing.set_result, None)
        self._thread.join(5)
        rclpy.try_shutdown()


class Fleet:
    """A planner and executors in one namespace, and what they publish."""

    def __init__(
        self,
        client: Client,
        folder: Path,
        *,
        robots: dict[str, str] | None = None,
        together: bool = True,
        planner: dict[str, Any] | None = None,
        executor: dict[str, Any] | None = None,
        start_planner: bool = True,
    ) -> None:
        self.client, self.folder = client, folder
        self.robots = robots or {'drone_1': 'tello'}
        self.namespace = f'fleet_{next(_numbers)}'
        self._executor_parameters = {'time_scale': 0.02, **(executor or {})}
        self._planner_parameters = {'engine': 'simulated', **(planner or {})}
        self.events: list[TaskEvent] = []
        self.segments: list[SkillSegment] = []
        self.scheduler: list[SchedulerState] = []
        self.states: dict[str, list[RobotState]] = {robot: [] for robot in self.robots}
        self.diagnostics: list[DiagnosticArray] = []
        self.catalogue: list[str] = []
        self._subscribe()
        self.plan_task = GoalClient(client.node, PlanTask, self.name('plan_task'))
        self.execute_segment = {
            robot: GoalClient(client.node, ExecuteSegment, self.name(f'{robot}/execute_segment'))
            for robot in self.robots
        }
        groups = [list(self.robots)] if together else [[robot] for robot in self.robots]
        self.executors = [self.start_executor(group) for group in groups]
        self.planner = self.start_planner() if start_planner else None
        for robot in self.robots:
            wait_for(lambda robot=robot: self.states[robot], f'state of {robot}')
            wait_for(self.execute_segment[robot].server_is_ready, f'executor of {robot}')
        if start_planner and self._planner_parameters.get('autostart', True):
            self.wait_planning()

    def name(self, relative: str) -> str:
        return f'/{self.namespace}/{relative}'

    def _subscribe(self) -> None:
        node = self.client.node
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        add = node.create_subscription
        add(TaskEvent, self.name('task_events'), self.events.append, 200)
        add(SchedulerState, self.name('scheduler_state'), self.scheduler.append, latched)
        add(DiagnosticArray, self.name('diagnostics'), self.diagnostics.append, 10)
        add(String, self.name('skill_catalogue'), lambda m: self.catalogue.append(m.data), latched)
        for robot in self.robots:
            add(SkillSegment, self.name(f'{robot}/skill_segments'), self.segments.append, 50)
            add(RobotState, self.name(f'{robot}/robot_state'), self.states[robot].append, latched)

    # Processes

    def start_executor(self, robots: list[str]) -> Program:
        parameters = self._executor_parameters | {
            'robots': [f'{robot}:{self.robots[robot]}' for robot in robots],
            'journal_path': str(self.folder / '{robot}.jsonl'),
        }
        return Program('executor', self.folder, parameters, namespace=self.namespace)

    def start_planner(self) -> Program:
        entries = [f'{robot}:{skill_set}' for robot, skill_set in self.robots.items()]
        parameters = {'robots': entries, **self._planner_parameters}
        return Program('planner', self.folder, parameters, namespace=self.namespace)

    def wait_planning(self) -> None:
        """Wait until the planner is active, knows the robots and its events arrive here."""
        wait_for(self.plan_task.server_is_ready, 'planner')
        wait_for(lambda: self.state() == 'active', 'active planner')
        wait_for(lambda: self.scheduler, 'scheduler state')

        def all_there() -> bool:
            there = {
                status.name.rsplit('robot ')[-1]
                for status in (self.diagnostics[-1].status if self.diagnostics else [])
                if 'robot ' in status.name and status.message != 'lost'
            }
            return there == set(self.robots)

        wait_for(all_there, 'robots known to the planner')
        wait_for(lambda: self.client.node.count_publishers(self.name('task_events')), 'events')

    def close(self) -> None:
        programs = [*self.executors, *([self.planner] if self.planner is not None else [])]
        for program in programs:
            if program.process.poll() is None:
                program.signal(signal.SIGINT)
        for program in programs:
            program.close()

    # Talking to it

    def plan(
        self, instruction: str, robot: str = 'drone_1', objects: tuple[str, ...] = (), **fields: Any
    ) -> Goal:
        """Send a task."""
        scene = [
            SceneObject(name=name, kind=name.rsplit('_', 1)[0], support='floor') for name in objects
        ]
        goal = PlanTask.Goal(robot=robot, instruction=instruction, scene=scene, **fields)
        return Goal(self.client, self.plan_task, goal)

    def segment(self, robot: str = 'drone_1', **fields: Any) -> Goal:
        """Send a segment straight to a robot's executor."""
        segment = SkillSegment(robot=robot, skill_set=self.robots[robot], **fields)
        goal = ExecuteSegment.Goal(segment=segment)
        return Goal(self.client, self.execute_segment[robot], goal)

    def stop_robot(self, robot: str = 'drone_1') -> Any:
        return self.client.service(Trigger, self.name(f'{robot}/stop'), Trigger.Request())

    def describe(self, robot: str) -> Any:
        request = DescribeSkills.Request(robot=robot)
        return self.client.service(DescribeSkills, self.name('describe_skills'), request)

    def state(self) -> str:
        """Return the planner's lifecycle state."""
        name = self.name('planner/get_state')
        return str(self.client.service(GetState, name, GetState.Request()).current_state.label)

    def change_state(self, transition: int) -> bool:
        request = ChangeState.Request()
        request.transition.id = transition
        name = self.name('planner/change_state')
        return bool(self.client.service(ChangeState, name, request).success)

    def set_parameter(self, name: str, value: ParameterValue) -> Any:
        from rcl_interfaces.msg import Parameter

        request = SetParameters.Request(parameters=[Parameter(name=name, value=value)])
        service = self.name('planner/set_parameters')
        return self.client.service(SetParameters, service, request).results[0]

    def described_parameters(self, node: str) -> dict[str, Any]:
        """Return the descriptors of all parameters of a node."""
        listed = self.client.service(
            ListParameters, self.name(f'{node}/list_parameters'), ListParameters.Request()
        )
        names = sorted(listed.result.names)
        described = self.client.service(
            DescribeParameters,
            self.name(f'{node}/describe_parameters'),
            DescribeParameters.Request(names=names),
        )
        return dict(zip(names, described.descriptors, strict=True))

    # What happened

    def journal(self, robot: str = 'drone_1') -> list[dict[str, Any]]:
        """Return what the robot's body was told so far."""
        path = self.folder / f'{robot}.jsonl'
        if not path.exists():
            return []
        text = path.read_text(encoding='utf-8')
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith('\n')]

    def started(self, robot: str = 'drone_1') -> list[str]:
        return [line['call'] for line in self.journal(robot) if line['event'] == 'start']

    def wait_started(self, call: str, robot: str = 'drone_1', times: int = 1) -> None:
        """Wait until the robot started a call for the n-th time."""
        wait_for(lambda: self.started(robot).count(call) >= times, f'{robot} starts {call}')

    def wait_safe(self, robot: str = 'drone_1', limit_s: float = LIMIT_S) -> None:
        """Wait until the latest that the robot's body was told is its safe action."""

        def is_safe() -> bool:
            journal = self.journal(robot)
            return bool(journal) and journal[-1]['event'] == 'safe'

        wait_for(is_safe, f'{robot} safe', limit_s)

    def events_of(self, goal: Goal, kind: int | None = None) -> list[TaskEvent]:
        return [
            event
            for event in tuple(self.events)
            if bytes(event.plan_id.uuid) == bytes(goal.uuid.uuid) and kind in (None, event.event)
        ]

    def wait_event(self, goal: Goal, kind: int) -> TaskEvent:
        return wait_for(lambda: self.events_of(goal, kind), f'event {kind}')[-1]
