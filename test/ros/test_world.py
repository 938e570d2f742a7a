"""The world's program over DDS: poses and detections on topics, tasks judged for whoever asks."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from ctypes.util import find_library
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from geometry_msgs.msg import Point, PoseStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image
from std_msgs.msg import Header, String
from support.loopback import free_addresses
from support.robots.worlds import SCENE
from support.ros.calls_fleet import CallsFleet
from support.ros.fleet import Fleet
from support.ros.programs import wait_for
from timely_llm_ros.msg import Detections
from timely_llm_ros.msg import SceneObject as SceneObjectMessage

from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.world import ArmReach, Bay, arrange_table, write_bays
from tools import robot_interfaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ros.ros_client import Client

TABLE = arrange_table(
    Scene(
        (
            SceneObject('block_1', 'block', 'red'),
            SceneObject('block_2', 'block', 'blue'),
            SceneObject('block_3', 'block', 'green'),
        )
    )
)

BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


def start_world(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a world of the bays in a folder."""
    command = [sys.executable, '-m', 'timely_llm_ros.world', '--bays', str(folder / 'bays.json')]
    return subprocess.Popen(
        [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


class TrajectoryFleet(Fleet):
    """An arm of a world."""

    world: subprocess.Popen[str]

    def start_executor(self, robots: list[str]) -> Any:
        if not hasattr(self, 'world'):
            write_bays(self.folder / 'bays.json', [Bay('arm_1', TABLE, 'arm')])
            self.world = start_world(self.folder, '--namespace', self.namespace)
        return Fleet.start_executor(self, robots)

    def close(self) -> None:
        super().close()
        with self.world as world:
            assert world.stdin is not None
            world.stdin.close()


class TableFleet(TrajectoryFleet, CallsFleet):
    """The same, whose actions the driver ``ros`` calls."""

    def tell(self, **command: object) -> None:
        assert self.world.stdin is not None
        self.world.stdin.write(json.dumps(command) + '\n')
        self.world.stdin.flush()


@pytest.fixture
def table(client: Client, tmp_path: Path) -> Iterator[TableFleet]:
    for package in ('visualization_msgs', 'control_msgs', 'shape_msgs', 'moveit_msgs'):
        robot_interfaces.install(package)
    fleet = TableFleet(
        client,
        tmp_path,
        'arm_1',
        skill_set='arm',
        calls='moveit',
        driver={'perception': 'topic'},
        executor={'planner_timeout_s': 0.0, 'timeout_margin_s': 60.0},
        start_planner=False,
    )
    fleet.wait_ready()
    yield fleet
    fleet.close()


def test_an_arm_builds_a_tower_from_what_its_camera_sees(table: TableFleet) -> None:
    """The third block goes on the second, which is no more where the plan's scene has it."""
    from visualization_msgs.msg import MarkerArray

    shown: list[Any] = []
    table.client.node.create_subscription(
        MarkerArray, table.name('world_markers'), lambda message: shown.append(message.markers), 1
    )
    lines: list[str] = []
    table.client.node.create_subscription(
        String, table.name('world_events'), lambda message: lines.append(message.data), 10
    )
    stacked = [['block_2', 'block_1'], ['block_3', 'block_2']]
    task = {'key': 't1', 'robot': 'arm_1', 'kind': 'stack', 'stacked': stacked}
    table.tell(begin=task)
    wait_for(lambda: any('"task"' in line for line in lines), 'the task begun')
    scene = [
        SceneObjectMessage(
            name=item.name, kind=item.kind, position=Point(x=item.x_m, y=item.y_m, z=item.z_m)
        )
        for item in TABLE.objects
    ]
    text = 'pick(block_2);place(block_1);pick(block_3);place(block_2);home;'
    result = table.segment('arm_1', text=text, objects=scene).result()[1]
    assert result.error_code == SegmentCode.NONE, result.error_msg
    table.tell(end='t1')
    wait_for(lambda: any('verdict' in line for line in lines), 'the verdict')
    (verdict,) = (json.loads(line) for line in lines if 'verdict' in line)
    assert verdict['detail'] == 'succeeded: block_2 on block_1, block_3 on block_2'
    things = {marker.text: marker for marker in shown[-1]}
    assert set(things) == {*TABLE.names, 'arm_1', 'arm_1 table'}
    below, above = (things[name].pose.position for name in ('block_1', 'block_3'))
    assert at(above) == pytest.approx((below.x, below.y, below.z + 0.1), abs=0.02)
    assert len(things['arm_1'].points) == 10


def test_an_arm_that_is_stopped_holds_and_can_be_told_to_go_on(table: TableFleet) -> None:
    item = TABLE.objects[0]
    scene = [
        SceneObjectMessage(
            name=item.name, kind=item.kind, position=Point(x=item.x_m, y=item.y_m, z=item.z_m)
        )
    ]
    heard: list[Any] = []
    table.client.node.create_subscription(
        PoseStamped,
        table.name('arm_1/pose'),
        lambda message: heard.append(message.pose.position),
        BEST_EFFORT,
    )
    wait_for(lambda: heard, 'the hand at rest')
    # Long enough to be stopped in, on a busy machine too.
    goal = table.segment('arm_1', text=f'pick({item.name});open_gripper;' * 6, objects=scene)
    wait_for(lambda: heard[-1].z < heard[0].z - 0.05, 'the hand on its way')
    assert table.stop_robot('arm_1').success
    assert goal.result()[1].error_code != SegmentCode.NONE
    wait_for(lambda: len(heard) > 6 and math.dist(at(heard[-6]), at(heard[-1])) < 0.002, 'rest')
    result = table.segment('arm_1', text=f'pick({item.name});home;', objects=scene).result()[1]
    assert result.error_code == SegmentCode.NONE, result.error_msg


JOINTED_ARM = """
name: jointed
description: an arm that moves between poses
safe_action: stop
skills:
  pick:
    description: pick it up
    arguments: {target: {kind: object}}
    duration: {model: constant, seconds: 3.0}
  home: {description: go to rest, duration: {model: constant, seconds: 2.0}}
  stop: {description: stop, duration: {model: constant, seconds: 0.3}}
"""


def test_the_driver_for_trajectories_moves_the_same_arm(client: Client, tmp_path: Path) -> None:
    item = TABLE.objects[0]
    reach = ArmReach()
    names = [f'panda_joint{number}' for number in range(1, 8)]
    finger = 'panda_finger_joint1'

    def pose(z_m: float) -> dict[str, float]:
        joints = reach.solve((item.x_m, item.y_m, z_m))
        assert joints is not None
        return dict(zip(names, joints, strict=True))

    poses = {
        'joints': {
            **{name: {'max_velocity': 3.0} for name in names},
            finger: {'max_velocity': 0.1},
        },
        'poses': {
            'over': {**pose(0.3), finger: 0.04},
            'at': pose(0.125),
            'closed': {finger: 0.0},
            'home': dict(zip(names, (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785), strict=True)),
        },
        'skills': {'pick': ['over', 'at', 'closed', 'over']},
    }
    (tmp_path / 'poses.yaml').write_text(yaml.safe_dump(poses), encoding='utf-8')
    (skills := tmp_path / 'jointed.yaml').write_text(JOINTED_ARM, encoding='utf-8')
    entry = {'driver': 'trajectory', 'poses_file': str(tmp_path / 'poses.yaml'), 'speed': 1.0}
    drivers = tmp_path / 'drivers.yaml'
    drivers.write_text(yaml.safe_dump({'arm_1': {**entry, 'state_limit_s': 5.0}}), 'utf-8')
    fleet = TrajectoryFleet(
        client,
        tmp_path,
        robots={'arm_1': str(skills)},
        executor={
            'drivers_file': str(drivers), 'planner_timeout_s': 0.0, 'timeout_margin_s': 60.0,
        },
        start_planner=False,
    )  # fmt: skip
    try:
        fleet.wait_ready()
        lines: list[str] = []
        client.node.create_subscription(
            String, fleet.name('world_events'), lambda message: lines.append(message.data), 10
        )
        scene = [SceneObjectMessage(name=item.name, kind=item.kind)]
        text = f'pick({item.name});home;'
        result = fleet.segment('arm_1', text=text, objects=scene, skill_set='jointed').result()[1]
        assert result.error_code == SegmentCode.NONE, result.error_msg
        wait_for(lambda: any('"grip"' in line and item.name in line for line in lines), 'the grip')
    finally:
        fleet.close()


def at(place: Point) -> tuple[float, float, float]:
    return place.x, place.y, place.z


def test_the_world_tells_and_judges(client: Client, tmp_path: Path) -> None:
    heard: dict[str, Any] = {}
    topics = (
        (PoseStamped, '/judged_1/pose', BEST_EFFORT),
        (Detections, '/judged_1/detections', BEST_EFFORT),
        (Clock, '/clock', BEST_EFFORT),
        # Of a picture's many datagrams one may be lost, and all of it with that.
        (Image, '/judged_1/image', 10),
    )
    for kind, topic, qos in topics:
        client.node.create_subscription(
            kind, topic, lambda m, t=topic: heard.update({t.rpartition('/')[2]: m}), qos
        )
    lines: list[str] = []
    client.node.create_subscription(
        String, '/world_events', lambda message: lines.append(message.data), 10
    )
    write_bays(tmp_path / 'bays.json', [Bay('judged_1', SCENE)])
    row = free_addresses(1)[0].rpartition('.')[0]
    events_file = tmp_path / 'world.jsonl'
    options = ('--row', row, '--events', str(events_file), '--clock')
    with start_world(tmp_path, *options) as world:
        assert world.stdin is not None
        try:
            wait_for(lambda: {'pose', 'detections', 'clock'} <= set(heard), 'its topics')
            # Its time begins when it does.
            wait_for(lambda: 1 <= heard['clock'].clock.sec < 1000, 'a second of its time')
            wait_for(lambda: 1 <= heard['pose'].header.stamp.sec < 1000, 'a pose of its time')
            place = heard['pose'].pose.position
            assert (round(place.x, 2), round(place.y, 2), round(place.z, 1)) == (0.0, 0.0, 0.0)
            assert set(heard['detections'].labels) <= {item.kind for item in SCENE.objects}
            look = client.node.create_publisher(Header, '/judged_1/take_picture', 10)
            wait_for(look.get_subscription_count, 'its camera')
            look.publish(Header())
            if find_library('EGL') or find_library('OSMesa'):
                wait_for(lambda: 'image' in heard, 'a picture')
                image = heard['image']
                assert (image.encoding, image.step) == ('rgb8', 3 * image.width)
                assert len(image.data) == image.height * image.step
            task = {'key': 't1', 'robot': 'judged_1', 'kind': 'look_for', 'targets': ['key_1']}
            world.stdin.write('nonsense\n')
            world.stdin.write(json.dumps({'begin': task}) + '\n')
            world.stdin.write(json.dumps({'end': 't1'}) + '\n')
            world.stdin.flush()
            wait_for(lambda: any('verdict' in line for line in lines), 'the verdict')
        finally:
            world.stdin.close()
    assert world.returncode == 0
    events = [json.loads(line) for line in events_file.read_text().splitlines()]
    assert [event['event'] for event in events] == ['task', 'verdict']
    assert events[1]['detail'].startswith('failed: key_1')
