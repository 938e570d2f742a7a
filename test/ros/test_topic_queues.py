"""Messages taken in bulk: in the order of reception, but never out of their publisher's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from lrtrace.record.topic_queues import TopicQueues

if TYPE_CHECKING:
    from collections.abc import Sequence

DEPTH = 8


class Queue:
    """A subscription whose middleware has these messages, by their times of reception."""

    msg_type = bytes

    def __init__(self, times_ns: Sequence[int]) -> None:
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
        info = {
            'received_timestamp': received_ns,
            'source_timestamp': received_ns - 1,
            'publisher_gid': {'data': b'one'},
            'publication_sequence_number': number,
        }
        return b'', info


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
