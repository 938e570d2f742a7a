"""The planner's link to a robot: an executor that rclpy does not find, and one that is mute."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from timely_llm_ros.msg import RobotState

from timely_llm_ros import silence
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.nodes.planner import ros_robot_link
from timely_llm_ros.nodes.planner.ros_robot_link import FOUND_S, RosRobotLink

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
    made: Any = RosRobotLink(MagicMock(), MagicMock(), 'r', MagicMock(), MagicMock(), LIMIT_S)
    made._client.server_is_ready.return_value = False
    return made


def live(link: Any, clock: SimpleNamespace, executor: bytes, for_s: float) -> None:
    """Let an executor speak for a while; b'' for none."""
    state = RobotState(phase=RobotState.IDLE)
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


@pytest.mark.parametrize('away_s', [0.9, 3.0])
@pytest.mark.parametrize('after', [b'one', b'two'])
def test_one_that_was_away_is_found_anew(
    link: Any, clock: SimpleNamespace, away_s: float, after: bytes
) -> None:
    live(link, clock, b'one', FOUND_S + 0.5)
    assert link.available
    live(link, clock, b'', away_s)
    live(link, clock, after, 0.5)
    assert link.available == (after == b'one' and away_s < LIMIT_S)


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
