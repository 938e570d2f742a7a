"""Pictures of a world are drawn from poses and events of a trace alone."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from geometry_msgs.msg import PoseStamped
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from lrtrace.report.world_html import world_pictures
from lrtrace.run import Run
from lrtrace.storage import Trace
from lrtrace.storage.writer import TraceWriter
from lrtrace.world_moments import read_moments, worst_first

if TYPE_CHECKING:
    from pathlib import Path

    from lrtrace.world_moments import WorldMoment

HOSTILE = '</svg><script>alert(1)</script>"'


class Flight:
    """A trace of a drone that flies along x at 1 m/s, looking back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writer = TraceWriter(folder)
        self._writer.add_topic('/drone_1/pose', 'geometry_msgs/msg/PoseStamped')
        self._writer.add_topic('/world_events', 'std_msgs/msg/String')

    def event(self, at_s: float, event: str, what: str, **more: Any) -> None:
        line = json.dumps({'event': event, 'robot': 'drone_1', 'what': what, **more})
        self._writer.write('/world_events', serialize_message(String(data=line)), log_ns=ns(at_s))

    def fly(self, from_s: float, to_s: float) -> None:
        for tenth in range(round(10 * from_s), round(10 * to_s)):
            message = PoseStamped()
            message.pose.position.x = tenth / 10
            message.pose.orientation.z, message.pose.orientation.w = 1.0, 0.0
            self._writer.write('/drone_1/pose', serialize_message(message), log_ns=ns(tenth / 10))

    def moments(self) -> list[WorldMoment]:
        self._writer.close()
        return read_moments(Trace(self.folder), 0)


def ns(at_s: float) -> int:
    return round(at_s * 1e9)


@pytest.fixture
def flight(tmp_path: Path) -> Flight:
    return Flight(tmp_path / 'trace')


def test_a_task_is_shown_when_the_world_judged_it(flight: Flight) -> None:
    flight.fly(0, 1)
    flight.event(
        1, 'task', 't1', detail='look_for', targets=['cat_1'], view=[2.0, 8.0],
        things={'cat_1': [3, 1], 'odd': ['x', None]},
    )  # fmt: skip
    flight.fly(1, 3)
    flight.event(3, 'verdict', 't1', detail='succeeded: cat_1 in view', plan='ab')
    (moment,) = flight.moments()
    assert (moment.robot, moment.kind, moment.succeeded) == ('drone_1', 'look_for', True)
    assert (moment.why, moment.plan_id) == ('cat_1 in view', 'ab')
    assert moment.pose.place_m == pytest.approx((2.9, 0))
    assert abs(moment.pose.heading_rad) == pytest.approx(math.pi)
    assert moment.path_m[0] == pytest.approx((0.9, 0)), 'where it was when the task came'
    assert moment.things == {'cat_1': (3.0, 1.0)}
    assert (moment.targets, moment.view_m) == (('cat_1',), 8.0)


def test_who_comes_is_shown_where_they_were_nearest(flight: Flight) -> None:
    flight.fly(0, 1)
    flight.event(1, 'task', 't1', detail='avoid_injury')
    # From ahead to where the drone was: they pass each other at 3.5 s.
    flight.event(1, 'danger', 'person_1', way=[6, 0.2, 0, 0.2, 6])
    flight.fly(1, 7)
    flight.event(3.5, 'near', 'person_1')
    flight.event(7, 'verdict', 't1', detail='failed: person_1 came as near as 0.20 m')
    (moment,) = flight.moments()
    assert moment.pose.at_s == pytest.approx(3.5, abs=0.11)
    assert moment.way is not None
    assert moment.way.at(moment.pose.at_s) == pytest.approx((3.5, 0.2), abs=0.11)
    page = world_pictures([Run('segmented', moments=[moment])])
    assert 'too near to person_1' in page
    assert 'avoid injury' in page


def test_what_went_wrong_is_shown_before_what_went_well(flight: Flight) -> None:
    flight.fly(0, 1)
    for number in range(12):
        flight.event(1 + number, 'task', f't{number}', detail='look_for')
        flight.fly(1 + number, 2 + number)
        if number == 9:
            flight.event(10.9, 'hit', 'tree_1')
        word = 'failed' if number == 11 else 'succeeded'
        flight.event(2 + number, 'verdict', f't{number}', detail=f'{word}: {number}')
    shown = worst_first(flight.moments(), 3)
    assert [moment.why for moment in shown] == ['0', '9', '11'], 'in the order of time'


def test_text_of_a_world_stays_text_and_pictures_are_well_formed(flight: Flight) -> None:
    flight.fly(0, 1)
    flight.event(1, 'task', HOSTILE, detail=HOSTILE, things={HOSTILE: [1, 1], '': [2, 2]},
                 targets=[HOSTILE], view=[1, 2])  # fmt: skip
    flight.event(1, 'danger', HOSTILE, way=[6, 0, 0, 0, 6])
    flight.event(1, 'wreck', HOSTILE)
    flight.fly(1, 2)
    flight.event(2, 'verdict', HOSTILE, detail=f'failed: {HOSTILE}')
    page = world_pictures([Run(HOSTILE, moments=flight.moments())])
    tags = {element.tag for element in ElementTree.fromstring(page).iter()}
    assert 'svg' in tags
    assert 'script' not in tags


@pytest.mark.parametrize(
    'facts',
    [
        {'things': [1], 'targets': 'x', 'view': [9, -1]},
        {'things': {'a': [1e300, 0]}, 'view': [float('nan'), 1]},
        {'things': {'a': [True, []]}, 'targets': {'a': 1}},
    ],
)
def test_facts_that_are_none_are_left_out(flight: Flight, facts: dict[str, Any]) -> None:
    flight.fly(0, 1)
    flight.event(1, 'task', 't1', **facts)
    flight.event(1, 'danger', 'person_1', way=[0, 0, 1, 1, 0])
    flight.event(2, 'verdict', 't1')
    (moment,) = flight.moments()
    assert (moment.things, moment.targets, moment.way, moment.view_m) == ({}, (), None, 0.0)
    ElementTree.fromstring(world_pictures([Run('run', moments=[moment])]))


def test_a_verdict_without_a_pose_or_a_task_has_no_picture(flight: Flight) -> None:
    flight.event(1, 'task', 't1')
    flight.event(2, 'verdict', 't1')
    flight.fly(2, 3)
    flight.event(3, 'verdict', 't2')
    assert flight.moments() == []
    assert world_pictures([Run('run')]) == ''
