"""Many large segments at once: reading them starves nobody, and most are refused unread."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from support.ros.programs import wait_for
from support.ros.ros_client import SUCCEEDED, UNKNOWN
from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.msg import TaskEvent
from unique_identifier_msgs.msg import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet

Code = ExecuteSegment.Result
SEGMENTS = 200
LARGE = 'delay(100);' * 1360
"""As many characters as a segment may ever have."""
WIDE = """limits:
  {segment_calls: 1000000, segment_s: 1000000, segment_length: 16384,
   plan_calls: 1000000, plan_s: 1000000, queued_segments: 1000}
"""
PATIENT = {'planner_timeout_s': 2.0, 'time_scale': 1.0}


def flood(fleet: Fleet, **fields: Any) -> list[Any]:
    """Send large segments of one plan that all wait for its first one; return their goals."""
    plan_id = UUID(uuid=list(uuid4().bytes))
    return [
        fleet.segment('drone_1', text=LARGE, index=index, plan_id=plan_id, **fields)
        for index in range(1, SEGMENTS + 1)
    ]


def fly_through(fleet: Fleet, **fields: Any) -> list[Any]:
    """Flood one robot while both have plans of a living planner, of which none may be lost."""
    other = fleet.plan('delay(3000);delay(1000);', 'drone_2')
    wait_for(lambda: fleet.events_of(other, TaskEvent.SEGMENT_STARTED), 'start')
    goals = flood(fleet, **fields)
    for goal in goals:
        goal.wait_accepted()
    later = fleet.plan('delay(100);delay(200);', 'drone_2', when_busy=1)
    assert other.result()[0] == SUCCEEDED, other.result()
    assert later.result()[0] == SUCCEEDED, later.result()
    for executor in fleet.executors:
        assert 'no sign of life of the planner' not in executor.output
    return goals


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Two robots in one process; the first one's limits let everything in."""
    shipped = Path(__file__).resolve().parents[2] / 'skills' / 'tello.yaml'
    lines = shipped.read_text().replace('name: tello', 'name: wide').splitlines(keepends=True)
    wide = tmp_path_factory.mktemp('skills') / 'wide.yaml'
    wide.write_text(WIDE + ''.join(line for line in lines if not line.startswith('limits:')))
    return start_fleet(
        robots={'drone_1': str(wide), 'drone_2': 'tello'},
        executor=PATIENT,
        planner={'robot_timeout_s': 2.0},
    )


def test_a_flood_of_segments_that_are_read_starves_nobody(fleet: Fleet) -> None:
    goals = fly_through(fleet, skill_set='wide')
    wait_for(lambda: fleet.states['drone_1'][-1].queued_segments == SEGMENTS, 'all of them read')
    # The planner is not what ends them: a stop is.
    fleet.stop_robot('drone_1')
    codes = Counter(goal.result()[1].error_code for goal in goals)
    assert codes == {Code.CANCELED: SEGMENTS}
    assert fleet.plan('delay(100);', 'drone_1').result()[0] == SUCCEEDED


def test_a_stop_ends_what_is_not_read_yet(fleet: Fleet) -> None:
    def works_by_hand() -> bool:
        goal = fleet.segment('drone_1', skill_set='wide', text='delay(100);')
        return bool(goal.result()[1].error_code == Code.NONE)

    # Until it hears that the planner's last plan has ended, it works for nobody else.
    wait_for(works_by_hand, 'a robot that is free')
    goals = flood(fleet, skill_set='wide')
    # A plan of its own: behind all those that are read before it.
    last = fleet.segment('drone_1', skill_set='wide', text='take_picture;').wait_accepted()
    assert fleet.stop_robot('drone_1').success
    # An executor that is faster than this client has read the last one, and ended the others.
    codes = {goal.result()[1].error_code for goal in goals}
    assert codes <= {Code.CANCELED, Code.SUPERSEDED}
    assert last.result()[1].error_code in (Code.CANCELED, Code.NONE)
    assert fleet.journal('drone_1')[-1]['event'] == 'safe'


def test_most_of_a_flood_is_refused_unread(start_fleet: Callable[..., Fleet]) -> None:
    fleet = start_fleet(
        robots={'drone_1': 'tello', 'drone_2': 'tello'},
        executor=PATIENT,
        planner={'robot_timeout_s': 2.0},
    )
    results = [goal.result() for goal in fly_through(fleet)]
    # Of the first ones nothing is known any more if whoever sent them is slow to ask.
    known = [result for status, result in results if status != UNKNOWN]
    assert len(known) >= 50
    too_long = 'segment of 14960 characters: expected at most 4096'
    # Where the executor is held up, more come than it may keep unread.
    too_many = '64 segments are not read yet: expected less than 64'
    for result in known:
        assert result.error_code == Code.INVALID_SEGMENT
        assert any(why in result.error_msg for why in (too_long, too_many)), result.error_msg
    assert any(too_long in result.error_msg for result in known)
    assert fleet.states['drone_1'][-1].queued_segments == 0
