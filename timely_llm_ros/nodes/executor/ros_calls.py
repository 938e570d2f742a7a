"""A driver's link to what others serve: actions, services and topics of any installed type."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.ros import Endpoint, GoalEnding, find_type
from timely_llm_ros.nodes.executor.link_node import LinkNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rclpy.node import Node

_NO_ERROR = 0
"""Return code of ``action_msgs/srv/CancelGoal``."""


class RosCalls:
    """What one robot offers, over ROS.

    Args:
        robot: Name of the robot.
        namespace: Namespace of its fleet, to which names are relative.
    """

    def __init__(self, robot: str, namespace: str) -> None:
        self._robot, self._namespace = robot, namespace
        self._link: LinkNode | None = None
        self._clients: dict[Endpoint, Any] = {}
        self._cancels: dict[Endpoint, Any] = {}
        self._looks: list[tuple[Endpoint, Callable[[], object]]] = []
        """Who asks whether somebody is at the other end."""

    async def open(self, endpoints: Iterable[Endpoint], cancelled: Iterable[Endpoint]) -> None:
        """Make the node and its clients; no-op if they are there."""
        if self._link is None:
            make = partial(self._make, tuple(endpoints), tuple(cancelled))
            self._link = LinkNode(f'{self._robot}_calls', self._namespace, make)

    async def close(self) -> None:
        """Destroy the node; no-op if it is not open."""
        link, self._link = self._link, None
        clients, self._clients, self._cancels, self._looks = self._clients, {}, {}, []
        if link is not None:
            topics = (endpoint for endpoint in clients if endpoint.kind == 'topic')
            await link.close(*(clients[topic] for topic in topics))

    def missing(self) -> str | None:
        """Return which endpoint has nobody at its other end; None where none has."""
        for endpoint, is_there in self._looks:
            if not is_there():
                who = 'subscriber' if endpoint.kind == 'topic' else 'server'
                return f'{endpoint.where}: {endpoint}: no {who}{self._instead(endpoint)}'
        return None

    def send_goal(self, endpoint: Endpoint, goal: Any) -> _Run:
        """Send a goal to an action."""
        run = _Run(self._there())
        run.send(self._clients[endpoint], goal)
        return run

    def ask(self, endpoint: Endpoint, request: Any) -> asyncio.Future[Any]:
        """Send a request to a service."""
        return _asked(self._there(), self._clients[endpoint], request)

    def cancel_goals(self, endpoint: Endpoint) -> asyncio.Future[bool]:
        """Ask an action's server to cancel every goal, which a request without an id does."""
        client = self._cancels[endpoint]
        return _asked(
            self._there(),
            client,
            client.srv_type.Request(),
            lambda answer: answer.return_code == _NO_ERROR,
        )

    def publish(self, endpoint: Endpoint, message: Any) -> None:
        """Publish on a topic."""
        self._clients[endpoint].publish(message)

    def _there(self) -> LinkNode:
        if self._link is None:
            raise RuntimeError('expected the link to be open')
        return self._link

    def _make(
        self, endpoints: tuple[Endpoint, ...], cancelled: tuple[Endpoint, ...], node: Node
    ) -> None:
        from action_msgs.srv import CancelGoal

        from timely_llm_ros.ros import GoalClient

        for endpoint in endpoints:
            found, name = find_type(endpoint.type_name), endpoint.name
            match endpoint.kind:
                case 'action':
                    client: Any = GoalClient(node, found, name)
                    is_there = client.server_is_ready
                case 'service':
                    client = node.create_client(found, name)
                    is_there = client.service_is_ready
                case 'topic':
                    client = node.create_publisher(found, name, 10)
                    is_there = client.get_subscription_count
            self._clients[endpoint] = client
            self._looks.append((endpoint, is_there))
        for action in cancelled:
            name = f'{action.name}/_action/cancel_goal'
            self._cancels[action] = node.create_client(CancelGoal, name)
            self._looks.append((action, self._cancels[action].service_is_ready))

    def _instead(self, endpoint: Endpoint) -> str:
        """Return what is there under that name, or of that type, for people."""
        node = self._there().node
        if endpoint.kind == 'action':
            from rclpy.action import get_action_names_and_types

            known = get_action_names_and_types(node)
        elif endpoint.kind == 'service':
            known = node.get_service_names_and_types()
        else:
            known = node.get_topic_names_and_types()
        # Our own publishers count as topics, so that a name alone says nothing there.
        name = node.resolve_topic_name(endpoint.name)
        own = dict(known).get(name, [])
        if own and endpoint.type_name not in own:
            return f' of type {endpoint.type_name}, {name} is {", ".join(own)}'
        alike = [one for one, types in known if endpoint.type_name in types and one != name]
        return f' at {name}, but at {", ".join(alike)}' if alike else f' at {name}'


class _Run:
    """A goal that was sent; its attributes are those of ``GoalRun``."""

    def __init__(self, link: LinkNode) -> None:
        self._link = link
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.accepted: asyncio.Future[bool] = loop.create_future()
        self.ended: asyncio.Future[GoalEnding] = loop.create_future()
        self.heard_s = loop.time()
        self.feedback: Any = None
        self._goal: Any = None
        self._cancelled = False

    def send(self, client: Any, goal: Any) -> None:
        self._link.call(self._send, client, goal)

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._link.call(self._cancel)

    # On the node's thread

    def _send(self, client: Any, goal: Any) -> None:
        from unique_identifier_msgs.msg import UUID

        answer = client.send_goal_async(
            goal,
            feedback_callback=self._on_feedback,
            goal_uuid=UUID(uuid=list(secrets.token_bytes(16))),
        )
        answer.add_done_callback(self._on_answer)

    def _on_answer(self, answer: Any) -> None:
        goal = answer.result()
        if goal.accepted:
            self._goal = goal
            goal.get_result_async().add_done_callback(self._on_result)
            if self._cancelled:
                self._cancel()
        self._link.call_loop(self._note_answer, goal.accepted)

    def _cancel(self) -> None:
        if self._goal is not None:
            self._goal.cancel_goal_async()

    def _on_feedback(self, message: Any) -> None:
        self._link.call_loop(self._note_feedback, message.feedback)

    def _on_result(self, answer: Any) -> None:
        result = answer.result()
        ending = GoalEnding(result.status, result.result)
        self._link.call_loop(self._note_ending, ending)

    # On the loop's thread

    def _note_answer(self, accepted: bool) -> None:
        self.heard_s = self._loop.time()
        if not self.accepted.done():
            self.accepted.set_result(accepted)

    def _note_feedback(self, feedback: Any) -> None:
        self.heard_s, self.feedback = self._loop.time(), feedback

    def _note_ending(self, ending: GoalEnding) -> None:
        if not self.ended.done():
            self.ended.set_result(ending)


def _asked(
    link: LinkNode, client: Any, request: Any, read: Callable[[Any], Any] = lambda answer: answer
) -> asyncio.Future[Any]:
    """Ask a service; the future has what ``read`` returns of the answer."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    asked: list[Any] = []

    def ask() -> None:
        if future.cancelled():
            return
        pending = client.call_async(request)
        asked.append(pending)
        pending.add_done_callback(lambda done: link.call_loop(note, done))

    def note(done: Any) -> None:
        if not future.done():
            future.set_result(read(done.result()))

    def forget() -> None:
        for pending in asked:
            client.remove_pending_request(pending)

    def when_done(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            link.call(forget)

    future.add_done_callback(when_done)
    link.call(ask)
    return future
