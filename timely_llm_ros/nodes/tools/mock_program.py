"""What the programs of mocks share: a node that is served while commands come on the input."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from timely_llm_ros.drivers import Journal
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node


def open_record(path: str) -> Journal:
    """Open the file for what a mock does.

    Raises:
        ConfigurationError: It cannot be written.
    """
    try:
        return Journal(path)
    except OSError as err:
        raise ConfigurationError(f'record {path!r}: {err.strerror}') from err


def serve_commands(node: Node, ready: str, obey: Callable[[str], str]) -> None:
    """Serve a node until ``quit`` or the end of the input.

    Args:
        node: The node; it is destroyed, and ROS with it.
        ready: Printed once it is served.
        obey: Does what a line asks for and returns what to print. Called beside the node's thread.
    """
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    spinning = threading.Thread(target=_spin, args=(executor,), daemon=True)
    spinning.start()
    print(ready, flush=True)
    try:
        for line in sys.stdin:
            if line.strip() == 'quit':
                break
            if line.strip():
                print(obey(line.strip()), flush=True)
    finally:
        rclpy.try_shutdown()
        spinning.join()
        node.destroy_node()


def _spin(executor: SingleThreadedExecutor) -> None:
    try:
        executor.spin()
    except ExternalShutdownException:
        return
