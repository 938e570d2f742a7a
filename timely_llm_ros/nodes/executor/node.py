"""The executor node: hosts the executors of one robot or of a few."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from rclpy.node import Node
from std_msgs.msg import Header

from timely_llm_ros.clock import WallClock
from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.execution import SegmentExecutor
from timely_llm_ros.msg import TaskEvent
from timely_llm_ros.nodes.executor.driver_choice import robot_bodies
from timely_llm_ros.nodes.executor.parameters import ExecutorParameters
from timely_llm_ros.nodes.executor.perception_factory import create_perception
from timely_llm_ros.nodes.executor.robot_server import RobotServer
from timely_llm_ros.ros import (
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    TASK_EVENTS_TOPIC,
    RosThread,
    declare,
    run,
    unknown_overrides,
)
from timely_llm_ros.ros.conversions import uuid_text
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.execution import Guard
    from timely_llm_ros.nodes.executor.robot_body import RobotBody, SharedBodies

_logger = logging.getLogger(__name__)


class ExecutorNode(Node):  # type: ignore[misc]
    """Serves the action of each of its robots.

    Args:
        ros: The thread that serves this node.
        shared: Has the program's guard know of the robots.

    Raises:
        ConfigurationError: A parameter or a skill set cannot be used.
    """

    def __init__(self, ros: RosThread, shared: SharedBodies) -> None:
        super().__init__('executor')
        self._ros, self._shared = ros, shared
        self.parameters = declare(self, ExecutorParameters)
        for name in unknown_overrides(self):
            self.get_logger().warning(f'parameter {name!r}: there is none of this name')
        self._bodies = robot_bodies(self.parameters, self.get_namespace())
        self.servers = [self._server(body) for body in self._bodies]
        self._heartbeats = self.create_subscription(
            Header, HEARTBEAT_TOPIC, self._on_heartbeat, HEARTBEAT_QOS
        )

        self._task_events = self.create_subscription(
            TaskEvent, TASK_EVENTS_TOPIC, self._on_task_event, EVENTS_QOS
        )

    def _server(self, body: RobotBody) -> RobotServer:
        parameters = self.parameters
        skill_set = find_skill_set(body.skill_set)
        perception = None
        if body.perception is not None:
            perception = create_perception(
                body.perception, self, self._ros, body.robot, seed=parameters.seed
            )
        driver = body.make_driver(skill_set, perception)
        executor = SegmentExecutor(driver, skill_set, WallClock(), parameters.limits)
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
        self._shared.remember(self._bodies)
        try:
            await self._connect()
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

    async def _connect(self) -> None:
        for count, server in enumerate(self.servers):
            try:
                await server.executor.start()
            except ConfigurationError:
                # This robot and those after it have heard nothing.
                self._shared.keep(count)
                raise

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
            server.planner.heard()


async def _serve(
    stop: asyncio.Event,
    arguments: Sequence[str],
    guard: Guard | None,
    shared: SharedBodies,
) -> int:
    loop = asyncio.get_running_loop()
    ros = RosThread(loop, arguments)
    try:
        node = ExecutorNode(ros, shared)
    except TimelyError as err:
        print(f'executor: {err}', file=sys.stderr)
        ros.close()
        return 2
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


def serve(arguments: Sequence[str], guard: Guard | None, shared: SharedBodies) -> int:
    """Run the node until SIGINT or SIGTERM; return the program's exit code.

    Args:
        arguments: The command line, ROS arguments included.
        guard: The process that watches over this one; None for none.
        shared: Has that process know of the robots.
    """
    return run(lambda stop: _serve(stop, arguments, guard, shared))
