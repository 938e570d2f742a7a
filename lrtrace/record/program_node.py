"""The main loop of the recorder and the replay, which ends them whole.

Their messages stay serialised, so they run on rclpy's own executor and not on the asyncio loop of
the planner and the robots.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from timely_llm_ros.errors import TimelyError
from timely_llm_ros.processes import end_with_launch, require_files
from timely_llm_ros.ros import initialise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

END_SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGNAL_PERIOD_S = 0.2
"""A program notices a signal within this time (s)."""


class ProgramNode(Node):  # type: ignore[misc]
    """A node that is a program of its own."""

    def start(self) -> None:
        """Begin; called once, before all others. Raise TimelyError if that is not possible."""
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

    The process ignores both signals from then on.
    """
    end_with_launch()
    try:
        require_files()
    except TimelyError as err:
        print(f'error: {err}', file=sys.stderr)
        return 2
    ending: list[int] = []
    for number in END_SIGNALS:
        # Noted and never raised, as long as the process lives: the handlers of rclpy and Python
        # would interrupt whatever a second signal finds.
        signal.signal(number, lambda received, _frame: ending.append(received))
    try:
        initialise(arguments)
    except TimelyError as err:
        print(f'error: {err}', file=sys.stderr)
        return 2
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
        # The interpreter removes handlers before its end, but signals stay ignored.
        for number in END_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        # In this order: a node that outlives its context can crash the interpreter's end.
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()
