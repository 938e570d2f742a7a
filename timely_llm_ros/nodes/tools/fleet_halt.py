"""Halts the robots of a namespace, or releases them, and names every one that was not reached.

It asks each robot's executor itself, so no planner is needed. Which robots there are it learns from
the executors that it meets and from the catalogue of a planner, so that a robot whose executor is
gone is named too.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import rclpy
import yaml
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from std_msgs.msg import String
from std_srvs.srv import SetBool

from timely_llm_ros.command_line import EXIT_FAILED, EXIT_NO_PLANNER
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.ros import STATE_QOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rclpy.client import Client

SERVICE = 'halt'
KIND = 'std_srvs/srv/SetBool'

ASK_AGAIN_S = 0.5
"""When an executor that has not answered is asked again (s)."""

SETTLED_S = 0.5
"""For how long robots are looked for that a planner's catalogue does not have (s)."""


class FleetHalt(Node):  # type: ignore[misc]
    """Halts robots as soon as it meets their executors.

    Args:
        robots: Their names; none for all that there are.
        halts: Whether they are halted; else they are released.
    """

    def __init__(self, robots: Sequence[str], *, halts: bool) -> None:
        super().__init__('fleet_halt')
        self._halts, self._all = halts, not robots
        self._prefix = self.get_namespace().rstrip('/') + '/'
        self._executors: dict[str, Client] = {}
        self._asked_s: dict[str, float] = {}
        self.answers: dict[str, SetBool.Response] = {}
        """What each robot's executor said."""
        self._known_s = -math.inf if robots else math.inf
        """Since when all robots are known (s)."""
        for robot in robots:
            self._meet(robot)
        if self._all:
            self.create_subscription(String, 'skill_catalogue', self._on_catalogue, STATE_QOS)

    @property
    def complete(self) -> bool:
        """Whether every robot has answered, and no other is expected."""
        settled = time.monotonic() > self._known_s + SETTLED_S
        return settled and bool(self.answers) and not self.missing

    @property
    def missing(self) -> list[str]:
        """The robots that have not answered."""
        return [robot for robot in self._executors if robot not in self.answers]

    def look(self) -> None:
        """Look for more robots, and ask those that have not answered."""
        if self._all:
            for name, kinds in self.get_service_names_and_types():
                robot, _, service = name.removeprefix(self._prefix).rpartition('/')
                inside = name.startswith(self._prefix) and robot and '/' not in robot
                if inside and service == SERVICE and KIND in kinds:
                    self._meet(robot)
        now_s = time.monotonic()
        for robot in self.missing:
            client = self._executors[robot]
            if now_s >= self._asked_s.get(robot, 0.0) + ASK_AGAIN_S and client.service_is_ready():
                self._asked_s[robot] = now_s
                asked = client.call_async(SetBool.Request(data=self._halts))
                asked.add_done_callback(partial(self._on_answer, robot, now_s))

    def _meet(self, robot: str) -> None:
        if robot not in self._executors:
            self._executors[robot] = self.create_client(SetBool, f'{robot}/{SERVICE}')

    def _on_catalogue(self, message: String) -> None:
        for robot in yaml.safe_load(message.data)['robots']:
            self._meet(str(robot))
        self._known_s = time.monotonic()

    def _on_answer(self, robot: str, asked_s: float, answer: Any) -> None:
        if robot not in self.answers:
            response = self.answers[robot] = answer.result()
            mark = '' if response.success else 'NOT SAFE: ' if self._halts else 'NOT RELEASED: '
            took_ms = 1000 * (time.monotonic() - asked_s)
            print(f'{robot:<20} {mark}{response.message} ({took_ms:.0f} ms)', flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Halt or release; return the exit code."""
    given = list(sys.argv if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', choices=('halt', 'release'))
    parser.add_argument('robots', nargs='*')
    parser.add_argument('--wait', type=float, default=3.0)
    options = parser.parse_args(remove_ros_args(given)[1:])
    prepare_for_dds()
    rclpy.init(args=given)
    node = FleetHalt(options.robots, halts=options.what == 'halt')
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end_s = time.monotonic() + options.wait
    try:
        while time.monotonic() < end_s and not node.complete:
            node.look()
            executor.spin_once(timeout_sec=0.02)
    except KeyboardInterrupt:
        print('interrupted: who is not named above was perhaps not reached', file=sys.stderr)
    missing, failed = node.missing, [one for one in node.answers.values() if not one.success]
    for robot in missing:
        print(f'{robot:<20} NOT REACHED within {options.wait:g} s', flush=True)
    answered = bool(node.answers)
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
    if not (missing or answered):
        expected = 'expected executors in this ROS domain and namespace'
        print(f'error: no robot answers within {options.wait:g} s: {expected}', file=sys.stderr)
        return EXIT_NO_PLANNER
    return EXIT_FAILED if missing or failed else 0


if __name__ == '__main__':
    sys.exit(main())
