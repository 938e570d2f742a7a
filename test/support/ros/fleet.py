"""A planner and executors as processes, what they publish, and what their robots were told."""

from __future__ import annotations

import itertools
import json
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParameters,
)
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger
from support.ros.programs import LIMIT_S, Program, wait_for
from support.ros.ros_client import ASK_AGAIN_S, Goal
from timely_llm_ros.action import ExecuteSegment, PlanTask
from timely_llm_ros.msg import RobotState, SceneObject, SchedulerState, SkillSegment, TaskEvent
from timely_llm_ros.srv import DescribeSkills

from timely_llm_ros.ros.action_client import GoalClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rcl_interfaces.msg import ParameterValue
    from support.ros.ros_client import Client

PATIENCE_S = 4.0
"""Silence (s) after which planner and executors miss each other. The defaults would make a busy
machine a fault."""

_numbers = itertools.count(1)


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
        start_limit_s: float = LIMIT_S,
    ) -> None:
        self.client, self.folder = client, folder
        self._start_limit_s = start_limit_s
        self.robots = robots or {'drone_1': 'tello'}
        # Of this process alone, should two of them share a domain.
        self.namespace = f'fleet_{os.getpid()}_{next(_numbers)}'
        self._executor_parameters: dict[str, Any] = {
            'time_scale': 0.02,
            'planner_timeout_s': PATIENCE_S,
            'worker_timeout_s': PATIENCE_S,
            # Nothing is written into the journal only because a test took its time.
            'idle_limit_s': 3600.0,
            **(executor or {}),
        }
        self._planner_parameters = {
            'engine': 'simulated',
            'robot_timeout_s': PATIENCE_S,
            **(planner or {}),
        }
        self.events: list[TaskEvent] = []
        self.segments: list[SkillSegment] = []
        self.scheduler: list[SchedulerState] = []
        self.states: dict[str, list[RobotState]] = {robot: [] for robot in self.robots}
        self.diagnostics: list[DiagnosticArray] = []
        self.catalogue: list[str] = []
        make = partial(client.do, GoalClient, client.node)
        self.plan_task = make(PlanTask, self.name('plan_task'))
        groups = [list(self.robots)] if together else [[robot] for robot in self.robots]
        # One action for all robots of an executor, which bears the first one's name.
        self.execute_segment = {
            robot: client
            for group in groups
            for client in [make(ExecuteSegment, self.name(f'{group[0]}/execute_segment'))]
            for robot in group
        }
        client.service_client(ChangeState, self.name('planner/change_state'))
        client.do(self._subscribe)
        self.executors = [self.start_executor(group) for group in groups]
        self.planner = self.start_planner() if start_planner else None

    def wait_ready(self) -> None:
        """Wait until every program has met this client and, where it starts by itself, serves."""
        for robot in self.robots:
            self.wait_executors(partial(self.states.get, robot), f'state of {robot}')
            wait_for(self.execute_segment[robot].server_is_ready, f'executor of {robot}')
        if self.planner is not None:
            wait_for(lambda: self.catalogue, 'catalogue', self._start_limit_s)
            wait_for(self.plan_task.server_is_ready, 'planner', self._start_limit_s)
            if self._planner_parameters.get('autostart', True):
                self.wait_planning()

    def wait_executors(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for something that executors do; one that has ended does nothing any more."""

        def checked() -> Any:
            for executor in self.executors:
                assert executor.process.poll() is None, executor.output
            return condition()

        wait_for(checked, what)

    def name(self, relative: str) -> str:
        return f'/{self.namespace}/{relative}'

    def _subscribe(self) -> None:
        """Listen to everything; after the clients were made, and states last.

        Endpoints become known elsewhere in the order in which they were made: who sends a state
        here knows all others by then, and will neither lose an event nor an answer.
        """
        node = self.client.node
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        add = node.create_subscription
        add(TaskEvent, self.name('task_events'), self.events.append, 200)
        for robot in self.robots:
            add(SkillSegment, self.name(f'{robot}/skill_segments'), self.segments.append, 50)
        for robot in self.robots:
            add(RobotState, self.name(f'{robot}/robot_state'), self.states[robot].append, latched)
        add(SchedulerState, self.name('scheduler_state'), self.scheduler.append, latched)
        add(DiagnosticArray, self.name('diagnostics'), self.diagnostics.append, 10)
        add(String, self.name('skill_catalogue'), lambda m: self.catalogue.append(m.data), latched)

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
        wait_for(self.plan_task.server_is_ready, 'planner', self._start_limit_s)
        wait_for(lambda: self.state() == 'active', 'active planner', self._start_limit_s)
        wait_for(lambda: self.scheduler, 'scheduler state')

        def all_there() -> bool:
            there = {
                status.name.rsplit('robot ')[-1]
                for status in (self.diagnostics[-1].status if self.diagnostics else [])
                if 'robot ' in status.name and status.message != 'lost'
            }
            return there == set(self.robots)

        wait_for(all_there, 'robots known to the planner')

    def wait_lost(self, robot: str) -> None:
        """Wait until the planner misses a robot's executor."""

        def is_lost() -> bool:
            return any(
                status.name.endswith(f'robot {robot}') and status.message == 'lost'
                for status in self.diagnostics[-1].status
            )

        wait_for(is_lost, f'{robot} lost to the planner')

    def forget_planner(self) -> None:
        """Forget what is known of the planner's state, so that it is waited for anew."""
        self.scheduler.clear()
        self.diagnostics.clear()

    def restart_planner(self) -> None:
        """Start a planner after the end of the last one, and wait until it takes goals."""
        self.forget_planner()
        self.planner = self.start_planner()
        self.wait_planning()
        self.wait_answering()

    def wait_answering(self) -> None:
        """Wait until the planner that is there answers this client."""

        def answers() -> bool:
            # One that was killed is known for a while longer than it lives, and gets goals too.
            probe = Goal(self.client, self.plan_task, PlanTask.Goal(robot='nobody'))
            return probe.is_answered(ASK_AGAIN_S)

        wait_for(answers, 'answer of the new planner')

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

    def segment(
        self, robot: str = 'drone_1', *, planner: bytes = b'', executor: bytes = b'', **fields: Any
    ) -> Goal:
        """Send a segment straight to a robot's executor, in the name of a planner if given."""
        names = {'robot': robot, 'skill_set': self.robots[robot]}
        segment = SkillSegment(**{**names, **fields})
        goal = ExecuteSegment.Goal(segment=segment, planner=planner, executor=executor)
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
        return bool(self.client.service(ChangeState, name, request, again=False).success)

    def set_parameter(self, name: str, value: ParameterValue) -> Any:
        from rcl_interfaces.msg import Parameter

        request = SetParameters.Request(parameters=[Parameter(name=name, value=value)])
        service = self.name('planner/set_parameters')
        return self.client.service(SetParameters, service, request).results[0]

    def parameters(self, node: str) -> dict[str, ParameterValue]:
        """Return all parameters of a node, asked for at once."""
        listed = self.client.service(
            ListParameters, self.name(f'{node}/list_parameters'), ListParameters.Request()
        )
        names = sorted(listed.result.names)
        request = GetParameters.Request(names=names)
        got = self.client.service(GetParameters, self.name(f'{node}/get_parameters'), request)
        return dict(zip(names, got.values, strict=True))

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

    def wait_safe(self, robot: str = 'drone_1') -> None:
        """Wait until the latest that the robot's body was told is its safe action."""

        def is_safe() -> bool:
            journal = self.journal(robot)
            return bool(journal) and journal[-1]['event'] == 'safe'

        wait_for(is_safe, f'{robot} safe')

    def events_of(self, goal: Goal, kind: int | None = None) -> list[TaskEvent]:
        return [
            event
            for event in tuple(self.events)
            if bytes(event.plan_id.uuid) == bytes(goal.uuid.uuid) and kind in (None, event.event)
        ]

    def wait_event(self, goal: Goal, kind: int) -> TaskEvent:
        return wait_for(lambda: self.events_of(goal, kind), f'event {kind}')[-1]
