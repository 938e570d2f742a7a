"""Subscriptions whose serialised messages are taken in bulk.

An executor wakes for every message, calls a callback, and tells the middleware of every
subscription again before it sleeps. With hundreds of topics that is most of the work. Here the
messages wait in the middleware until :meth:`TopicQueues.take` empties all queues.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rclpy.callback_groups import CallbackGroup
from rclpy.subscription import Subscription

from lrtrace.record.steady_time import SteadyTime

if TYPE_CHECKING:
    from rclpy.node import Node


SOLE = b'sole'
"""Stands for the id of a topic's only publisher."""


@dataclass(frozen=True, slots=True)
class Received:
    """One message of a topic, given by its full name. Times are ns since the epoch."""

    topic: str
    data: bytes
    """CDR bytes."""

    received_ns: int
    """When the middleware had it and all before it."""

    sent_ns: int
    publisher: bytes
    """Its publisher's id. Where rclpy tells none, as 7.1 of Jazzy: ``SOLE`` while its topic has one
    publisher, else empty."""

    sequence: int
    """Its number by its publisher; 0 if the middleware does not tell."""


class _HeldGroup(CallbackGroup):  # type: ignore[misc]
    """Keeps an executor from subscriptions, and from their events unless ``events`` is set."""

    events = False

    def can_execute(self, entity: object) -> bool:
        """Tell whether an executor should look at it."""
        return self.events and not isinstance(entity, Subscription)

    def beginning_execution(self, entity: object) -> bool:
        """Tell whether an executor may handle it."""
        return self.can_execute(entity)

    def ending_execution(self, entity: object) -> None:
        """Take note that it was handled."""


class TopicQueues:
    """The subscriptions of a node. For the thread of its executor."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._group = _HeldGroup()
        self._subscriptions: dict[str, Any] = {}
        self._time = SteadyTime()

    def __contains__(self, topic: str) -> bool:
        return topic in self._subscriptions

    def add(self, topic: str, kind: Any, qos: Any) -> None:
        """Subscribe to a topic; as many messages wait as its history is deep."""
        self._subscriptions[topic] = self._node.create_subscription(
            kind, topic, _ignore, qos, callback_group=self._group, raw=True
        )

    def close(self) -> None:
        """Unsubscribe from all topics; what still waits is lost."""
        for subscription in self._subscriptions.values():
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()

    def look_at_events(self) -> None:
        """Let the executor handle events, such as QoS that does not fit, until the next ``take``.

        Every time that it wakes they cost it the square of their number.
        """
        self._group.events = True

    def take(self) -> list[Received]:
        """Return what came since the last time, in the order of reception."""
        self._group.events = False
        self._time.look()
        messages: list[Received] = []
        for topic, subscription in self._subscriptions.items():
            handle = subscription.handle
            received_ns = 0
            with handle:
                # As many as can wait, so that a fast publisher does not hold up the others.
                for _ in range(subscription.qos_profile.depth):
                    taken = handle.take_message(subscription.msg_type, True)
                    if taken is None:
                        break
                    # A message that was sent again comes late, and those behind it waited for it:
                    # they count as received with it, which keeps their publisher's order.
                    message = self._received(topic, received_ns, handle, *taken)
                    received_ns = message.received_ns
                    messages.append(message)
        messages.sort(key=attrgetter('received_ns'))
        return messages

    def _received(
        self, topic: str, earliest_ns: int, handle: Any, data: bytes, info: dict[str, Any]
    ) -> Received:
        received_ns = self._time.of(info['received_timestamp'] or time.time_ns())
        gid = info.get('publisher_gid')
        if gid is not None:
            publisher = bytes(gid['data'])
        else:
            publisher = SOLE if handle.get_publisher_count() == 1 else b''
        return Received(
            topic,
            data,
            max(earliest_ns, received_ns),
            info['source_timestamp'] or received_ns,
            publisher,
            info.get('publication_sequence_number') or 0,
        )


def _ignore(_: bytes) -> None:
    """Stand in for a callback; never called."""
