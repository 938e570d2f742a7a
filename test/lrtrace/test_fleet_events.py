"""A trace as a window's events: of poses and markers only what changes, and tasks always."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from mcap.records import Channel, Schema
from rclpy.serialization import serialize_message
from rosbags.typesys import Stores, get_typestore
from timely_llm_ros.msg import TaskEvent

from benchmarks.recorder.synthetic_trace import T0_NS
from lrtrace.fleet_events import MARKERS, POSE, read_fleet_events
from lrtrace.storage import Trace, TraceWriter, reader
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.window import Event

WAITED_S, STILL = 120, 9
KEPT_BYTES = 2_500_000
"""Less than all of such poses and markers would take, and more than what changes of them."""

STORE = get_typestore(Stores.ROS2_HUMBLE)


def make(kind: str, **values: Any) -> Any:
    return STORE.types[kind](**values)


def pose(x_m: float) -> Any:
    return make(
        'geometry_msgs/msg/Pose',
        position=make('geometry_msgs/msg/Point', x=x_m, y=0.0, z=1.0),
        orientation=make('geometry_msgs/msg/Quaternion', x=0.0, y=0.0, z=0.0, w=1.0),
    )


def header() -> Any:
    time = make('builtin_interfaces/msg/Time', sec=0, nanosec=0)
    return make('std_msgs/msg/Header', stamp=time, frame_id='map')


def marker(number: int, x_m: float = 0.0, *, action: int = 0) -> Any:
    nothing = np.zeros(0, np.uint8)
    return make(
        'visualization_msgs/msg/Marker',
        header=header(), ns='world', id=number, type=1, action=action, pose=pose(x_m),
        scale=make('geometry_msgs/msg/Vector3', x=1.0, y=1.0, z=1.0),
        color=make('std_msgs/msg/ColorRGBA', r=1.0, g=0.0, b=0.0, a=1.0),
        lifetime=make('builtin_interfaces/msg/Duration', sec=0, nanosec=0),
        frame_locked=False, points=[], colors=[], texture_resource='',
        texture=make('sensor_msgs/msg/CompressedImage', header=header(), format='', data=nothing),
        uv_coordinates=[], text=f'thing_{number}', mesh_resource='',
        mesh_file=make('visualization_msgs/msg/MeshFile', filename='', data=nothing),
        mesh_use_embedded_materials=False,
    )  # fmt: skip


class World:
    """A trace of a robot in a world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writer = TraceWriter(folder)
        for number, (topic, kind) in enumerate(
            (('/drone_1/pose', POSE), ('/world_markers', MARKERS)), start=1
        ):
            text = STORE.generate_msgdef(kind, ros_version=2)[0].encode()
            self._writer.copy_topic(
                Schema(id=number, data=text, encoding='ros2msg', name=kind),
                Channel(number, topic, 'cdr', {}, number),
            )
        self._writer.add_topic('/task_events', 'timely_llm_ros/msg/TaskEvent')

    def _write(self, topic: str, at_s: float, data: bytes) -> None:
        self._writer.write(topic, data, log_ns=T0_NS + round(at_s * 1e9))

    def pose(self, at_s: float, x_m: float) -> None:
        message = make(POSE, header=header(), pose=pose(x_m))
        self._write('/drone_1/pose', at_s, bytes(STORE.serialize_cdr(message, POSE)))

    def markers(self, at_s: float, *shown: Any) -> None:
        message = make(MARKERS, markers=list(shown))
        self._write('/world_markers', at_s, bytes(STORE.serialize_cdr(message, MARKERS)))

    def task(self, at_s: float, what: int) -> None:
        message = TaskEvent(event=what, robot='drone_1', skill_set='tello', status=4)
        self._write('/task_events', at_s, serialize_message(message))

    def events(self) -> tuple[list[Event], str]:
        self._writer.close()
        return read_fleet_events(Trace(self.folder))


def long_wait(world: World, *, still: bool) -> None:
    """Tell where things are for minutes; one of them moves, or all."""
    for tick in range(10 * WAITED_S):
        moved_m = 0.01 * tick
        world.pose(tick / 10, 0.0 if still else moved_m)
        if tick % 2 == 0:
            rest = (marker(number, 0.0 if still else moved_m) for number in range(STILL))
            world.markers(tick / 10, *rest, marker(STILL, moved_m))


def test_a_world_that_waits_long_for_its_first_task_plays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, 'KEPT_BYTES', KEPT_BYTES)
    world = World(tmp_path / 'trace')
    long_wait(world, still=True)
    world.task(WAITED_S, TaskEvent.ACCEPTED)
    world.pose(WAITED_S + 1, 1.0)
    world.task(WAITED_S + 2, TaskEvent.ENDED)
    events, damage = world.events()
    assert not damage
    assert [event['what'] for event in events if event['event'] == 'task'] == ['accepted', 'ended']
    # A robot that begins to move rested until then.
    poses = [event for event in events if event['event'] == 'pose']
    since = [(round(event['t'] - T0_NS / 1e9, 1), event['at'][0]) for event in poses]
    assert since == [(0.0, 0.0), (WAITED_S - 0.1, 0.0), (WAITED_S + 1, 1.0)]
    things = [len(event['things']) for event in events if event['event'] == 'things']
    assert things == [STILL + 1] + [1] * (5 * WAITED_S - 1)


def test_tasks_are_there_though_poses_and_markers_found_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, 'KEPT_BYTES', KEPT_BYTES)
    world = World(tmp_path / 'trace')
    long_wait(world, still=False)
    world.task(WAITED_S, TaskEvent.ACCEPTED)
    events, damage = world.events()
    assert 'accepted' in {event.get('what') for event in events}
    assert damage.startswith('poses and markers after ')


def test_things_that_go_are_gone(tmp_path: Path) -> None:
    world = World(tmp_path / 'trace')
    world.task(0.0, TaskEvent.ACCEPTED)
    world.markers(0.1, marker(1), marker(2), marker(3))
    world.markers(0.2, marker(1), marker(2, action=2))
    world.markers(0.3, marker(0, action=3), marker(1), marker(4))
    events, _ = world.events()
    told = [event['things'] for event in events if event['event'] == 'things']
    names = [[(thing['id'], bool(thing['shape'])) for thing in things] for things in told]
    assert names == [
        [('world/1', True), ('world/2', True), ('world/3', True)],
        [('world/2', False)],
        [('world/3', False), ('world/4', True)],
    ]


def test_a_pose_that_follows_at_once_is_left_out(tmp_path: Path) -> None:
    world = World(tmp_path / 'trace')
    world.task(0.0, TaskEvent.ACCEPTED)
    for tick in range(100):
        world.pose(tick / 50, tick / 50)
    poses = [event for event in world.events()[0] if event['event'] == 'pose']
    assert len(poses) == 34


def test_a_trace_without_a_task_is_refused_with_how_far_it_was_read(tmp_path: Path) -> None:
    world = World(tmp_path / 'trace')
    world.pose(0.0, 0.0)
    world.pose(12.5, 1.0)
    with pytest.raises(TraceError, match=r'no task in the 12\.5 s that were read: expected'):
        world.events()
