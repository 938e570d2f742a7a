"""Lists the segments that wait for approval in a namespace, or decides on one of them."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from timely_llm_ros.command_line import EXIT_FAILED, EXIT_NO_PLANNER
from timely_llm_ros.msg import PendingApproval, PendingApprovals
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.ros import STATE_QOS
from timely_llm_ros.ros.conversions import uuid_text
from timely_llm_ros.srv import DecideApproval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEY_CHARACTERS = 8
"""Of a plan's id, in what people type."""


def key_of(approval: PendingApproval) -> str:
    """Return what people call a segment that waits: the head of its plan's id, and its index."""
    return f'{uuid_text(approval.plan_id)[:KEY_CHARACTERS]}:{approval.segment}'


def line_of(approval: PendingApproval, now_s: float) -> str:
    """Say what waits and for how long; ``now_s`` is the time (s, ROS time)."""
    left_s = max(0.0, approval.until.sec + approval.until.nanosec / 1e9 - now_s)
    client = f' of {approval.client}' if approval.client else ''
    return (
        f'{key_of(approval)}  {approval.robot}  {approval.risk} risk ({", ".join(approval.skills)})'
        f'  {left_s:.0f} s left\n    {approval.text}\n    for the task{client}: '
        f'{approval.instruction}'
    )


class Approver(Node):  # type: ignore[misc]
    """Hears what waits for approval, and decides."""

    def __init__(self) -> None:
        super().__init__('approver')
        self.pending: list[PendingApproval] | None = None
        """What waits; None as long as no planner was heard."""
        self.create_subscription(PendingApprovals, 'pending_approvals', self._hear, STATE_QOS)
        self.client = self.create_client(DecideApproval, 'decide_approval')

    def _hear(self, message: PendingApprovals) -> None:
        self.pending = list(message.approvals)


def main(arguments: Sequence[str] | None = None) -> int:
    """List or decide; return the exit code."""
    given = list(sys.argv if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', choices=('list', 'approve', 'refuse'))
    parser.add_argument('key', nargs='?', default='')
    parser.add_argument('--who', default='')
    parser.add_argument('--reason', default='')
    parser.add_argument('--wait', type=float, required=True)
    options = parser.parse_args(remove_ros_args(given)[1:])
    prepare_for_dds()
    rclpy.init(args=given)
    node = Approver()
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end_s = time.monotonic() + options.wait

    def wait(done: Callable[[], object]) -> bool:
        while not done() and time.monotonic() < end_s:
            executor.spin_once(timeout_sec=0.02)
        return bool(done())

    try:
        met = wait(lambda: node.pending is not None and node.client.service_is_ready())
        if not met or node.pending is None:
            print(f'error: no planner answers within {options.wait:g} s', file=sys.stderr)
            return EXIT_NO_PLANNER
        if options.what == 'list':
            now_s = node.get_clock().now().nanoseconds / 1e9
            for approval in node.pending:
                print(line_of(approval, now_s))
            if not node.pending:
                print('nothing waits for approval', file=sys.stderr)
            return 0
        return _decide(node, options, wait)
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


def _decide(node: Approver, options: Any, wait: Callable[[Callable[[], object]], bool]) -> int:
    found = [one for one in node.pending or () if key_of(one) == options.key]
    if len(found) != 1:
        keys = ', '.join(map(key_of, node.pending or ()))
        problem = f'expected one of {keys}' if keys else 'nothing waits for approval'
        print(f'error: {options.key!r}: {problem}', file=sys.stderr)
        return EXIT_FAILED
    (one,) = found
    answer = node.client.call_async(
        DecideApproval.Request(
            plan_id=one.plan_id,
            segment=one.segment,
            approve=options.what == 'approve',
            who=options.who,
            reason=options.reason,
        )
    )
    if not wait(answer.done):
        print(f'error: no answer within {options.wait:g} s', file=sys.stderr)
        return EXIT_NO_PLANNER
    response = answer.result()
    if not response.success:
        print(f'error: {response.message}', file=sys.stderr)
        return EXIT_FAILED
    print(f'{options.key}  {options.what}d: {one.robot}: {one.text}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
