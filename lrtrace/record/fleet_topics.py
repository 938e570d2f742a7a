"""What a recorder hears of a fleet while it is active; messages stay serialised bytes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rclpy.serialization import deserialize_message

from lrtrace.record.message_classes import message_class
from lrtrace.record.qos import offered_qos, qos_profile
from lrtrace.record.recorded_topics import is_recorded
from lrtrace.record.topic_queues import SOLE, TopicQueues
from lrtrace.storage import TopicQos
from timely_llm_ros.errors import TraceError
from timely_llm_ros.ros import create_steady_timer

if TYPE_CHECKING:
    from collections import Counter

    from rclpy.node import Node

    from lrtrace.record.recorder_parameters import RecorderParameters
    from lrtrace.record.recording import Recording
    from lrtrace.record.topic_queues import Received

PACKAGE_TYPES = 'timely_llm_ros/msg/'
STATE_TYPE = f'{PACKAGE_TYPES}SchedulerState'

QUEUE_DEPTH = 1000
"""Messages per topic that may wait in the middleware."""

TAKE_PERIOD_S = 0.04
NEW_TOPICS_PERIOD_S = 0.2

ENGINE_PERIOD_NS = 10_000_000_000
"""How often a scheduler's state is decoded for the run's engine, model and policy (ns)."""


class FleetTopics:
    """Records task events, segments, states, diagnostics and logs until it is closed.

    Args:
        node: Subscribes; its executor's thread does all of this.
        options: Which topics.
        recording: Takes the messages.
        lost: Counts messages that the middleware lost, by topic.
    """

    def __init__(
        self, node: Node, options: RecorderParameters, recording: Recording, lost: Counter[str]
    ) -> None:
        self._node, self._options = node, options
        self._recording, self._lost = recording, lost
        self._queues = TopicQueues(node)
        self._skipped: set[str] = set()
        self._state_topics: set[str] = set()
        self._latest: dict[tuple[str, bytes], int] = {}
        self._engine_read_ns = 0
        for name, kind, qos in _known_topics(options.robots):
            self._record(node.resolve_topic_name(name), f'{PACKAGE_TYPES}{kind}', qos)
        self._look()
        self._timers = (
            create_steady_timer(node, TAKE_PERIOD_S, self._take),
            create_steady_timer(node, NEW_TOPICS_PERIOD_S, self._look),
        )

    def look_at_events(self) -> None:
        """Have the executor report what goes wrong with subscriptions, such as unfit QoS."""
        self._queues.look_at_events()

    def close(self) -> None:
        """Record what has come so far, and hear no more."""
        self._take()
        for timer in self._timers:
            self._node.destroy_timer(timer)
        self._queues.close()

    def _look(self) -> None:
        namespace = self._node.get_namespace().rstrip('/') + '/'
        for topic, kinds in self._node.get_topic_names_and_types():
            if topic in self._queues or topic in self._skipped or len(kinds) != 1:
                continue
            if not is_recorded(
                topic,
                kinds[0],
                namespace,
                self._options.topics,
                action_feedback=self._options.action_feedback,
            ):
                continue
            publishers = self._node.get_publishers_info_by_topic(topic)
            if publishers:
                self._record(topic, kinds[0], offered_qos(publishers))

    def _record(self, topic: str, kind: str, qos: TopicQos) -> None:
        try:
            kind_class = message_class(kind)
            self._recording.add_topic(topic, kind, qos)
        except TraceError as err:
            self._skipped.add(topic)
            self._node.get_logger().warning(f'topic {topic} is not recorded: {err}')
            return
        self._queues.add(topic, kind_class, qos_profile(replace(qos, depth=QUEUE_DEPTH)))
        inside = topic.startswith(self._node.get_namespace().rstrip('/') + '/')
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
            self._lost[topic] += missing

    def _note_engine(self, message: Received) -> None:
        """Note, now and then, what a scheduler's state says of the run."""
        now_ns = time.monotonic_ns()
        if self._engine_read_ns and now_ns - self._engine_read_ns < ENGINE_PERIOD_NS:
            return
        self._engine_read_ns = now_ns
        state = deserialize_message(message.data, message_class(STATE_TYPE))
        names = ('engine', 'model', 'mode', 'policy')
        self._recording.note({name: getattr(state, name) for name in names})


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
