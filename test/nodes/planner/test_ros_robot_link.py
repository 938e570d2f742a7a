"""The planner's link to a robot: an executor that rclpy does not find, and one that is mute."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY, MagicMock

import pytest
from timely_llm_ros.msg import RobotState

from timely_llm_ros import silence
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.nodes.planner import ros_robot_link
from timely_llm_ros.nodes.planner.ros_robot_link import FOUND_S, NEWCOMER_S, RosRobotLink
from timely_llm_ros.ros import REST_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 1.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=100.0)
    for module in (ros_robot_link, silence):
        monkeypatch.setattr(module, 'time', SimpleNamespace(monotonic=lambda: now.s))
    return now


@pytest.fixture
def link(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A link whose executor's action is never ready."""
    for name in ('IdentifiedSubscription', 'GoalClient'):
        monkeypatch.setattr(ros_robot_link, name, MagicMock())
    ros, client_of = MagicMock(), MagicMock()
    ros.call = ros.make = lambda function, *arguments: function(*arguments)
    client_of.return_value.server_is_ready.return_value = False
    made: Any = RosRobotLink(MagicMock(), ros, client_of, 'r', MagicMock(), MagicMock(), LIMIT_S)
    made._meet('/r/execute_segment')
    return made


def test_a_client_is_made_where_parts_of_the_node_are(link: Any) -> None:
    link._ros.make = MagicMock()
    link._client_of.reset_mock()
    assert link._meet('/r/execute_segment')
    link._client_of.assert_not_called()
    assert not link.available
    (make, action), _ = link._ros.make.call_args
    make(action)
    assert link._client is link._client_of.return_value


def live(
    link: Any,
    clock: SimpleNamespace,
    executor: bytes,
    for_s: float,
    phase: int = RobotState.EXECUTING,
    action: str = '/r/execute_segment',
) -> None:
    """Let an executor speak for a while; b'' for none."""
    state = RobotState(phase=phase, action=action)
    link._states.take.return_value = [(state, executor)] if executor else []
    end_s = clock.s + for_s
    while clock.s < end_s:
        link.check()
        clock.s += 0.05


def test_an_executor_that_is_heard_is_there_whatever_the_graph_says(
    link: Any, clock: SimpleNamespace
) -> None:
    live(link, clock, b'one', FOUND_S - 0.5)
    assert not link.available
    live(link, clock, b'one', 1.0)
    assert link.available


@pytest.mark.parametrize(
    ('phase', 'limit_s'),
    [
        (RobotState.EXECUTING, LIMIT_S),
        (RobotState.WAITING, LIMIT_S),
        (RobotState.LOST, LIMIT_S),
        (RobotState.IDLE, LIMIT_S + REST_PERIOD_S),
        (RobotState.SAFE, LIMIT_S + REST_PERIOD_S),
    ],
)
@pytest.mark.parametrize('late_s', [-0.1, 2.0])
@pytest.mark.parametrize('after', [b'one', b'two'])
def test_one_that_was_away_is_found_anew(
    link: Any, clock: SimpleNamespace, phase: int, limit_s: float, late_s: float, after: bytes
) -> None:
    live(link, clock, b'one', FOUND_S + 0.5)
    assert link.available
    live(link, clock, b'one', 0.1, phase)
    live(link, clock, b'', limit_s + late_s - 0.1)
    assert link.silent == (late_s > 0)
    live(link, clock, after, 0.5)
    assert link.available == (after == b'one' and late_s < 0)


def test_nobody_takes_the_place_of_an_executor_whose_robot_rests(
    link: Any, clock: SimpleNamespace
) -> None:
    live(link, clock, b'one', 1.0, RobotState.IDLE)
    live(link, clock, b'', NEWCOMER_S + 0.1)
    live(link, clock, b'two', 0.2)
    assert link._executor == b'one'
    live(link, clock, b'', REST_PERIOD_S)
    live(link, clock, b'two', 0.2)
    assert link._executor == b'two'


@pytest.mark.parametrize(
    'action', ['', '/', 'r', '/r/', '~/r', '/r x', '/{r}', '/é', '//r', '/' + 227 * 'r']
)
def test_who_names_no_action_is_no_executor(link: Any, clock: SimpleNamespace, action: str) -> None:
    live(link, clock, b'liar', 0.5, action=action)
    assert link._executor == b''
    assert link.silent
    link._states.report.assert_called_with(b'liar', ANY)
    live(link, clock, b'one', 0.1)
    assert link._executor == b'one'
    live(link, clock, b'one', 0.1, action=action)
    link._client_of.assert_called_with('/r/execute_segment')


def test_who_has_no_epoch_is_no_executor(link: Any) -> None:
    link._states.take.return_value = [(RobotState(action='/r/execute_segment'), b'')]
    link.check()
    assert link.silent
    link._states.report.assert_called_with(b'', ANY)


@pytest.fixture
async def answered(link: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Have the link send segments at once; answer the last one that it sent."""
    link._ros = SimpleNamespace(
        loop=asyncio.get_running_loop(),
        call=lambda function, *arguments: function(*arguments),
        call_loop=lambda function, *arguments: function(*arguments),
    )
    monkeypatch.setattr(ros_robot_link, 'segment_message', MagicMock())
    monkeypatch.setattr(ros_robot_link, 'ExecuteSegment', MagicMock())
    monkeypatch.setattr(RosRobotLink, 'available', True)
    monkeypatch.setattr(RosRobotLink, '_message', MagicMock())
    add = link._client.send_goal_async.return_value.add_done_callback
    return lambda answer: add.call_args.args[0](answer)


async def test_a_segment_whose_executor_is_lost_is_forgotten(
    link: Any, answered: Callable[[Any], None]
) -> None:
    executed = asyncio.create_task(link.execute(MagicMock(), print))
    await asyncio.sleep(0)
    answer = MagicMock()
    answered(answer)
    link._give_up('lost')
    with pytest.raises(RobotUnavailableError, match='lost'):
        await executed
    link._client.forget.assert_called_once_with(answer.result.return_value.goal_id)


async def test_a_segment_that_is_not_answered_fails_and_is_not_executed_later(
    link: Any, answered: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ros_robot_link, 'ANSWER_S', 0.01)
    with pytest.raises(RobotUnavailableError, match='no answer to a segment'):
        await link.execute(MagicMock(), print)
    late = MagicMock()
    answered(late)
    late.result.return_value.cancel_goal_async.assert_called_once()
