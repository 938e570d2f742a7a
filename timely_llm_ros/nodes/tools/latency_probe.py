"""Measures the bare latency of a topic between two processes, from publishing to the callback.

``latency_probe listen`` answers until it is told to stop. ``latency_probe send --count N`` waits
for it, sends N stamped messages one after the other and prints one line of JSON:
``{"count", "one_way_s": [...]}``. Both must run on one machine, whose monotonic clock they read.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

import rclpy
from rclpy.experimental import EventsExecutor
from rclpy.node import Node
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from std_msgs.msg import String

from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.ros import create_steady_timer

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUND_S = 60.0
"""One round of spinning (s); the executor's clock overflows without a limit."""


class Listener(Node):  # type: ignore[misc]
    """Answers every message with how long it took."""

    def __init__(self) -> None:
        super().__init__('latency_listener')
        self.done: Future[None] = Future()
        self._back = self.create_publisher(String, 'latency_back', 100)
        self.create_subscription(String, 'latency_there', self._on_message, 100)

    def _on_message(self, message: String) -> None:
        received_s = time.monotonic()
        if message.data == 'stop':
            self.done.set_result(None)
            return
        self._back.publish(String(data=f'{received_s - float(message.data):.9f}'))


class Sender(Node):  # type: ignore[misc]
    """Sends messages one at a time, each at least a period after the answer to the last."""

    def __init__(self, count: int, period_s: float) -> None:
        super().__init__('latency_sender')
        self.done: Future[None] = Future()
        self.one_way_s: list[float] = []
        self._count = count
        self._there = self.create_publisher(String, 'latency_there', 100)
        self.create_subscription(String, 'latency_back', self._on_answer, 100)
        self._timer = create_steady_timer(self, period_s, self._send)
        self._awaited_since_s: float | None = None

    def _send(self) -> None:
        if len(self.one_way_s) >= self._count:
            self._there.publish(String(data='stop'))
            self._timer.cancel()
            self.done.set_result(None)
            return
        matched = self._there.get_subscription_count() and self.count_publishers('latency_back')
        waits = self._awaited_since_s is not None and time.monotonic() - self._awaited_since_s < 1.0
        if matched and not waits:
            self._awaited_since_s = time.monotonic()
            self._there.publish(String(data=f'{time.monotonic():.9f}'))

    def _on_answer(self, message: String) -> None:
        self.one_way_s.append(float(message.data))
        self._awaited_since_s = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one side; return the exit code, 1 if the other side did not answer."""
    given = list(sys.argv if arguments is None else arguments)
    parser = argparse.ArgumentParser(description='Measure the bare latency of a topic.')
    parser.add_argument('side', choices=('listen', 'send'))
    parser.add_argument('--count', type=int, default=50, help='messages to send')
    parser.add_argument('--period', type=float, default=0.01, help='between two messages (s)')
    parser.add_argument('--limit', type=float, default=20.0, help='give up after this time (s)')
    options = parser.parse_args(remove_ros_args(given)[1:])
    prepare_for_dds()
    rclpy.init(args=given)
    node = Listener() if options.side == 'listen' else Sender(options.count, options.period)
    executor = EventsExecutor()
    executor.add_node(node)
    end_s = time.monotonic() + options.limit
    while not node.done.done() and (left_s := end_s - time.monotonic()) > 0:
        executor.spin_until_future_complete(node.done, min(left_s, _ROUND_S))
    if isinstance(node, Sender):
        print(json.dumps({'count': len(node.one_way_s), 'one_way_s': node.one_way_s}), flush=True)
    done = node.done.done()
    executor.remove_node(node)
    node.destroy_node()
    rclpy.try_shutdown()
    return 0 if done else 1


if __name__ == '__main__':
    sys.exit(main())
