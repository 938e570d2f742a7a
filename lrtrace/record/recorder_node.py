"""The ROS node that records a fleet; messages go into the trace as serialised bytes."""

from __future__ import annotations

import datetime
import sys
import time
import uuid
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.serialization import deserialize_message

from lrtrace.record.message_classes import message_class
from lrtrace.record.program_node import ProgramNode, run_program
from lrtrace.record.qos import offered_qos, qos_profile
from lrtrace.record.recorded_topics import is_recorded
from lrtrace.record.recorder_health import health, recorder_samples, summary_line
from lrtrace.record.recorder_parameters import RecorderParameters, named_values
from lrtrace.record.recording import Recording
from lrtrace.record.topic_queues import SOLE, TopicQueues
from lrtrace.storage import TopicQos, TraceWriter
from timely_llm_ros.errors import TraceError
from timely_llm_ros.ros import QOS_OVERRIDES, Exporter, declare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lrtrace.record.topic_queues import Received

PACKAGE_TYPES = 'timely_llm_ros/msg/'
STATE_TYPE = f'{PACKAGE_TYPES}SchedulerState'

QUEUE_DEPTH = 1000
"""Messages per topic that may wait in the middleware."""

TAKE_PERIOD_S = 0.04
NEW_TOPICS_PERIOD_S = 0.2
DIAGNOSTICS_PERIOD_S = 1.0

ENGINE_PERIOD_NS = 10_000_000_000
"""How often a scheduler's state is decoded for the run's engine, model and policy (ns)."""


class RecorderNode(ProgramNode):
    """Records task events, segments, states, diagnostics and logs, from :meth:`start` on."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__('recorder', **node_options)
        self.lost: Counter[str] = Counter()
        """Messages that the middleware lost, by topic."""
        self._queues = TopicQueues(self)
        self._skipped: set[str] = set()
        self._state_topics: set[str] = set()
        self._latest: dict[tuple[str, bytes], int] = {}
        self._engine_read_ns = 0
        self._warned = 0

    def start(self) -> None:
        """Make the trace and begin to record.

        Raises:
            ConfigurationError: A parameter cannot be used.
            TraceError: The trace cannot be made.
        """
        options = declare(self, RecorderParameters)
        self._patterns, self._action_feedback = options.topics, options.action_feedback
        self._exporter = Exporter(options.metrics, 'recorder')
        output = options.output or f'trace_{datetime.datetime.now(datetime.UTC):%Y%m%d_%H%M%S}'
        writer = TraceWriter(
            output,
            custom_data={'run_id': str(uuid.uuid4()), **named_values(options.custom_data)},
            max_file_bytes=options.max_file_bytes,
            max_file_s=options.max_file_s,
        )
        self._recording = Recording(
            writer,
            max_backlog_bytes=options.max_backlog_bytes,
            flush_period_s=options.flush_period_s,
        )
        for name, kind, qos in _known_topics(options.robots):
            self._record(self.resolve_topic_name(name), f'{PACKAGE_TYPES}{kind}', qos)
        self._health = self.create_publisher(
            DiagnosticArray, 'diagnostics', 10, qos_overriding_options=QOS_OVERRIDES
        )
        self._look()
        # Not the node's clock, since simulated time may stand still.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(TAKE_PERIOD_S, self._take, clock=steady)
        self.create_timer(NEW_TOPICS_PERIOD_S, self._look, clock=steady)
        self.create_timer(DIAGNOSTICS_PERIOD_S, self._diagnose, clock=steady)
        self.get_logger().info(f'recording to {writer.folder}')

    @property
    def over(self) -> bool:
        """Whether the trace can no longer be written on."""
        return bool(self._recording.failure)

    def finish(self) -> int:
        """End the trace and say so; one that could not be written on stays as it is."""
        self._take()
        self._recording.note({'lost_messages': str(self.lost.total())})
        self._recording.close()
        self._exporter.close()
        failure = self._recording.failure
        if failure:
            self.get_logger().fatal(f'recording ends: {failure}')
        print(summary_line(self._recording.counts(self.lost)), flush=True)
        if failure:
            print(f'error: {failure}', file=sys.stderr)
        return 1 if failure else 0

    def _look(self) -> None:
        namespace = self.get_namespace().rstrip('/') + '/'
        for topic, kinds in self.get_topic_names_and_types():
            if topic in self._queues or topic in self._skipped or len(kinds) != 1:
                continue
            if not is_recorded(
                topic,
                kinds[0],
                namespace,
                self._patterns,
                action_feedback=self._action_feedback,
            ):
                continue
            publishers = self.get_publishers_info_by_topic(topic)
            if publishers:
                self._record(topic, kinds[0], offered_qos(publishers))

    def _record(self, topic: str, kind: str, qos: TopicQos) -> None:
        try:
            kind_class = message_class(kind)
            self._recording.add_topic(topic, kind, qos)
        except TraceError as err:
            self._skipped.add(topic)
            self.get_logger().warning(f'topic {topic} is not recorded: {err}')
            return
        self._queues.add(topic, kind_class, qos_profile(replace(qos, depth=QUEUE_DEPTH)))
        inside = topic.startswith(self.get_namespace().rstrip('/') + '/')
        if kind == STATE_TYPE and inside:
            self._state_topics.add(topic)

    def _take(self) -> None:
        for message in self._queues.take():
            self._count_lost(message.topic, message.publisher, message.sequence)
            self._recording.take(
                message.topic,
                message.data,
                log_ns=message.received_ns,
                publish_ns=message.sent_ns,
                sequence=message.sequence & 0xFFFFFFFF,
            )
            if message.topic in self._state_topics:
                self._note_engine(message)

    def _count_lost(self, topic: str, publisher: bytes, sequence: int) -> None:
        """Count what is missing between a publisher's latest two numbers."""
        if not publisher or not sequence:
            # Another publisher may be the only one later.
            self._latest.pop((topic, SOLE), None)
            return
        key = topic, publisher
        missing = sequence - self._latest.get(key, sequence - 1) - 1
        self._latest[key] = sequence
        if missing > 0:
            self.lost[topic] += missing

    def _note_engine(self, message: Received) -> None:
        """Note, now and then, what a scheduler's state says of the run."""
        now_ns = time.monotonic_ns()
        if self._engine_read_ns and now_ns - self._engine_read_ns < ENGINE_PERIOD_NS:
            return
        self._engine_read_ns = now_ns
        state = deserialize_message(message.data, message_class(STATE_TYPE))
        names = ('engine', 'model', 'mode', 'policy')
        self._recording.note({name: getattr(state, name) for name in names})

    def _diagnose(self) -> None:
        self._queues.look_at_events()
        counts = self._recording.counts(self.lost)
        level, text, values = health(counts)
        self._exporter.show(recorder_samples(counts))
        status = DiagnosticStatus(
            level=bytes([level]),
            name=f'{self.get_fully_qualified_name().lstrip("/")}: trace',
            message=text,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._health.publish(message)
        missing = counts.dropped.total() + counts.lost.total()
        if missing > self._warned:
            self._warned = missing
            self.get_logger().warning(f'not recorded so far: {counts.missing_text}')


def _known_topics(robots: tuple[str, ...]) -> list[tuple[str, str, TopicQos]]:
    """Return (name, type, QoS) of topics to subscribe before anyone publishes on them.

    The scheduler's state comes last, and its latest message is kept for late subscribers: a planner
    whose state was recorded knows of all other subscriptions.
    """
    deep = TopicQos(depth=50)
    segments = [(f'{robot}/skill_segments', 'SkillSegment', deep) for robot in robots if robot]
    return [
        ('task_events', 'TaskEvent', TopicQos(depth=200)),
        *segments,
        ('scheduler_state', 'SchedulerState', TopicQos(durability='transient_local', depth=1)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record until SIGINT or SIGTERM, or until it fails; return the exit code."""
    return run_program(RecorderNode, arguments)


if __name__ == '__main__':
    sys.exit(main())
