"""A program that halts robots or releases them, and names each with what became of it."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from timely_llm_ros.command_line import EXIT_FAILED, EXIT_NO_PLANNER
from timely_llm_ros.nodes.fleet import FleetHalt
from timely_llm_ros.processes import prepare_for_dds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from std_srvs.srv import SetBool


def main(arguments: Sequence[str] | None = None) -> int:
    """Halt or release; return the exit code."""
    given = list(sys.argv if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', choices=('halt', 'release'))
    parser.add_argument('robots', nargs='*')
    parser.add_argument('--wait', type=float, required=True)
    options = parser.parse_args(remove_ros_args(given)[1:])
    halts = options.what == 'halt'

    def tell(robot: str, response: SetBool.Response, took_s: float) -> None:
        mark = '' if response.success else 'NOT SAFE: ' if halts else 'NOT RELEASED: '
        print(f'{robot:<20} {mark}{response.message} ({1000 * took_s:.0f} ms)', flush=True)

    prepare_for_dds()
    rclpy.init(args=given)
    node = Node('fleet_halt')
    fleet = FleetHalt(node, options.robots, halts=halts, on_answer=tell)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end_s = time.monotonic() + options.wait
    try:
        while time.monotonic() < end_s and not fleet.complete:
            fleet.look()
            executor.spin_once(timeout_sec=0.02)
    except KeyboardInterrupt:
        print('interrupted: who is not named above was perhaps not reached', file=sys.stderr)
    missing, failed = fleet.missing, [one for one in fleet.answers.values() if not one.success]
    for robot in missing:
        print(f'{robot:<20} NOT REACHED within {options.wait:g} s', flush=True)
    answered, seen = bool(fleet.answers), ', '.join(sorted(fleet.seen()))
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
    if missing and options.robots:
        print(f'note: robots that are seen here: {seen or "none"}')
    if not (missing or answered):
        expected = 'expected executors in this ROS domain and namespace'
        print(f'error: no robot answers within {options.wait:g} s: {expected}', file=sys.stderr)
        return EXIT_NO_PLANNER
    if not (options.robots or fleet.told_by_planner):
        note = 'no planner answers: the robots above are those whose executors were met'
        print(f'note: {note}; name robots to be told of each')
    return EXIT_FAILED if missing or failed else 0


if __name__ == '__main__':
    sys.exit(main())
