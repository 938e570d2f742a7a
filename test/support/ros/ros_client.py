"""A node in the test's process that talks to the programs, and the goals that it sends."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

import rclpy
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.experimental import EventsExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from support.ros.programs import LIMIT_S, wait_for
from unique_identifier_msgs.msg import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.client import Client as ServiceClient

SUCCEEDED = GoalStatus.STATUS_SUCCEEDED
UNKNOWN = GoalStatus.STATUS_UNKNOWN
CANCELED = GoalStatus.STATUS_CANCELED
ABORTED = GoalStatus.STATUS_ABORTED

Result = TypeVar('Result')

ASK_AGAIN_S = 5.0
"""When a question that nobody answered is asked again (s)."""


class Goal:
    """A goal that was sent."""

    def __init__(self, client: Client, action: ActionClient, message: Any) -> None:
        self._client = client
        self.feedback: list[Any] = []
        self.accepted: bool | None = None
        self.handle: Any = None
        self.answer: Any = None
        self.uuid = UUID(uuid=list(uuid.uuid4().bytes))
        client.call(self._send, action, message)

    def _send(self, action: ActionClient, message: Any) -> None:
        future = action.send_goal_async(
            message,
            feedback_callback=lambda f: self.feedback.append(f.feedback),
            goal_uuid=self.uuid,
        )
        future.add_done_callback(self._accepted)

    def _accepted(self, future: Any) -> None:
        self.handle = future.result()
        if self.handle.accepted:
            self.handle.get_result_async().add_done_callback(self._ended)
        self.accepted = self.handle.accepted

    def _ended(self, future: Any) -> None:
        self.answer = future.result()

    def is_answered(self, limit_s: float) -> bool:
        """Return whether it is accepted or rejected within a time (s)."""
        with contextlib.suppress(AssertionError):
            wait_for(lambda: self.accepted is not None, limit_s=limit_s)
        return self.accepted is not None

    def wait_accepted(self) -> Goal:
        wait_for(lambda: self.accepted is not None, 'answer to a goal')
        assert self.accepted, 'goal rejected'
        return self

    def wait_rejected(self) -> None:
        wait_for(lambda: self.accepted is not None, 'answer to a goal')
        assert not self.accepted, 'goal accepted'

    def cancel(self) -> Any:
        """Ask for its cancellation; return the answer."""
        self.wait_accepted()
        answers: list[Any] = []
        self._client.call(
            lambda: self.handle.cancel_goal_async().add_done_callback(
                lambda future: answers.append(future.result())
            )
        )
        return wait_for(lambda: answers, 'answer to a cancel')[0]

    def result(self, limit_s: float = LIMIT_S) -> tuple[int, Any]:
        """Return its status and result."""
        self.wait_accepted()
        wait_for(lambda: self.answer is not None, 'result of a goal', limit_s)
        return self.answer.status, self.answer.result


class QuietNode(Node):  # type: ignore[misc]
    """A node that comes and goes while programs do.

    By default rclpy listens for offers of another quality of service at each endpoint. Where one
    comes while its endpoint is being destroyed, rclpy 9.1's events executor ends with an error or a
    SIGSEGV, and by a report (rmw_fastrtps 890) it may wait for Fast DDS and Fast DDS for it.
    """

    def create_publisher(self, *arguments: Any, **options: Any) -> Any:
        quiet = PublisherEventCallbacks(use_default_callbacks=False)
        return super().create_publisher(*arguments, **{'event_callbacks': quiet} | options)

    def create_subscription(self, *arguments: Any, **options: Any) -> Any:
        quiet = SubscriptionEventCallbacks(use_default_callbacks=False)
        return super().create_subscription(*arguments, **{'event_callbacks': quiet} | options)


class Client:
    """A node in the test's process."""

    def __init__(self) -> None:
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self.node = QuietNode('test_client')
        self._services: dict[str, ServiceClient] = {}
        self._executor = EventsExecutor()
        self._executor.add_node(self.node)
        self._closing: Future = Future()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._closing.done():
            self._executor.spin_until_future_complete(self._closing, 5.0)

    def do(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Have a function called on the executor's thread; return its value.

        Whatever makes or ends parts of the node belongs there: the executor may look at an action
        client that is half made, which ends its thread, and then nobody is heard any more.
        """
        done: list[Result] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                done.append(function(*arguments))
            except BaseException as err:
                failed.append(err)

        self.call(run)

        def over() -> bool:
            assert self._thread.is_alive(), 'the executor of the test has ended'
            return bool(done or failed)

        wait_for(over, f'{function}')
        if failed:
            raise failed[0]
        return done[0]

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a function called on the executor's thread."""
        self._executor.create_task(function, *arguments)

    def add_node(self, node: Node) -> None:
        """Serve another node; on the executor's thread."""
        self._executor.add_node(node)

    def remove_node(self, node: Node) -> None:
        """End a node whole; not on the executor's thread, which lets go of it first.

        It would use parts that are destroyed while it has them, of which the process dies.
        """
        self.do(self._executor.remove_node, node)
        self.do(self._destroy, node)

    def _destroy(self, node: Node) -> None:
        # rclpy leaves action clients alive, and with them its process's DDS participant. Two of
        # those may block each other for ever.
        for part in tuple(node.waitables):
            if isinstance(part, ActionClient):
                part.destroy()
        node.destroy_node()

    def service_client(self, service_type: Any, name: str) -> ServiceClient:
        """Return the client of a service, made once: a server answers only clients it has met."""
        if name not in self._services:
            self._services[name] = self.do(self.node.create_client, service_type, name)
        return self._services[name]

    def service(self, service_type: Any, name: str, request: Any, *, again: bool = True) -> Any:
        """Call a service and return the response.

        Args:
            service_type: Its type.
            name: Its full name.
            request: What to ask.
            again: Whether to ask until there is an answer. A server that was killed is known for
                a while longer than it lives.
        """
        client = self.service_client(service_type, name)
        answers: list[Any] = []

        def ask() -> None:
            client.call_async(request).add_done_callback(
                lambda future: answers.append(future.result())
            )

        wait_for(client.service_is_ready, f'service {name}')
        self.call(ask)
        asked_s = time.monotonic()

        def answered() -> bool:
            nonlocal asked_s
            if again and not answers and time.monotonic() - asked_s > ASK_AGAIN_S:
                asked_s = time.monotonic()
                self.call(ask)
            return bool(answers)

        wait_for(answered, f'response of {name}')
        return answers[0]

    def close(self) -> None:
        """End every node that is served, and the executor."""
        for node in tuple(self._executor.get_nodes()):
            self.remove_node(node)
        self.call(self._closing.set_result, None)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), 'the executor of the test does not end'
        self._executor.shutdown()
        rclpy.try_shutdown()
        # What a cycle keeps alive keeps the participant too.
        gc.collect()
