"""The node of a test's own process: it leaves nothing behind that another could be held up by."""

from __future__ import annotations

from pathlib import Path

from rclpy.action import ActionClient
from rclpy.node import Node
from support.ros.ros_client import Client
from timely_llm_ros.action import PlanTask

kept: list[ActionClient] = []


def participants() -> int:
    """Return how many DDS participants this process has: each has a thread for its events."""
    names = [path.read_text(encoding='utf-8') for path in Path('/proc/self/task').glob('*/comm')]
    return sum(name.startswith('dds.ev') for name in names)


def test_a_client_that_is_closed_leaves_no_participant_although_its_parts_are_kept() -> None:
    before = participants()
    client = Client()
    kept.append(client.do(ActionClient, client.node, PlanTask, 'plan_task'))
    other = client.do(Node, 'other')
    kept.append(client.do(ActionClient, other, PlanTask, 'plan_task'))
    client.do(client.add_node, other)
    assert participants() == before + 1
    client.close()
    assert participants() == before
