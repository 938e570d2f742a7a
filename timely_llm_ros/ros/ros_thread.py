"""The thread on which rclpy runs, beside the asyncio loop of the program.

The loop has the main thread, where signals arrive, so that a shutdown can still talk to the robots.
Neither thread waits for the other: each posts functions to it. Both publish topics and feedback;
only the ROS thread touches the state of actions and of the lifecycle.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.ros.node_log import log_as

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rclpy.executors import Executor
    from rclpy.node import Node

_logger = logging.getLogger(__name__)

SPIN_S = 60.0
"""One round of spinning (s). Without a limit the executor's wait for events overflows its clock in
rclpy 9.1 and it spins without ever waiting."""

_POSTS_PER_ANSWER = 5
"""More than the chain of posts by which rclpy answers a goal's waiting clients."""


_UNREAD = re.compile(
    r"Couldn't parse ([^:']+): '(.+?)'\. Error: (.+?)(?:\s*, at \S+:\d+|$)", re.DOTALL
)
"""What rcl says of a ROS argument: its kind, the argument, and what is wrong; then lines of C."""


def initialise(arguments: Sequence[str] | None) -> None:
    """Initialise ROS for a program that handles signals itself.

    rclpy's own handlers would end the context before the robots are safe, the goals' results are
    sent and the trace is written.

    Args:
        arguments: The command line, ROS arguments included; None for the process's.

    Raises:
        ConfigurationError: A ROS argument cannot be read, such as the file of parameters.
    """
    prepare_for_dds()
    given = None if arguments is None else list(arguments)
    try:
        rclpy.init(args=given, signal_handler_options=SignalHandlerOptions.NO)
    except rclpy_implementation.RCLError as err:
        unread = _UNREAD.search(str(err))
        if unread is None:
            raise
        kind, argument, problem = (' '.join(text.split()) for text in unread.groups())
        expected = 'readable YAML file of parameters' if kind == 'params file' else kind
        raise ConfigurationError(f'{argument}: {problem}: expected a {expected}') from err


class TaskExecutor(rclpy_implementation.EventsExecutor):
    """rclpy's executor of events, whose tasks may fail.

    A task that ends with an exception, be it a posted function, a future's callback or an action's
    coroutine, is a SIGSEGV in rclpy 9.1: reporting it, the executor reads the name of a node that
    the task does not have. Here it is logged instead. Actions' coroutines do not come by
    ``create_task``: ``GoalClient`` and ``DeferredActionServer`` catch theirs.
    """

    def __init__(self, context: rclpy.Context) -> None:
        super().__init__(context)
        # As rclpy's own function does that makes one.
        faulthandler.enable()
        context.on_shutdown(self.wake)

    def create_task(self, callback: Callable[..., object], *arguments: Any) -> Any:
        """Have a function or coroutine function called with ``arguments``; return its task."""
        guarded = _awaited if inspect.iscoroutinefunction(callback) else _called
        return super().create_task(guarded, callback, arguments)


def _called(function: Callable[..., object], arguments: tuple[Any, ...]) -> object:
    try:
        return function(*arguments)
    except Exception:
        _logger.exception('on the ROS thread: %s', function)
        return None


async def _awaited(
    function: Callable[..., Awaitable[object]], arguments: tuple[Any, ...]
) -> object:
    try:
        return await function(*arguments)
    except Exception:
        _logger.exception('on the ROS thread: %s', function)
        return None


class RosThread:
    """Runs a node's callbacks, and the functions posted to it, on a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, arguments: Sequence[str]) -> None:
        self.loop = loop
        initialise(arguments)
        self._executor: Executor = TaskExecutor(rclpy.get_default_context())
        self._node: Node | None = None
        self._closing: Future[None] = Future()
        self._closed = False
        self._thread = threading.Thread(target=self._spin, name='ros', daemon=True)

    def start(self, node: Node) -> None:
        """Begin to serve a node."""
        self._node = node
        log_as(node)
        self._executor.add_node(node)
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have a function called on the ROS thread, after everything that was posted before."""
        self._executor.create_task(function, *arguments)

    def make(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have a function called that makes parts of the node; on the loop's thread.

        Where the node is served already that is on the ROS thread: the executor of rclpy 9.1 may
        look at an action client that is half made, fails, and never looks at it again.
        """
        if self._node is None:
            function(*arguments)
        else:
            self.call(function, *arguments)

    def call_loop(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have a function called on the loop's thread, unless :meth:`close` comes first."""
        try:
            self.loop.call_soon_threadsafe(self._call_if_open, function, arguments)
        except RuntimeError:
            # The program is at its end.
            return

    def _call_if_open(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        # The node's parts are gone once it is closed, and the loop goes on for a while.
        if not self._closed:
            function(*arguments)

    async def drain(self, limit_s: float = 1.0) -> None:
        """Wait until everything posted so far is done, with what it posted in turn."""
        if not self._thread.is_alive():
            return
        for _ in range(_POSTS_PER_ANSWER):
            done = self.loop.create_future()
            self.call(self.call_loop, done.set_result, None)
            await asyncio.wait({done}, timeout=limit_s)

    def close(self, limit_s: float = 2.0) -> None:
        """Stop serving at once and destroy the node; on the loop's thread."""
        self._closed = True
        if self._thread.is_alive():
            self.call(self._closing.set_result, None)
            self._thread.join(limit_s)
        if self._thread.is_alive():
            _logger.error('a ROS callback does not return within %g s', limit_s)
        else:
            self._executor.shutdown()
            log_as(None)
            if self._node is not None:
                self._node.destroy_node()
        rclpy.try_shutdown()

    def _spin(self) -> None:
        while not self._closing.done():
            try:
                self._executor.spin_until_future_complete(self._closing, SPIN_S)
            except ExternalShutdownException:
                return
            except Exception:
                # Raised by a callback; one bad message must not stop the service of all others.
                _logger.exception('ROS callback')
