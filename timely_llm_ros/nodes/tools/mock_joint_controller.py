"""A mock arm under ros2_control: a joint trajectory controller and a joint state broadcaster.

``python -m timely_llm_ros.nodes.tools.mock_joint_controller --help`` tells how to run it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from timely_llm_ros.command_line import add_namespace, make_parser, run_command
from timely_llm_ros.drivers.trajectory import read_joint_poses
from timely_llm_ros.drivers.trajectory.mock import JointBody
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.tools.mock_program import open_record, serve_commands
from timely_llm_ros.ros import create_steady_timer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

_EXAMPLES = """\
examples:
  python -m timely_llm_ros.nodes.tools.mock_joint_controller --poses arm.yaml --robot arm_1
  python -m timely_llm_ros.nodes.tools.mock_joint_controller --poses arm.yaml --robot arm_1 \\
      --namespace hall --rate 100 --record arm_1.jsonl

While it runs, type what shall happen to the arm:
  drop, take       drop every trajectory without a word; take them again
  jam, free        brake and stay, as behind an emergency stop; be free again
  silence, answer  tell no joint states; tell them again
  quit
"""


class MockJointController(Node):  # type: ignore[misc]
    """Follows trajectories and broadcasts joint states, on topics with the robot's name before."""

    def __init__(self, body: JointBody, robot: str, namespace: str, rate_hz: float) -> None:
        super().__init__(f'{robot}_joint_trajectory_controller', namespace=namespace)
        self._body = body
        self.silent = False
        """Whether no joint states are told."""
        self._states = self.create_publisher(
            JointState, f'{robot}/joint_states', QoSProfile(depth=1)
        )
        self._trajectories = self.create_subscription(
            JointTrajectory,
            f'{robot}/joint_trajectory_controller/joint_trajectory',
            self._on_trajectory,
            QoSProfile(depth=1),
        )
        self._timer = create_steady_timer(self, 1.0 / rate_hz, self._tell)

    def _on_trajectory(self, message: JointTrajectory) -> None:
        # Of more points the last: this mock knows only motions from rest to rest.
        if message.points:
            point = message.points[-1]
            time_s = point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec
            self._body.follow(list(message.joint_names), list(point.positions), time_s)

    def _tell(self) -> None:
        positions, speeds = self._body.joints()
        if self.silent:
            return
        message = JointState(
            name=list(positions), position=list(positions.values()), velocity=list(speeds.values())
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._states.publish(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mock until ``quit``, the end of its input or Ctrl-C; return its exit code."""
    parser = make_parser(
        'python -m timely_llm_ros.nodes.tools.mock_joint_controller',
        description='A mock arm under ros2_control: takes joint trajectories, tells joint states.',
        examples=_EXAMPLES,
    )
    parser.add_argument('--poses', required=True, help="the arm's poses file; it starts at home")
    parser.add_argument('--robot', required=True, help='name of the robot')
    add_namespace(parser)
    parser.add_argument(
        '--rate', type=float, default=50.0, help='joint states per second (default: 50)'
    )
    parser.add_argument('--record', default='', help='file for what the arm does, as JSON lines')
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(options: argparse.Namespace) -> int:
    if not 0 < options.rate <= 1000:
        raise ConfigurationError(f'rate {options.rate!r}: expected a number above 0, at most 1000')
    poses = read_joint_poses(options.poses, {})
    start = dict.fromkeys(poses.joints, 0.0) | dict(poses.poses.get('home', {}))
    journal = open_record(options.record)
    body = JointBody(start, journal.note)
    rclpy.init(args=[])
    node = MockJointController(body, options.robot, options.namespace, options.rate)
    serve_commands(node, f'ready {options.robot}', lambda word: _obey(word, body, node))
    return 0


def _obey(word: str, body: JointBody, node: MockJointController) -> str:
    commands: dict[str, Callable[[], None]] = {
        'drop': lambda: body.drop_all(True),
        'take': lambda: body.drop_all(False),
        'jam': lambda: body.jam(True),
        'free': lambda: body.jam(False),
        'silence': lambda: setattr(node, 'silent', True),
        'answer': lambda: setattr(node, 'silent', False),
    }
    command = commands.get(word)
    if command is None:
        return f'error: {word!r}: expected one of {", ".join(commands)}, quit'
    command()
    return f'ok {word}'


if __name__ == '__main__':
    sys.exit(main())
