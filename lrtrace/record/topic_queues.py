"""Subscriptions whose messages are taken in bulk, serialised as they came.

An executor wakes for every message and hands each to a callback, and before it sleeps again it
tells the middleware anew of every subscription. For hundreds of topics that is most of the work.
Here the middleware queues, and somebody empties all queues now and then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Received:
    """One message.

    Attributes:
        topic: Its topic's full name.
        data: CDR bytes.
        received_ns: When the middleware had it and all before it (ns since the epoch).
        sent_ns: When it was sent (ns since the epoch).
        publisher: Its publisher's id; empty where the middleware does not tell.
        sequence: Its publisher's number; 0 where the middleware does not tell.
    """

    topic: str
    data: bytes
    received_ns: int
    sent_ns: int
    publisher: bytes
    sequence: int


class TopicQueues:
    """The subscriptions of a node. Used on its executor's thread.

    Args:
        node: The node.
        group: Keeps its executor from the subscriptions.
    """

    def __init__(self, node: Node, group: Group) -> None:
        self._node = node
        self._group = group
        self._subscriptions: dict[str, Any] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._subscriptions

    def add(self, topic: str, kind: Any, qos: Any) -> None:
        """Subscribe to a topic; what comes waits, as much as the history's depth."""
        self._subscriptions[topic] = self._node.create_subscription(
            kind, topic, _ignore, qos, callback_group=self._group, raw=True
        )

    def look_at_events(self) -> None:
        """Have the executor see, until the next :meth:`take`, whether some QoS does not fit.

        Each subscription has events of its own, which cost the executor, at every time that it
        wakes, the square of their number.
        """
        self._group.events = True

    def take(self) -> list[Received]:
        """Return what came since the last time, in the order in which it was received."""
        self._group.events = False
        messages: list[Received] = []
        for topic, subscription in self._subscriptions.items():
            handle = subscription.handle
            received_ns = 0
            with handle:
                # As many as can wait: who publishes faster than this takes holds up nobody else.
                for _ in range(subscription.qos_profile.depth):
                    taken = handle.take_message(subscription.msg_type, True)
                    if taken is None:
                        break
                    # One that was sent again came after those that waited for it here: they count
                    # from then on, and stay in their publisher's order.
                    message = _received(topic, received_ns, *taken)
                    received_ns = message.received_ns
                    messages.append(message)
        messages.sort(key=attrgetter('received_ns'))
        return messages


class Node(Protocol):
    """What is needed of a ROS node."""

    def create_subscription(self, *args: Any, **options: Any) -> Any:
        """Subscribe to a topic."""
        ...


class Group(Protocol):
    """The callback group of the subscriptions: keeps an executor from them."""

    events: bool
    """Whether the executor may look at their QoS events now."""


def _received(topic: str, earliest_ns: int, data: bytes, info: dict[str, Any]) -> Received:
    received_ns = max(earliest_ns, info['received_timestamp'] or time.time_ns())
    publisher = info['publisher_gid']
    return Received(
        topic,
        data,
        received_ns,
        info['source_timestamp'] or received_ns,
        bytes(publisher['data']) if publisher is not None else b'',
        info['publication_sequence_number'] or 0,
    )


def _ignore(_: bytes) -> None:
    """Stand for a callback; it is never called."""
