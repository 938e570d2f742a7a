"""A node of a driver's own, with a context and a thread: a guard that serves no node can open it.

Nothing of ROS is imported before it is opened.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

from timely_llm_ros.processes import prepare_for_dds

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.context import Context
    from rclpy.node import Node
    from rclpy.publisher import Publisher

    from timely_llm_ros.ros import TaskExecutor

_logger = logging.getLogger(__name__)

ARRIVAL_LIMIT_S = 2.0
"""How long what was published last may take to arrive before the node is destroyed (s)."""


class LinkNode:
    """A node that a driver talks through. Made and used on an asyncio loop.

    Args:
        name: Name of the node.
        namespace: Namespace of the robot's fleet.
        make: Called with the node, before it is served.
    """

    def __init__(self, name: str, namespace: str, make: Callable[[Node], None]) -> None:
        import rclpy
        from rclpy.signals import SignalHandlerOptions
        from rclpy.task import Future

        from timely_llm_ros.ros import TaskExecutor

        self._loop = asyncio.get_running_loop()
        self._context: Context = rclpy.Context()
        prepare_for_dds()
        # The arguments of the program are its own node's.
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node: Node = rclpy.create_node(
            name,
            context=self._context,
            namespace=namespace,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        make(self.node)
        self._executor: TaskExecutor = TaskExecutor(self._context)
        self._executor.add_node(self.node)
        self._closing: Any = Future()
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have a function called on the node's thread."""
        self._executor.create_task(function, *arguments)

    def call_loop(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have a function called on the loop's thread; from the node's."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The program is at its end.
            return

    async def close(self, *publishers: Publisher) -> None:
        """Destroy the node once what was published last has arrived."""
        from rclpy.duration import Duration

        limit = Duration(seconds=ARRIVAL_LIMIT_S)
        for publisher in publishers:
            # A hold that was published just now would be lost with its publisher.
            await self._loop.run_in_executor(None, publisher.wait_for_all_acked, limit)
        self.call(self._closing.set_result, None)
        await self._loop.run_in_executor(None, self._thread.join)
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()

    def _spin(self) -> None:
        from rclpy.executors import ExternalShutdownException

        from timely_llm_ros.ros import SPIN_S

        while not self._closing.done():
            try:
                self._executor.spin_until_future_complete(self._closing, SPIN_S)
            except ExternalShutdownException:
                return
            except Exception:
                _logger.exception('node %s', self.node.get_name())
