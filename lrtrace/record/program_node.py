"""A node that is a program of its own, and the main loop that ends it whole.

The recorder and the replay are such programs. Their messages stay serialised, so each of them runs
on rclpy's own executor and not on the asyncio loop of the planner and the robots.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

END_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a program, once; it ends whole whatever follows."""

SIGNAL_PERIOD_S = 0.2
"""A signal is noticed within this time (s)."""


class ProgramNode(Node):  # type: ignore[misc]
    """A node that is a program of its own."""

    def start(self) -> None:
        """Begin; called once.

        Raises:
            TimelyError: It cannot.
        """
        raise NotImplementedError

    @property
    def over(self) -> bool:
        """Whether it has nothing more to do."""
        raise NotImplementedError

    def finish(self) -> int:
        """End, say what was done, and return the exit code."""
        raise NotImplementedError


def run_program(make_node: Callable[[], ProgramNode], arguments: Sequence[str] | None) -> int:
    """Run a node until SIGINT, SIGTERM or its own end; return the exit code.

    For a process of its own: it ignores both signals from then on.
    """
    ending: list[int] = []
    for number in END_SIGNALS:
        # Noted, never raised, and from before there is anything to end until the process is gone:
        # rclpy's and Python's own handlers would break off whatever the second signal finds.
        signal.signal(number, lambda received, _frame: ending.append(received))
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    node = make_node()
    # The events executor cannot hand out serialised messages: it ends in a SystemError.
    executor = SingleThreadedExecutor()
    try:
        node.start()
        executor.add_node(node)
        with suppress(ExternalShutdownException):
            while not ending and not node.over and node.context.ok():
                executor.spin_once(timeout_sec=SIGNAL_PERIOD_S)
        return node.finish()
    except TimelyError as err:
        print(f'error: {err}', file=sys.stderr)
        return 1
    finally:
        # The interpreter takes its handlers away before its end, but leaves ignored signals so.
        for number in END_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        # In this order: a node that outlives its context can crash the interpreter's end.
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()
