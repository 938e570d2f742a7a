"""When a robot's state is published, its connection tried again, and a segment started."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from timely_llm_ros.execution import ExecutorState, SegmentCode, SegmentOutcome
from timely_llm_ros.nodes.executor import robot_server
from timely_llm_ros.nodes.executor.robot_server import LATE_S, WORK_PERIOD_S, RobotServer
from timely_llm_ros.nodes.executor.segment_server import Taken
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.ros import REST_PERIOD_S, declarations

if TYPE_CHECKING:
    from pathlib import Path

IDLE = ExecutorState('idle', '', 0, '', 0.0, 0.0, 0)


class Clock:
    now_s = 100.0

    def time(self) -> float:
        return self.now_s


def server_at_rest(
    monkeypatch: pytest.MonkeyPatch, period_s: float
) -> tuple[RobotServer, Any, MagicMock, Clock]:
    """Return a server, its executor, what it publishes with, and its clock."""
    states = MagicMock(new=False)
    monkeypatch.setattr(robot_server, 'SolePublisher', lambda *_, **__: states)
    clock = Clock()
    executor: Any = SimpleNamespace(state=IDLE, skill_set=SimpleNamespace(name='tello'))
    ros: Any = SimpleNamespace(loop=clock)
    server = RobotServer(
        MagicMock(), ros, 'r', executor, MagicMock(name='segments'),
        planner_timeout_s=1.0, state_period_s=period_s, begins=MagicMock(),
    )  # fmt: skip
    return server, executor, states.publish, clock


def test_a_state_is_published_when_it_changes_and_else_as_a_rare_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, executor, publish, clock = server_at_rest(monkeypatch, 0.1)

    def published(after_s: float) -> int:
        clock.now_s += after_s
        before: int = publish.call_count
        server.publish_change()
        return int(publish.call_count) - before

    assert published(0.0) == 1
    assert published(REST_PERIOD_S / 2) == 0
    executor.state = replace(IDLE, phase='safe')
    assert published(0.0) == 1
    assert published(REST_PERIOD_S / 2) == 0
    assert published(REST_PERIOD_S / 2) == 1
    for phase in ('executing', 'waiting', 'lost'):
        executor.state = replace(IDLE, phase=phase)
        assert published(0.0) == 1
        assert published(WORK_PERIOD_S / 2) == 0
        assert published(WORK_PERIOD_S / 2) == 1


def test_a_state_tells_a_halt_from_an_executor_that_is_not_active(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv('ROS_HOME', str(tmp_path))
    server, _, publish, _ = server_at_rest(monkeypatch, 0.1)

    def told() -> tuple[bool, bool]:
        server.publish_change()
        message = publish.call_args.args[0]
        return message.halted, message.inactive

    assert told() == (False, True)
    server.stops._halt.set()
    assert told() == (True, True)
    server.activate()
    assert told() == (True, False)
    server.stops._halt.release()
    assert told() == (False, False)


@pytest.mark.parametrize('period_s', [0.02, 0.1, 0.3, 0.4])
@pytest.mark.parametrize('new', ['nobody', 'the executor', 'a planner'])
def test_a_robot_at_rest_is_heard_of_in_time_at_any_period(
    monkeypatch: pytest.MonkeyPatch, period_s: float, new: str
) -> None:
    server, _, publish, clock = server_at_rest(monkeypatch, period_s)
    if new == 'the executor':
        server._states.new = True  # type: ignore[misc]
    elif new == 'a planner':
        server.planner.heard(b'planner')
    wanted_s = REST_PERIOD_S if new == 'nobody' else WORK_PERIOD_S
    heard_s = []
    for _ in range(600):
        before = publish.call_count
        server.publish_change()
        if publish.call_count > before:
            heard_s.append(clock.now_s)
        clock.now_s += period_s
    gaps_s = [later - earlier for earlier, later in pairwise(heard_s)]
    assert gaps_s
    assert max(gaps_s) <= wanted_s + LATE_S
    assert min(gaps_s) > wanted_s / 2


def test_a_robot_is_heard_of_before_a_planner_may_miss_it() -> None:
    limit = declarations(PlannerParameters)['robot_timeout_s']
    assert limit.option.minimum is not None
    assert limit.option.minimum > WORK_PERIOD_S
    assert limit.default > 2 * WORK_PERIOD_S


def test_a_robot_that_is_connected_by_now_is_not_connected_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(robot_server, 'SolePublisher', MagicMock())
    monkeypatch.setattr(robot_server, 'RECONNECT_PERIOD_S', 0.0)
    executor: Any = MagicMock(connected=False, start=AsyncMock())
    server = RobotServer(
        MagicMock(),
        MagicMock(),
        'r',
        executor,
        MagicMock(),
        planner_timeout_s=0.0,
        state_period_s=0.1,
        begins=MagicMock(),
    )

    async def reconnect(*, connected_meanwhile: bool) -> int:
        executor.connected = False
        server.check()
        executor.connected = connected_meanwhile
        assert server._reconnection is not None
        await server._reconnection
        return int(executor.start.await_count)

    assert asyncio.run(reconnect(connected_meanwhile=True)) == 0
    assert asyncio.run(reconnect(connected_meanwhile=False)) == 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RobotServer:
    """Return a server whose executor notes what it is asked."""
    monkeypatch.setenv('ROS_HOME', str(tmp_path))
    monkeypatch.setattr(robot_server, 'SolePublisher', MagicMock())
    monkeypatch.setattr(RobotServer, 'publish_state', MagicMock())
    node = MagicMock()
    node.resolve_topic_name.return_value = '/r'
    executor: Any = MagicMock(
        stop=AsyncMock(),
        cut_power=AsyncMock(),
        execute=AsyncMock(return_value=SegmentOutcome(0)),
        state=IDLE,
    )
    return RobotServer(
        node,
        MagicMock(),
        'r',
        executor,
        MagicMock(),
        planner_timeout_s=0.0,
        state_period_s=0.1,
        begins=MagicMock(),
    )


def read_one(server: RobotServer) -> Taken:
    """Have the server read a segment; it starts in the next round of the loop."""
    asked: Any = SimpleNamespace(planner=b'', stop=False, segment=SimpleNamespace(index=0))
    taken, segment = Taken(asked, 0.0), MagicMock(index=0)
    server._start(taken, segment, MagicMock(), 'plan')
    return taken


def outcomes(server: RobotServer) -> list[tuple[Taken, int]]:
    """Return the segments of which clients were told the outcome, and the code that it has."""
    end: Any = server._segments.end
    return [(call.args[0], call.args[1].ending.code) for call in end.call_args_list]


def test_a_robot_rests_until_just_before_its_segment_starts(server: RobotServer) -> None:
    begins: Any = server._begins
    executor: Any = server.executor
    rests: list[tuple[bool, int]] = []
    begins.side_effect = lambda: rests.append((server.rests, executor.execute.await_count))

    async def scenario() -> None:
        server.activate()
        assert server.rests
        read_one(server)
        assert rests == [(False, 0)]
        await asyncio.gather(*server._runs.values())
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert executor.execute.await_count == 1
    assert server.rests


def test_no_segment_starts_after_a_deactivation_that_was_noted(server: RobotServer) -> None:
    async def scenario() -> None:
        server.activate()
        refusals = [server.stops.refusal]
        deactivation = server.deactivate()
        refusals.append(server.stops.refusal)
        assert refusals == [None, server.stops.inactive]
        # Read in the same round of the loop, before it was noted.
        taken = read_one(server)
        await asyncio.gather(deactivation, *server._runs.values())
        assert outcomes(server) == [(taken, SegmentCode.HALTED)]

    asyncio.run(scenario())
    executor: Any = server.executor
    assert executor.stop.await_count == 1
    assert executor.execute.await_count == 0
    assert server.ended[SegmentCode.HALTED] == 1


@pytest.mark.parametrize('serve', ['_stop', '_cut_power'])
def test_no_segment_starts_after_a_stop_that_came_when_it_was_read(
    server: RobotServer, serve: str
) -> None:
    async def scenario() -> None:
        server.activate()
        stop = asyncio.create_task(getattr(server.stops, serve)(MagicMock()))
        taken = read_one(server)
        await asyncio.gather(stop, *server._runs.values())
        assert outcomes(server) == [(taken, SegmentCode.CANCELED)]
        # A stop does not hold: what comes after it starts.
        after = read_one(server)
        await asyncio.gather(*server._runs.values())
        assert outcomes(server)[1:] == [(after, SegmentCode.NONE)]

    asyncio.run(scenario())
    executor: Any = server.executor
    assert executor.execute.await_count == 1


def test_a_goal_that_is_cancelled_before_its_segment_begins_has_a_result(
    server: RobotServer,
) -> None:
    async def scenario() -> None:
        server.activate()
        taken = read_one(server)
        server.cancel(taken)
        await asyncio.wait(server._runs.values())
        assert outcomes(server) == [(taken, SegmentCode.CANCELED)]

    asyncio.run(scenario())
    executor: Any = server.executor
    assert executor.execute.await_count == 0
    assert server.ended == {SegmentCode.CANCELED: 1}
    assert not server._runs
