"""An executor that is not active takes nothing, and its robot is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from support.ros.programs import wait_for
from support.ros.ros_client import SUCCEEDED
from timely_llm_ros.action import ExecuteSegment, PlanTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ros.fleet import Fleet

pytestmark = pytest.mark.distro


def change(fleet: Fleet, transition: int) -> bool:
    request = ChangeState.Request(transition=Transition(id=transition))
    name = fleet.name('executor/change_state')
    return bool(fleet.client.service(ChangeState, name, request).success)


def state(fleet: Fleet) -> str:
    name = fleet.name('executor/get_state')
    return str(fleet.client.service(GetState, name, GetState.Request()).current_state.label)


def test_a_robot_is_safe_and_takes_nothing_while_its_executor_is_not_active(
    start_fleet: Callable[..., Fleet],
) -> None:
    fleet = start_fleet(executor={'time_scale': 1.0})
    wait_for(lambda: state(fleet) == 'active', 'the executor')
    goal = fleet.plan('takeoff;delay(10000);land;')
    fleet.wait_started('delay(10000)')
    assert change(fleet, Transition.TRANSITION_DEACTIVATE)
    assert 'expected its executor to be active' in goal.result()[1].error_msg
    fleet.wait_safe()
    assert fleet.journal()[-1]['event'] == 'safe'
    wait_for(lambda: fleet.states['drone_1'][-1].inactive, 'a state that says so')

    assert not fleet.states['drone_1'][-1].halted

    by_hand = fleet.segment(text='delay(100);').result()[1]
    assert by_hand.error_code == ExecuteSegment.Result.HALTED
    # The planner hears the same a moment later.
    unavailable = PlanTask.Result.ROBOT_UNAVAILABLE
    wait_for(lambda: fleet.plan('land;').result()[1].error_code == unavailable, 'refusal', 20.0)
    assert change(fleet, Transition.TRANSITION_CLEANUP)
    assert state(fleet) == 'unconfigured'
    assert fleet.journal()[-1]['event'] == 'safe'

    assert change(fleet, Transition.TRANSITION_CONFIGURE)
    assert change(fleet, Transition.TRANSITION_ACTIVATE)
    wait_for(lambda: not fleet.states['drone_1'][-1].inactive, 'a state that says so')
    wait_for(lambda: fleet.plan('delay(100);').result()[0] == SUCCEEDED, 'the next plan', 20.0)


def test_without_autostart_no_robot_is_touched_before_it_is_configured(
    start_fleet: Callable[..., Fleet],
) -> None:
    fleet = start_fleet(start_planner=False, executor={'time_scale': 1.0, 'autostart': False})
    wait_for(lambda: state(fleet) == 'unconfigured', 'the executor')
    by_hand = fleet.segment(text='delay(100);').result()[1]
    assert by_hand.error_code == ExecuteSegment.Result.HALTED
    assert not (fleet.folder / 'drone_1.jsonl').exists()
    assert change(fleet, Transition.TRANSITION_CONFIGURE)
    assert fleet.journal()[-1]['event'] == 'safe'
    assert change(fleet, Transition.TRANSITION_ACTIVATE)
    assert fleet.segment(text='delay(100);').result()[0] == SUCCEEDED
