"""A program on the domain that lies: about the planner, about robots, about plans.

python -m benchmarks.attack.stranger --seconds 5 --robots drone_1:tello arm_1:arm
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from rclpy.node import Node
from std_msgs.msg import Header
from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.msg import RobotState, SkillSegment, TaskEvent

from benchmarks.attack.hostile import SIGNED
from timely_llm_ros.ros import (
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    STATE_QOS,
    TASK_EVENTS_TOPIC,
    GoalClient,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.ros import RosThread

PERIOD_S = 0.05
SEGMENT_PERIOD_S = 0.5


class Stranger(Node):  # type: ignore[misc]
    """Publishes what it must not, again and again."""

    def __init__(self, robots: Mapping[str, str]) -> None:
        super().__init__('stranger')
        self._heartbeat = self.create_publisher(Header, HEARTBEAT_TOPIC, HEARTBEAT_QOS)
        self._events = self.create_publisher(TaskEvent, TASK_EVENTS_TOPIC, EVENTS_QOS)
        self._states = {
            robot: self.create_publisher(RobotState, f'{robot}/robot_state', STATE_QOS)
            for robot in robots
        }
        self._skill_sets = robots
        self._clients: dict[str, GoalClient] = {}
        """Of the actions that take the robots' segments, by robot."""
        for robot in robots:
            self.create_subscription(RobotState, f'{robot}/robot_state', self._on_state, STATE_QOS)
        self.create_subscription(TaskEvent, TASK_EVENTS_TOPIC, self._on_event, EVENTS_QOS)
        self.create_timer(PERIOD_S, self._lie)
        self.create_timer(SEGMENT_PERIOD_S, self._command)

    def _lie(self) -> None:
        stamp = self.get_clock().now().to_msg()
        self._heartbeat.publish(Header(stamp=stamp))
        for robot, publisher in self._states.items():
            state = RobotState(robot=robot, phase=RobotState.LOST)
            state.header.stamp = stamp
            publisher.publish(state)

    def _on_state(self, state: RobotState) -> None:
        """Meet a robot's executor; the stranger's own states name none."""
        if state.action and state.robot not in self._clients:
            self._clients[state.robot] = GoalClient(self, ExecuteSegment, state.action)

    def _on_event(self, event: TaskEvent) -> None:
        """Say of each task that is begun that it has ended."""
        if event.event in (TaskEvent.ACCEPTED, TaskEvent.SEGMENT_STARTED):
            end = TaskEvent(event=TaskEvent.ENDED, plan_id=event.plan_id, robot=event.robot)
            end.status, end.error_msg = 4, SIGNED
            self._events.publish(end)

    def _command(self) -> None:
        """Send segments in the name of a planner, and to an executor, that do not exist."""
        for robot, client in self._clients.items():
            if client.server_is_ready():
                segment = SkillSegment(robot=robot, skill_set=self._skill_sets[robot], text='stop;')
                for names in ({'planner': b'x' * 16}, {'executor': b'y' * 16}):
                    client.send_goal_async(ExecuteSegment.Goal(segment=segment, **names))


async def _serve(
    ros: RosThread, stop: asyncio.Event, robots: Mapping[str, str], limit_s: float
) -> int:
    ros.start(Stranger(robots))
    try:
        async with asyncio.timeout(limit_s):
            await stop.wait()
    except TimeoutError:
        pass
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=5.0, help='how long it goes on')
    parser.add_argument(
        '--robots', nargs='+', default=[], help='name:skill_set of whom it lies about'
    )
    options: Any = parser.parse_args(arguments)
    robots = dict(text.split(':') for text in options.robots)
    return run(
        'stranger',
        [],
        lambda ros, stop: _serve(ros, stop, robots, options.seconds),
    )


if __name__ == '__main__':
    sys.exit(main())
