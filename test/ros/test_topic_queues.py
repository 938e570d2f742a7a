"""Messages taken in bulk: in the order of reception, but never out of their publisher's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrtrace.record.topic_queues import SOLE, TopicQueues

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.distro

DEPTH = 8


class Queue:
    """A subscription whose middleware has these messages, by their times of reception."""

    msg_type = bytes

    def __init__(self, times_ns: Sequence[int], *, gid: bytes = b'one') -> None:
        self.gid, self.publishers = gid, 1
        self.handle = self
        self.qos_profile = self
        self.depth = DEPTH
        self._waiting = list(enumerate(times_ns, 1))

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *exc: object) -> None:
        return

    def take_message(self, kind: type, raw: bool) -> tuple[bytes, dict[str, Any]] | None:
        assert kind is bytes
        assert raw
        if not self._waiting:
            return None
        number, received_ns = self._waiting.pop(0)
        info: dict[str, Any] = {
            'received_timestamp': received_ns,
            'source_timestamp': received_ns - 1,
            'publication_sequence_number': number,
        }
        if self.gid:
            info['publisher_gid'] = {'data': self.gid}
        return b'', info

    def get_publisher_count(self) -> int:
        return self.publishers


@given(st.lists(st.lists(st.integers(10, 60), max_size=20), max_size=4))
def test_each_topic_keeps_its_order(topics: list[list[int]]) -> None:
    queues = TopicQueues(None)
    queues._subscriptions = {f'/{n}': Queue(times) for n, times in enumerate(topics)}
    taken = []
    while batch := queues.take():
        assert [m.received_ns for m in batch] == sorted(m.received_ns for m in batch)
        taken += batch
    for number, times in enumerate(topics):
        mine = [message for message in taken if message.topic == f'/{number}']
        assert [message.sequence for message in mine] == list(range(1, len(times) + 1))
        assert all(m.received_ns >= time for m, time in zip(mine, times, strict=True))
        assert all(message.received_ns in times for message in mine)


@pytest.mark.parametrize(
    ('gid', 'publishers', 'expected'),
    [(b'one', 2, b'one'), (b'', 1, SOLE), (b'', 2, b'')],
)
def test_a_publisher_without_an_id_is_known_while_it_is_alone(
    gid: bytes, publishers: int, expected: bytes
) -> None:
    """rclpy 7.1 tells no id, and the numbers of two publishers must not be mixed."""
    queue = Queue([10], gid=gid)
    queue.publishers = publishers
    queues = TopicQueues(None)
    queues._subscriptions = {'/topic': queue}
    (message,) = queues.take()
    assert message.publisher == expected
