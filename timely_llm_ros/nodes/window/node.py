"""The window's node: topics in, a page out, and what the page asks for to services and actions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rclpy.node import Node

from timely_llm_ros.nodes.window.commands import FleetCommands
from timely_llm_ros.nodes.window.listener import FleetListener
from timely_llm_ros.nodes.window.parameters import WindowParameters
from timely_llm_ros.ros import declare, run
from timely_llm_ros.window.serving import WindowServer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from timely_llm_ros.ros import RosThread
    from timely_llm_ros.window import Event

    Answer = Callable[[Event], None]


class WindowNode(Node):  # type: ignore[misc]
    """Shows the fleet of its namespace.

    Args:
        ros: The thread that serves this node.

    Raises:
        ConfigurationError: A parameter cannot be used.
    """

    def __init__(self, ros: RosThread) -> None:
        super().__init__('window')
        self._ros = ros
        parameters = declare(self, WindowParameters)
        self.server = WindowServer(parameters.serving, now_s=self._now_s, command=self._command)
        self._commands = FleetCommands(self, lambda: sorted(self._robots))
        self._robots: set[str] = set()
        self._listener = FleetListener(self, self._tell, parameters, self._on_robot)

    async def serve(self, stop: asyncio.Event) -> int:
        """Serve until the event is set; return the exit code.

        Raises:
            ConfigurationError: The address cannot be served on.
        """
        await self.server.start()
        self._ros.start(self)
        print(f'window: {self.server.address}', flush=True)
        await stop.wait()
        await self.server.close()
        return 0

    def _now_s(self) -> float:
        now_s: float = self.get_clock().now().nanoseconds / 1e9
        return now_s

    # On the loop's thread

    def _command(self, request: dict[str, Any], answer: Answer) -> None:
        self._ros.call(self._commands.do, request, partial(self._ros.call_loop, answer))

    # On the ROS thread

    def _tell(self, event: Event) -> None:
        self._ros.call_loop(self.server.tell, event, self._now_s())

    def _on_robot(self, robot: str) -> None:
        self._robots.add(robot)
        self._commands.meet(robot)


def serve_window(arguments: Sequence[str] | None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    return run('window', arguments, lambda ros, stop: WindowNode(ros).serve(stop))
