"""How the recorder and the replay run as programs, and their QoS."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

END_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a program, once; it ends whole whatever follows."""

LOOK_PERIOD_S = 0.2
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
                executor.spin_once(timeout_sec=LOOK_PERIOD_S)
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


def qos_profile(*, reliability: str, durability: str, depth: int) -> QoSProfile:
    """Return a QoS from what metadata of traces says: what it does not know is the stronger.

    Args:
        reliability: ``best_effort``, or else reliable.
        durability: ``transient_local``, or else volatile.
        depth: Messages that are kept.
    """
    best_effort, kept = reliability == 'best_effort', durability == 'transient_local'
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.BEST_EFFORT if best_effort else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if kept else DurabilityPolicy.VOLATILE,
    )
