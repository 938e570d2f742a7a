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
from lrtrace.storage import TraceWriter
from timely_llm_ros.engines import EngineInfo
from timely_llm_ros.evaluation import TIMED, System, run_workload
from timely_llm_ros.nodes.planner import PlannerTopics
from timely_llm_ros.planner import TaskAccepted
from timely_llm_ros.ros.conversions import segment_message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from timely_llm_ros.evaluation import ServedTask, Workload
    from timely_llm_ros.planner import PlannerEvent, SegmentReady
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

    def create_publisher(self, kind: type, topic: str, _qos: object) -> _Publisher:
        return _Publisher(self, f'/{topic}', kind)


class _Publisher:
    def __init__(self, node: _Now, topic: str, kind: type) -> None:
        self._node, self._topic = node, topic
        node.writer.add_topic(topic, f'timely_llm_ros/msg/{kind.__name__}')

    def publish(self, message: Any) -> None:
        at_ns = T0_NS + round(self._node.now_s * 1e9)
        self._node.writer.write(self._topic, serialize_message(message), log_ns=at_ns)


class _Link:
    """As ``RosRobotLink`` announces segments, but they are there at once."""

    def __init__(self, node: _Now, robot: str) -> None:
        self._node, self._robot = node, robot

    def announce(self, event: SegmentReady, scene: Scene) -> None:
        message = segment_message(
            event.segment,
            plan_id=event.task_id,
            robot=self._robot,
            skill_set=TIMED,
            scene=scene,
            generation_s=event.generation_s,
            expected_execution_s=event.expected_execution_s,
        )
        message.header.stamp = stamp(event.token_at_s)
        # Made here and not before: each topic costs the writer another metadata.yaml.
        publisher = self._node.create_publisher(SkillSegment, f'{self._robot}/skill_segments', 50)
        publisher.publish(message)

    def forget(self, _plan_id: str) -> None:
        """Nothing waits."""


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
    robots = [f'robot_{number}' for number in range(workload.robots)]
    topics = PlannerTopics(node, {robot: _Link(node, robot) for robot in robots})  # type: ignore[arg-type]
    topics.engine_started(
        EngineInfo('simulated', 'simulated', 0, 'none', 0, 1_000_000, 0.0),
        mode=system.mode,
        policy=system.policy,
    )

    def see(event: PlannerEvent) -> None:
        node.now_s = max(node.now_s, event.at_s)
        changed: dict[str, Any] = {'task_id': plan_id(event.task_id)}
        if isinstance(event, TaskAccepted):
            changed['task'] = replace(event.task, task_id=plan_id(event.task_id))
        topics.on_planner_event(replace(event, **changed))

    records = run_workload(workload, system, hardware=hardware, on_event=see)
    writer.close()
    return records
