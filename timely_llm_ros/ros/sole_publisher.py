"""Topics whose messages count by who published them, and topics that one program alone publishes.

DDS gives every publisher an identity (GID) that is new with every start of its program and that
messages cannot choose. It is the epoch of the program: planner and executor each name the other's
in what they send, and whatever comes from another publisher is dropped and reported. Where rclpy
does not tell the GID, the epoch is what the message says: this tells programs apart that were
started twice or anew, and not those that lie.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.type_support import check_is_valid_msg_type
from rclpy.utilities import get_rmw_implementation_identifier

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

_logger = logging.getLogger(__name__)

CLAIM_LOOKS = 40
"""How often a program looks, before it serves, for another that does; 0.8 s where the machine is
quiet, and longer where it is too busy to let anybody be discovered sooner. Who speaks is heard
after 0.1 s as a rule, and 0.4 s later where what Fast DDS says first is lost."""

EPOCH = secrets.token_hex(12)
"""The epoch of this program, in the headers of what it says; as long as the longest GID."""

NEW_S = 10.0
"""For how long a program is new (s). One that is not leaves its name to nobody."""

ALIKE = 10
"""Two programs that differ by no more messages in what they have published are equally old."""

LEAVE_S = 5.0
"""How long a program that must leave may take to fall silent (s)."""

_DEPTH = 64
"""Messages kept between two polls, so that one who floods does not hide the others."""

_PERIOD_S = 0.02

_LISTENING: dict[str, Any] = {
    'enable_rosout': False,
    'start_parameter_services': False,
    'cli_args': ['--ros-args', '-r', '__node:=_claim'],
}
"""A hidden node that only listens. It keeps its name where the program's node is given another:
of two nodes of one name in a program, the graph forgets both with the first that goes."""


def _publisher(message: Any, info: dict[str, Any]) -> bytes:
    """Return who published a message: its publisher's GID, or the epoch that it says it is of.

    rclpy 7.1, of Jazzy, does not tell the GID.
    """
    gid = info.get('publisher_gid')
    if gid is not None:
        return bytes(gid['data'])
    epoch: str = getattr(message, 'header', message).frame_id
    return epoch.encode()


class IdentifiedSubscription:
    """Hears a topic and says which publisher each message came from. Polled from one thread.

    In rclpy 9.1 the executor of events cannot call back with a message's info (it raises
    ``SystemError``), so no executor has part in this.

    Args:
        node: The node.
        message_type: Type of the messages.
        topic: Relative name.
        qos: The publishers' quality of service; its depth does not matter.
    """

    def __init__(self, node: Node, message_type: Any, topic: str, qos: QoSProfile) -> None:
        self.topic = node.resolve_topic_name(topic)
        self._message_type = message_type
        deep = QoSProfile(depth=_DEPTH, reliability=qos.reliability, durability=qos.durability)
        # It also loads the type's support library, as for every subscription of rclpy's own.
        check_is_valid_msg_type(message_type)
        arguments = (node.handle, message_type, topic, deep.get_c_qos_profile())
        with node.handle:
            try:
                self._handle = rclpy_implementation.Subscription(*arguments, None)
            except TypeError:
                # rclpy 7.1 has no content filter to leave out.
                self._handle = rclpy_implementation.Subscription(*arguments)
        self._strangers: set[bytes] = set()

    def take(self) -> Iterator[tuple[Any, bytes]]:
        """Return what has arrived, each message with the GID of its publisher."""
        return ((message, gid) for message, gid, _ in self.take_numbered())

    def take_numbered(self) -> Iterator[tuple[Any, bytes, int]]:
        """Return the same, each with how many its publisher has published; 0 if it is not told."""
        for _ in range(_DEPTH):
            try:
                with self._handle:
                    # Annotated: rclpy's stub forgets that there may be none.
                    taken: Any = self._handle.take_message(self._message_type, False)
            except rclpy_implementation.RCLError as err:
                _logger.warning('topic %s: a message that cannot be read: %s', self.topic, err)
                continue
            if taken is None:
                return
            number = taken[1].get('publication_sequence_number') or 0
            yield taken[0], _publisher(*taken), number

    def report(self, gid: bytes, expected: str) -> None:
        """Log, once for each, that a publisher's messages do not count."""
        if gid not in self._strangers:
            if len(self._strangers) >= _DEPTH:
                self._strangers.clear()
            self._strangers.add(gid)
            text = 'topic %s: dropped what publisher %s says, expected %s'
            _logger.error(text, self.topic, gid.hex(), expected)


def same_program(first: bytes, second: bytes) -> bool:
    """Return whether two publishers, given by their GIDs, are of one program.

    The GIDs of DDS begin with the participant's; those of other middleware do not tell.
    """
    return 'zenoh' in get_rmw_implementation_identifier() or first[:12] == second[:12]


class SoleTopic(NamedTuple):
    """A topic that one program alone may publish.

    Attributes:
        message_type: Type of its messages, with a header.
        topic: Relative name.
        qos: Their quality of service.
        service: Relative name of a service that only the same program has.
    """

    message_type: Any
    topic: str
    qos: QoSProfile
    service: str


class _Listener:
    """Listens for other programs that publish a topic."""

    def __init__(self, node: Node, sole: SoleTopic) -> None:
        self.heard = IdentifiedSubscription(node, sole.message_type, sole.topic, sole.qos)
        self._node, self._service = node, node.resolve_service_name(sole.service)

    def looks(self) -> Iterator[float]:
        """Look for another program; yield each time how long to wait for the next look (s).

        Raises:
            ConfigurationError: There is one.
        """
        speaks = False
        for _ in range(CLAIM_LOOKS):
            yield _PERIOD_S
            speaks = speaks or any(True for _ in self.heard.take())
            if speaks and self.servers():
                raise ConfigurationError(self.doubled())

    def servers(self) -> int:
        """Return how many programs have the service, as far as is known."""
        count: int = self._node.count_services(self._service)
        return count

    def doubled(self) -> str:
        """Say that another program has it."""
        return f'service {self._service!r}: another program has it, expected none'


class EarlyClaim:
    """Claims a topic for a program whose node is still to be made, see :meth:`SolePublisher.claim`.

    To discover others and to listen takes as long as much of a program's start. A node of its own
    does it, on a thread, until the claim is done.

    Attributes:
        sole: What is claimed.
    """

    def __init__(self, sole: SoleTopic) -> None:
        self.sole = sole
        self._over = False
        pool = ThreadPoolExecutor(1, 'claim')
        self._listening = pool.submit(self._listen, Node('_claim', **_LISTENING))
        pool.shutdown(wait=False)

    def _listen(self, node: Node) -> None:
        try:
            for wait_s in _Listener(node, self.sole).looks():
                if self._over:
                    return
                time.sleep(wait_s)
        finally:
            node.destroy_node()

    def give_up(self) -> None:
        """Listen no more."""
        self._over = True
        wait([self._listening])

    async def done(self) -> None:
        """Wait until it is known that there is no other program.

        Raises:
            ConfigurationError: There is one.
        """
        await asyncio.wrap_future(self._listening)


class SolePublisher:
    """Publishes stamped messages on a topic that one program alone may publish."""

    def __init__(self, node: Node, sole: SoleTopic) -> None:
        self._clock = node.get_clock()
        self._publisher = node.create_publisher(sole.message_type, sole.topic, sole.qos)
        self._listener = _Listener(node, sole)
        self._new_until_s = 0.0
        self._published = 0
        self._hearing = threading.Lock()
        self._gid = b''
        self._strange: deque[tuple[bytes, int]] = deque(maxlen=_DEPTH)
        """Who else was heard, and how many messages each has published."""
        self._others: dict[bytes, float] = {}
        """Since when who else has been heard (s)."""

    @property
    def gid(self) -> bytes:
        """Its own identity, known once it has heard itself; from any thread."""
        if not self._gid:
            # Whoever has heard it sooner may address it already.
            self._hear()
        return self._gid

    @property
    def new(self) -> bool:
        """Whether this program has claimed the name only lately."""
        return time.monotonic() < self._new_until_s

    def _hear(self) -> None:
        with self._hearing:
            for message, gid, number in self._listener.heard.take_numbered():
                header = getattr(message, 'header', message)
                if not self._gid and header.frame_id == EPOCH:
                    self._gid = gid
                elif self._gid and gid != self._gid:
                    self._strange.append((gid, number))

    def publish(self, message: Any, header: Any) -> None:
        """Publish a message with the present time and this program's epoch in its header."""
        header.stamp, header.frame_id = self._clock.now().to_msg(), EPOCH
        self._publisher.publish(message)
        self._published += 1

    async def claim(self, early: EarlyClaim | None = None) -> None:
        """Listen for another program of that name, before anything is published or served.

        Where it was begun ``early``, only the rest is waited for.

        Raises:
            ConfigurationError: There is one.
        """
        if early is not None:
            await early.done()
        else:
            for wait_s in self._listener.looks():
                await asyncio.sleep(wait_s)
        self._new_until_s = time.monotonic() + NEW_S

    def rival(self) -> str:
        """Return why this program must leave the name to another; '' if it need not.

        Called regularly. On a busy machine a program may hear another only after it has claimed
        the name: the newer one leaves, at once. It is the one that has published less; of two that
        are equally old it is the one with the greater GID.
        """
        now_s = time.monotonic()
        self._hear()
        while self._strange:
            gid, number = self._strange.popleft()
            self._listener.heard.report(gid, f'{self._gid.hex()} alone')
            # Who should have left by now, and still speaks, is not new.
            waited_s = now_s - self._others.setdefault(gid, now_s)
            older = number - self._published if number else 0
            newer = older > ALIKE or (older >= -ALIKE and gid < self._gid)
            leaves = newer or waited_s > LEAVE_S
            if leaves and self.new and self._listener.servers() > 1:
                return self._listener.doubled()
        return ''
