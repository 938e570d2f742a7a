"""The world's program over DDS: poses and detections on topics, tasks judged for whoever asks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from geometry_msgs.msg import PoseStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import String
from support.loopback import free_addresses
from support.robots.worlds import SCENE
from support.ros.programs import wait_for
from timely_llm_ros.msg import Detections

from timely_llm_ros.world import Bay, write_bays

if TYPE_CHECKING:
    from pathlib import Path

    from support.ros.ros_client import Client

BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


def test_the_world_tells_and_judges(client: Client, tmp_path: Path) -> None:
    heard: dict[str, Any] = {}
    for kind, topic in ((PoseStamped, 'pose'), (Detections, 'detections')):
        client.node.create_subscription(
            kind, f'/judged_1/{topic}', lambda m, t=topic: heard.update({t: m}), BEST_EFFORT
        )
    lines: list[str] = []
    client.node.create_subscription(
        String, '/world_events', lambda message: lines.append(message.data), 10
    )
    write_bays(tmp_path / 'bays.json', [Bay('judged_1', SCENE)])
    row = free_addresses(1)[0].rpartition('.')[0]
    command = [
        sys.executable, '-m', 'timely_llm_ros.world', '--bays', str(tmp_path / 'bays.json'),
        '--row', row, '--events', str(tmp_path / 'world.jsonl'),
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as world:
        assert world.stdin is not None
        try:
            wait_for(lambda: {'pose', 'detections'} <= set(heard), 'pose and detections')
            place = heard['pose'].pose.position
            assert (round(place.x, 2), round(place.y, 2), round(place.z, 1)) == (0.0, 0.0, 0.0)
            assert set(heard['detections'].labels) <= {item.kind for item in SCENE.objects}
            task = {'key': 't1', 'robot': 'judged_1', 'kind': 'look_for', 'targets': ['key_1']}
            world.stdin.write('nonsense\n')
            world.stdin.write(json.dumps({'begin': task}) + '\n')
            world.stdin.write(json.dumps({'end': 't1'}) + '\n')
            world.stdin.flush()
            wait_for(lambda: any('verdict' in line for line in lines), 'the verdict')
        finally:
            world.stdin.close()
    assert world.returncode == 0
    events = [json.loads(line) for line in (tmp_path / 'world.jsonl').read_text().splitlines()]
    assert [event['event'] for event in events] == ['task', 'verdict']
    assert events[1]['detail'].startswith('failed: key_1')
