"""The executor node: hosts the executors of one robot or of a few."""

from __future__ import annotations

import asyncio
import logging
import sys
import zlib
from typing import TYPE_CHECKING, Any

from rclpy.node import Node
from std_msgs.msg import Header

from timely_llm_ros.clock import WallClock
from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.execution import SegmentExecutor
from timely_llm_ros.msg import TaskEvent
from timely_llm_ros.nodes.executor.driver_file import DriverChoice, read_driver_file
from timely_llm_ros.nodes.executor.parameters import ExecutorParameters
from timely_llm_ros.nodes.executor.perception_factory import check_perception, create_perception
from timely_llm_ros.nodes.executor.robot_body import RobotBody
from timely_llm_ros.nodes.executor.robot_server import RobotServer
from timely_llm_ros.ros import (
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    TASK_EVENTS_TOPIC,
    RosThread,
    declare,
    robot_entries,
    run,
    unknown_overrides,
)
from timely_llm_ros.ros.conversions import uuid_text
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.execution import Guard

_logger = logging.getLogger(__name__)

CHECK_PERIOD_S = 0.1


class ExecutorNode(Node):  # type: ignore[misc]
    """Serves the action of each of its robots.

    Args:
        ros: The thread that serves this node.

    Raises:
        ConfigurationError: A parameter or a skill set cannot be used.
    """

    def __init__(self, ros: RosThread) -> None:
        super().__init__('executor')
        self._ros = ros
        self.parameters = declare(self, ExecutorParameters)
        for name in unknown_overrides(self):
            self.get_logger().warning(f'parameter {name!r}: there is none of this name')
        self.bodies = robot_bodies(self.parameters, self.get_namespace())
        self.servers = [self._server(body) for body in self.bodies]
        self._heartbeats = self.create_subscription(
            Header, HEARTBEAT_TOPIC, self._on_heartbeat, HEARTBEAT_QOS
        )

        self._task_events = self.create_subscription(
            TaskEvent, TASK_EVENTS_TOPIC, self._on_task_event, EVENTS_QOS
        )

    def _server(self, body: RobotBody) -> RobotServer:
        parameters = self.parameters
        skill_set = find_skill_set(body.skill_set)
        more: dict[str, Any] = {}
        if body.perception:
            more['perception'] = create_perception(
                body.perception, self, self._ros, body.robot, seed=parameters.seed
            )
        driver = body.make_driver(skill_set, **more)
        executor = SegmentExecutor(
            driver,
            skill_set,
            WallClock(),
            timeout_factor=parameters.timeout_factor,
            timeout_margin_s=parameters.timeout_margin_s,
            idle_limit_s=parameters.idle_limit_s,
        )
        return RobotServer(
            self,
            self._ros,
            body.robot,
            executor,
            planner_timeout_s=parameters.planner_timeout_s,
            result_timeout_s=parameters.result_timeout_s,
        )

    async def serve(self, stop: asyncio.Event, guard: Guard | None) -> bool:
        """Connect the robots and serve until it is time to stop, then make them safe.

        Returns:
            Whether each was told its safe action.

        Raises:
            TimelyError: A robot cannot be connected; those that could be are released again.
        """
        try:
            for server in self.servers:
                await server.executor.start()
            self._ros.start(self)
            names = ', '.join(server.robot for server in self.servers)
            self.get_logger().info(f'executing for {names}')
            while not stop.is_set():
                if guard is not None:
                    guard.beat()
                for server in self.servers:
                    server.check()
                    server.publish_state()
                try:
                    async with asyncio.timeout(self.parameters.state_period_s):
                        await stop.wait()
                except TimeoutError:
                    continue
        finally:
            results = await asyncio.gather(
                *(server.close() for server in self.servers), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    _logger.error('while closing: %r', result)
        return all(result is True for result in results)

    def _on_heartbeat(self, _: Header) -> None:
        self._ros.call_loop(self._planner_heard)

    def _on_task_event(self, event: TaskEvent) -> None:
        if event.event == TaskEvent.ENDED:
            self._ros.call_loop(lambda: self._plan_ended(event.robot, uuid_text(event.plan_id)))

    def _plan_ended(self, robot: str, plan_id: str) -> None:
        for server in self.servers:
            if server.robot == robot:
                server.plan_ended(plan_id)

    def _planner_heard(self) -> None:
        for server in self.servers:
            server.planner_heard()


def robot_bodies(parameters: ExecutorParameters, namespace: str = '') -> list[RobotBody]:
    """Return what drives each robot of an executor, in the namespace of its fleet.

    Raises:
        ConfigurationError: No robot is named, one comes twice or has no skill set, or the drivers
            file cannot be used.
    """
    entries = parameters.robots
    if parameters.robot:
        entries = (f'{parameters.robot}:{parameters.skill_set}', *entries)
    robots = robot_entries(entries)
    if not robots:
        raise ConfigurationError("parameter 'robot': '': expected the name of a robot")
    journal = parameters.journal_path
    if journal and len(robots) > 1 and '{robot}' not in journal:
        raise ConfigurationError(
            f"parameter 'journal_path': {journal!r}: expected {{robot}} in it for several robots"
        )
    chosen = read_driver_file(parameters.drivers_file, parameters.driver)
    bodies = []
    for robot in robots:
        options: dict[str, Any] = {}
        choice = chosen.get(robot.name, DriverChoice(parameters.driver, {}))
        if choice.driver == 'simulated':
            options = {
                # The same robot acts alike whichever process hosts it.
                'seed': parameters.seed ^ zlib.crc32(robot.name.encode()),
                'time_scale': parameters.time_scale,
                'failure_probability': parameters.failure_probability,
                'journal_path': journal.replace('{robot}', robot.name) or None,
            }
        options |= choice.options
        perception = ''
        if choice.driver != 'simulated':
            perception = options.pop('perception', 'topic')
            check_perception(robot.name, perception)
        body = RobotBody(robot.name, robot.skill_set, choice.driver, options, perception, namespace)
        bodies.append(body)
    return bodies


async def _serve(
    stop: asyncio.Event,
    arguments: Sequence[str],
    guard: Guard | None,
    remember: Callable[[list[RobotBody]], None],
) -> int:
    loop = asyncio.get_running_loop()
    ros = RosThread(loop, arguments)
    try:
        node = ExecutorNode(ros)
    except TimelyError as err:
        print(f'executor: {err}', file=sys.stderr)
        ros.close()
        return 2
    remember(node.bodies)
    if guard is not None:
        guard.on_lost(lambda: ros.call_loop(stop.set))
    try:
        safe = await node.serve(stop, guard)
    except TimelyError as err:
        print(f'executor: {err}', file=sys.stderr)
        return 1
    finally:
        await ros.drain()
        ros.close()
    # Anything but 0 has the guard make the robots safe.
    return 0 if safe else 1


def serve(
    arguments: Sequence[str],
    guard: Guard | None = None,
    remember: Callable[[list[RobotBody]], None] = lambda _: None,
) -> int:
    """Run the node until SIGINT or SIGTERM; return the program's exit code.

    Args:
        arguments: The command line, ROS arguments included.
        guard: The process that watches over this one.
        remember: Told what drives the robots before any of them is connected.
    """
    return run(lambda stop: _serve(stop, arguments, guard, remember))
