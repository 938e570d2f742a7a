"""Runs a node's program: its asyncio loop, its ROS thread, its signals and its log."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from rclpy.lifecycle import TransitionCallbackReturn

from timely_llm_ros.errors import TimelyError
from timely_llm_ros.processes import end_with_launch, require_files
from timely_llm_ros.ros.node_log import PACKAGE, NodeLogHandler
from timely_llm_ros.ros.ros_thread import RosThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rclpy.lifecycle import LifecycleNode

    Start = Callable[[RosThread, asyncio.Event], Awaitable[int]]

SWITCH_INTERVAL_S = 0.0002
"""How long one thread may keep the interpreter while the other waits for it (s)."""

LINGER_S = 0.4
"""How long a node stays after its last words (s). DDS drops what a publisher has just sent once it
hears, on another port, that the publisher is gone; asking whether all is heard takes 3 s."""


def autostart(node: LifecycleNode) -> bool:
    """Configure and activate a managed node; return whether that succeeded."""
    succeeded = TransitionCallbackReturn.SUCCESS
    return all(
        trigger() == succeeded for trigger in (node.trigger_configure, node.trigger_activate)
    )


def run(name: str, arguments: Sequence[str] | None, start: Start) -> int:
    """Run a node's program on an asyncio loop; return its exit code.

    An error of this package is printed: its exit code is 2 where ``start`` raises it and 1 later.

    Args:
        name: What the program is called in errors.
        arguments: Its command line, ROS arguments included; None for the process's.
        start: Makes the node and returns what serves until the event is set, which SIGINT and
            SIGTERM do; that returns the exit code.
    """
    # The ROS thread's work must not hold up a robot that waits on the loop, nor the other way.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    package = logging.getLogger(PACKAGE)
    package.addHandler(NodeLogHandler())
    package.propagate = False
    package.setLevel(logging.INFO)
    end_with_launch()
    try:
        require_files()
    except TimelyError as err:
        print(f'{name}: {err}', file=sys.stderr)
        return 2
    return asyncio.run(_run(name, sys.argv if arguments is None else arguments, start))


async def _run(name: str, arguments: Sequence[str], start: Start) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        ros = RosThread(loop, arguments)
    except TimelyError as err:
        print(f'{name}: {err}', file=sys.stderr)
        return 2
    failed = 2
    try:
        serving = start(ros, stop)
        failed = 1
        return await serving
    except TimelyError as err:
        print(f'{name}: {err}', file=sys.stderr)
        return failed
    finally:
        await ros.drain()
        await asyncio.sleep(LINGER_S)
        ros.close()
