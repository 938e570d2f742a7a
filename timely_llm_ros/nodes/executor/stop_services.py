"""The services that stop one robot: stop, emergency, and the halt that holds until its release."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from std_srvs.srv import SetBool, Trigger

from timely_llm_ros.errors import Ending, TimelyError
from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.nodes.executor.halt import Halt, halted_folder
from timely_llm_ros.ros import create_deferred_service

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rclpy.node import Node

    from timely_llm_ros.execution import SegmentExecutor
    from timely_llm_ros.ros import RosThread

    Send = Callable[[bool, str], None]
    Serve = Callable[[Send], Coroutine[Any, Any, None]]
    Respond = Callable[[Any], None]

_logger = logging.getLogger(__name__)

_STOPPED = Ending(SegmentCode.CANCELED, 'the robot was stopped')


class StopServices:
    """Serves whoever stops, halts or releases one robot.

    Args:
        node: The executor's node.
        ros: Its thread.
        robot: Name of the robot.
        executor: Runs its segments.
        drop_unread: Refuses, with that ending, the segments that nobody has read yet.
        answered: Called when a service was answered: the robot's state may be another.
    """

    def __init__(
        self,
        node: Node,
        ros: RosThread,
        robot: str,
        executor: SegmentExecutor,
        *,
        drop_unread: Callable[[Ending], None],
        answered: Callable[[], None],
    ) -> None:
        self._node, self._ros, self._robot, self._executor = node, ros, robot, executor
        self._drop_unread, self._answered = drop_unread, answered
        self._halt = Halt(halted_folder(), node.resolve_topic_name(robot))
        self._halted = Ending(
            SegmentCode.HALTED, f'robot {robot!r} is halted: expected its release'
        )
        self.active = False
        """Whether the executor's node is active."""
        self.inactive = Ending(
            SegmentCode.HALTED, f'robot {robot!r}: expected its executor to be active'
        )
        self._background: set[asyncio.Task[None]] = set()

    # On the loop's thread

    @property
    def halted(self) -> bool:
        """Whether the robot is halted, and nobody has released it."""
        return self._halt.there

    @property
    def refusal(self) -> Ending | None:
        """Why the robot takes no segments; None where it does."""
        if self._halt.there:
            return self._halted
        return None if self.active else self.inactive

    def open(self) -> None:
        """Begin to serve, before the node does."""
        node, robot = self._node, self._robot
        create_deferred_service(node, Trigger, f'{robot}/stop', self._on_stop)
        create_deferred_service(node, Trigger, f'{robot}/emergency', self._on_emergency)
        create_deferred_service(node, SetBool, f'{robot}/halt', self._on_halt)
        if self._halt.there:
            _logger.warning(
                'robot %s: halted, by its last executor: expected timely-llm release', robot
            )

    def stop(self, send: Send) -> None:
        """Bring the robot to its safe action; ``send`` is called on the ROS thread."""
        self._spawn(self._stop(send))

    async def _stop(self, send: Send) -> None:
        self._drop_unread(_STOPPED)
        safe = await self._executor.stop()
        problem = '' if safe else 'not issued: the driver has no contact with the robot'
        self._answer(send, safe, problem)

    async def _set_halt(self, send: Send) -> None:
        """Take no more segments, whatever comes of it, then bring the robot to its safe action."""
        forgets = ''
        try:
            self._halt.set()
        except OSError as err:
            forgets = f', but not beyond this program: {err}'
        self._drop_unread(self._halted)
        moved = self._executor.state.phase in ('executing', 'waiting')
        safe = await self._executor.stop(SegmentCode.HALTED, self._halted.message)
        told = ('stopped' if moved else 'was at rest') if safe else 'the driver has no contact'
        self._answer(send, safe and not forgets, f'{told}{forgets}')

    async def _release(self, send: Send) -> None:
        was = self._halt.there
        try:
            self._halt.release()
        except OSError as err:
            self._answer(send, False, f'still halted: {err}')
        else:
            told = 'released' if was else 'was not halted'
            # Its release alone does not let it move.
            self._answer(send, True, told if self.active else f'{told}; {self.inactive.message}')

    async def _cut_power(self, send: Send) -> None:
        self._drop_unread(_STOPPED)
        try:
            self._answer(send, await self._executor.cut_power('asked for over ROS'), '')
        except TimelyError as err:
            self._answer(send, False, str(err))

    def _answer(self, send: Send, success: bool, message: str) -> None:
        self._ros.call(send, success, message)
        self._answered()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # On the ROS thread

    def _on_stop(self, _: Trigger.Request, respond: Respond) -> None:
        self._serve(self._stop, Trigger, respond)

    def _on_emergency(self, _: Trigger.Request, respond: Respond) -> None:
        self._serve(self._cut_power, Trigger, respond)

    def _on_halt(self, request: SetBool.Request, respond: Respond) -> None:
        self._serve(self._set_halt if request.data else self._release, SetBool, respond)

    def _serve(self, serve: Serve, service: Any, respond: Respond) -> None:
        def send(success: bool, message: str) -> None:
            respond(service.Response(success=success, message=message))

        self._ros.call_loop(lambda: self._spawn(serve(send)))
