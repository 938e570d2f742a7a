"""The ROS node that records a fleet: serialised bytes go into a trace as they were received."""

from __future__ import annotations

import datetime
import importlib
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import rclpy
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from lrtrace.writer import TopicQos, TraceWriter
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rclpy.subscription import MessageInfo
    from rclpy.topic_endpoint_info import TopicEndpointInfo

PACKAGE_TYPES = 'timely_llm_ros/msg/'
"""Every topic of these types is recorded, whatever its name, if it is in the node's namespace."""

SHARED_TOPICS = {
    '/diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    '/rosout': 'rcl_interfaces/msg/Log',
}
"""Topics of the whole machine that are recorded too."""

QUEUE_DEPTH = 1000
"""Messages per topic that may wait to be written."""

LOOK_PERIOD_S = 0.2
"""How often new topics are looked for (s); a signal is noticed within this time."""

END_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end the recording, once; the trace is then ended whole whatever follows."""


@dataclass(frozen=True, slots=True)
class RecorderOptions:
    """What the node's parameters say.

    Attributes:
        output: The trace's folder, which must not exist; empty for one named after the time.
        robots: Robots whose topics are subscribed before anyone publishes on them.
        custom_data: What else to note about the run.
        flush_period_s: A kill loses at most the messages of this time (s).
    """

    output: str
    robots: tuple[str, ...]
    custom_data: dict[str, str]
    flush_period_s: float


class RecorderNode(Node):  # type: ignore[misc]
    """Records task events, segments, states, diagnostics and logs, from :meth:`start` on."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__('recorder', **node_options)
        self.failure = ''
        """Why recording ended early; empty if it did not."""
        self.lost = 0
        """Messages that the middleware dropped before they could be written."""
        self._open_writer: TraceWriter | None = None
        self._recorded: dict[str, Any] = {}
        self._skipped: set[str] = set()

    def start(self) -> None:
        """Make the trace and begin to record; call once.

        Raises:
            TraceError: A parameter cannot be used or the trace cannot be made.
        """
        options = _read_options(self)
        output = options.output or f'trace_{datetime.datetime.now(datetime.UTC):%Y%m%d_%H%M%S}'
        self._open_writer = TraceWriter(output, custom_data=options.custom_data)
        for name, kind, qos in _known_topics(options.robots):
            self._record(self.resolve_topic_name(name), f'{PACKAGE_TYPES}{kind}', qos)
        self._look()
        # Not the node's clock: simulated time may stand still, but what was recorded must not wait.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(LOOK_PERIOD_S, self._look, clock=steady)
        self.create_timer(options.flush_period_s, self._flush, clock=steady)
        self.get_logger().info(f'recording to {self._writer.folder}')

    @property
    def _writer(self) -> TraceWriter:
        if self._open_writer is None:
            raise TraceError('the recorder: expected to be started')
        return self._open_writer

    def close(self) -> None:
        """End the trace; idempotent. One that could not be written on is left as it is."""
        if self.failure:
            return
        try:
            self._writer.close()
        except OSError as err:
            self.failure = f'{self._writer.folder}: {err.strerror}'

    @property
    def summary(self) -> str:
        """What was recorded, in one line."""
        lost = f', {self.lost} lost by the middleware' if self.lost else ''
        return (
            f'{self._writer.folder}: {self._writer.message_count} messages '
            f'of {len(self._writer.topics)} topics{lost}'
        )

    def _look(self) -> None:
        namespace = self.get_namespace().rstrip('/') + '/'
        for topic, kinds in self.get_topic_names_and_types():
            if topic in self._recorded or topic in self._skipped or len(kinds) != 1:
                continue
            ours = kinds[0].startswith(PACKAGE_TYPES) and topic.startswith(namespace)
            if not ours and SHARED_TOPICS.get(topic) != kinds[0]:
                continue
            publishers = self.get_publishers_info_by_topic(topic)
            if publishers:
                self._record(topic, kinds[0], _offered(publishers))

    def _record(self, topic: str, kind: str, qos: TopicQos) -> None:
        try:
            message_class = _message_class(kind)
            self._writer.add_topic(topic, kind, qos)
        except TraceError as err:
            self._skipped.add(topic)
            self.get_logger().warning(f'topic {topic} is not recorded: {err}')
            return
        self._recorded[topic] = self.create_subscription(
            message_class,
            topic,
            partial(self._on_message, topic),
            _requested(qos),
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(message_lost=self._on_lost),
        )

    def _on_message(self, topic: str, data: bytes, info: MessageInfo) -> None:
        if self.failure:
            return
        log_ns = time.time_ns()
        sent_ns = int(info['source_timestamp'] if isinstance(info, dict) else info.source_timestamp)
        self._guarded(
            partial(self._writer.write, topic, data, log_ns=log_ns, publish_ns=sent_ns or log_ns)
        )

    def _flush(self) -> None:
        if not self.failure:
            self._guarded(self._writer.flush)

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as err:
            # What was written before stays readable.
            self.failure = f'{self._writer.folder}: {err.strerror}'
            self.get_logger().fatal(f'recording ends: {self.failure}')
            self.context.try_shutdown()

    def _on_lost(self, status: Any) -> None:
        self.lost += status.total_count_change
        self.get_logger().warning(f'{self.lost} messages lost by the middleware so far')


def _known_topics(robots: tuple[str, ...]) -> list[tuple[str, str, TopicQos]]:
    """Return (name, type, QoS) of what will be there: subscribed early, no message is lost.

    The scheduler's state comes last, and the latest of it is kept for whoever comes late: a planner
    whose state was recorded knows of all other subscriptions.
    """
    return [
        ('task_events', 'TaskEvent', TopicQos(depth=200)),
        *((f'{robot}/skill_segments', 'SkillSegment', TopicQos(depth=50)) for robot in robots),
        ('scheduler_state', 'SchedulerState', TopicQos(durability='transient_local', depth=1)),
    ]


def _read_options(node: Node) -> RecorderOptions:
    def declare(name: str, default: Any, description: str, **limits: Any) -> Any:
        descriptor = ParameterDescriptor(description=description, read_only=True, **limits)
        return node.declare_parameter(name, default, descriptor).value

    pairs = declare('custom_data', [''], 'what to note about the run: a list of name=value')
    robots = declare('robots', [''], 'robots whose topics to subscribe before anyone publishes')
    custom_data = {}
    for pair in filter(None, pairs):
        name, equals, value = pair.partition('=')
        if not (name and equals):
            raise TraceError(f'parameter custom_data: {pair!r}: expected name=value')
        custom_data[name] = value
    return RecorderOptions(
        output=declare(
            'output', '', 'folder of the trace, which must not exist; empty: named after the time'
        ),
        robots=tuple(filter(None, robots)),
        custom_data=custom_data,
        flush_period_s=declare(
            'flush_period_s',
            0.5,
            'a kill loses at most the messages of this time (s)',
            floating_point_range=[FloatingPointRange(from_value=0.05, to_value=1.0)],
        ),
    )


def _message_class(kind: str) -> Any:
    package, _, name = kind.split('/')
    try:
        return vars(importlib.import_module(f'{package}.msg'))[name]
    except (ImportError, KeyError) as err:
        raise TraceError(f'message type {kind!r}: its Python package is not installed') from err


def _offered(publishers: Sequence[TopicEndpointInfo]) -> TopicQos:
    """Return the weakest of what the publishers offer, which all of them can serve."""
    profiles = [publisher.qos_profile for publisher in publishers]
    reliable = all(p.reliability != ReliabilityPolicy.BEST_EFFORT for p in profiles)
    kept = all(p.durability == DurabilityPolicy.TRANSIENT_LOCAL for p in profiles)
    return TopicQos(
        reliability='reliable' if reliable else 'best_effort',
        durability='transient_local' if kept else 'volatile',
        depth=max(1, *(p.depth for p in profiles))
        if len(profiles) > 1
        else max(1, profiles[0].depth),
    )


def _requested(qos: TopicQos) -> QoSProfile:
    reliable, kept = qos.reliability == 'reliable', qos.durability == 'transient_local'
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=QUEUE_DEPTH,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if kept else DurabilityPolicy.VOLATILE,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM, or until it fails; return the exit code.

    For a process of its own: it ignores both signals from then on.
    """
    ending: list[int] = []
    for number in END_SIGNALS:
        # Noted, never raised, and from before there is a trace until the process is gone: rclpy's
        # and Python's own handlers would break off whatever the second signal finds running.
        signal.signal(number, lambda received, _frame: ending.append(received))
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    node = RecorderNode()
    # The events executor cannot hand out serialised messages: it ends in a SystemError.
    executor = SingleThreadedExecutor()
    try:
        node.start()
        executor.add_node(node)
        with suppress(ExternalShutdownException):
            while not ending and node.context.ok():
                executor.spin_once()
        node.close()
        print(node.summary, flush=True)
    except TraceError as err:
        print(f'error: {err}', file=sys.stderr)
        return 1
    finally:
        # The interpreter takes its handlers away before its end, but leaves ignored signals so.
        for number in END_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        # In this order: a node that outlives its context can crash the interpreter's end.
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()
    if node.failure:
        print(f'error: {node.failure}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
