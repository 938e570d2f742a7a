"""Writes the trace of a virtual-time run as a planner node and a recorder would, without ROS nodes.

The messages are made by the planner node's own ``PlannerTopics``; only its publishers write into
the trace at once.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rclpy.serialization import serialize_message
from timely_llm_ros.msg import SkillSegment

from benchmarks.recorder.synthetic_trace import T0_NS, stamp
from benchmarks.workloads import TIMED, System, run_workload
from lrtrace.storage import TraceWriter
from timely_llm_ros.engines import EngineInfo
from timely_llm_ros.execution import TimedSegment
from timely_llm_ros.nodes.planner import PlannerTopics
from timely_llm_ros.planner import SegmentReady, TaskAccepted
from timely_llm_ros.ros.conversions import segment_message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.workloads import ServedTask
    from timely_llm_ros.evaluation import Workload
    from timely_llm_ros.planner import PlannerEvent
    from timely_llm_ros.skills import Scene


def plan_id(number: int | str) -> str:
    return str(uuid.UUID(int=int(number) + 1))


@dataclass
class _Now:
    """The clock, the node and its publishers in one: what ``PlannerTopics`` needs of them."""

    writer: TraceWriter
    now_s: float = 0.0

    def get_clock(self) -> _Now:
        return self

    def now(self) -> _Now:
        return self

    def to_msg(self) -> Any:
        return stamp(self.now_s)

    def create_publisher(
        self, kind: type, topic: str, *_qos: object, **_more: object
    ) -> _Publisher:
        return _Publisher(self, f'/{topic}', kind)


class _Publisher:
    def __init__(self, node: _Now, topic: str, kind: type) -> None:
        self._node, self._topic = node, topic
        package = kind.__module__.partition('.')[0]
        node.writer.add_topic(topic, f'{package}/msg/{kind.__name__}')

    def publish(self, message: Any) -> None:
        at_ns = T0_NS + round(self._node.now_s * 1e9)
        self._node.writer.write(self._topic, serialize_message(message), log_ns=at_ns)


def _publish_segment(node: _Now, event: SegmentReady, scene: Scene) -> None:
    """Publish a segment as ``RosRobotLink`` does when it sends one; here it is there at once."""
    timed = TimedSegment(
        event.task_id,
        event.segment,
        scene,
        event.token_at_s,
        event.generation_s,
        event.expected_execution_s,
    )
    message = segment_message(timed, robot=event.robot, skill_set=TIMED)
    message.header.stamp = stamp(event.token_at_s)
    # Made here and not before: each topic costs the writer another metadata.yaml.
    publisher = node.create_publisher(SkillSegment, f'{event.robot}/skill_segments', 50)
    publisher.publish(message)


def apart(workload: Workload, gap_s: float = 0.001) -> Workload:
    """Return a workload whose tasks come one after the other, as goals do over ROS."""
    tasks, last_s = [], -gap_s
    for task in workload.tasks:
        last_s = max(task.at_s, last_s + gap_s)
        tasks.append(replace(task, at_s=last_s))
    return replace(workload, tasks=tuple(tasks))


def write_virtual_trace(
    folder: Path, workload: Workload, system: System, *, hardware: str = 'toy'
) -> Sequence[ServedTask]:
    """Serve a workload and write its trace; return how its tasks fared."""
    writer = TraceWriter(folder, custom_data={'hardware': hardware})
    node = _Now(writer)
    topics = PlannerTopics(node)
    topics.engine_started(
        EngineInfo('simulated', 'simulated', 0, 'none', 0, 1_000_000, 0.0),
        mode=system.mode,
        policy=system.policy,
    )

    scenes: dict[str, Scene] = {}

    def see(event: PlannerEvent) -> None:
        node.now_s = max(node.now_s, event.at_s)
        changed: dict[str, Any] = {'task_id': plan_id(event.task_id)}
        if isinstance(event, TaskAccepted):
            changed['task'] = replace(event.task, task_id=plan_id(event.task_id))
            scenes[changed['task_id']] = event.task.scene
        event = replace(event, **changed)
        topics.on_planner_event(event)
        if isinstance(event, SegmentReady):
            _publish_segment(node, event, scenes[event.task_id])

    records = run_workload(workload, system, hardware=hardware, on_event=see)
    writer.close()
    return records
