"""Robots are connected when their executor is configured, and taken segments for while active."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from threading import Event, Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError
from timely_llm_ros.nodes.executor import node as executor_node
from timely_llm_ros.nodes.executor.node import ExecutorNode

if TYPE_CHECKING:
    from collections.abc import Callable


class Executor:
    """Connects unless it is told to fail."""

    def __init__(self) -> None:
        self.connected = False
        self.starts = 0
        self.fails: Exception | None = None

    async def start(self) -> None:
        self.starts += 1
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        self.connected = True


class Shared:
    """The robots that the guard knows of."""

    count = 0

    def remember(self, bodies: list[str]) -> None:
        self.count = len(bodies)

    def keep(self, count: int) -> None:
        self.count = count


def unconfigured_node(robots: int) -> tuple[Any, list[Executor]]:
    """Return a node that ROS knows nothing of, and the executors of its robots."""
    executors = [Executor() for _ in range(robots)]
    node: Any = ExecutorNode.__new__(ExecutorNode)
    node._shared, node._bodies = Shared(), ['body'] * robots
    node.servers = [SimpleNamespace(executor=executor) for executor in executors]
    node._configured, node._active, node._touched = False, False, 0
    return node, executors


def test_the_watch_leaves_robots_alone_until_all_are_connected() -> None:
    async def scenario() -> None:
        node, _ = unconfigured_node(2)
        configuring = asyncio.create_task(node._configure())
        while node.servers[0].executor.starts == 0:
            await asyncio.sleep(0)
        assert not node._configured
        await configuring
        assert node._configured

    asyncio.run(scenario())


def test_a_robot_that_cannot_be_configured_is_tried_again_with_those_after_it() -> None:
    node, executors = unconfigured_node(3)
    executors[1].fails = ConfigurationError('no such file')
    with pytest.raises(ConfigurationError):
        asyncio.run(node._configure())
    assert (node._configured, node._touched, node._shared.count) == (False, 1, 1)
    executors[1].fails = None
    asyncio.run(node._configure())
    assert (node._configured, node._touched, node._shared.count) == (True, 3, 3)
    assert [executor.starts for executor in executors] == [1, 2, 1]


def test_the_guard_knows_every_robot_that_was_touched_however_it_fails_later() -> None:
    node, executors = unconfigured_node(3)
    executors[1].fails = RobotUnavailableError('it does not answer')
    with pytest.raises(RobotUnavailableError):
        asyncio.run(node._configure())
    executors[1].fails = ConfigurationError('no such file')
    with pytest.raises(ConfigurationError):
        asyncio.run(node._configure())
    assert node._shared.count == 2


class Loop:
    """A program's loop that runs what is posted to it only when it is told."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []

    def call_loop(self, function: Callable[[], None]) -> None:
        self.posted.append(function)

    def run(self) -> None:
        while self.posted:
            self.posted.pop(0)()


@pytest.mark.parametrize(
    ('transition', 'method', 'late'),
    [
        ('on_activate', '_activate', 0),
        ('on_deactivate', '_deactivate', 0),
        # A node that is shut down is finalized whatever comes of it.
        ('on_shutdown', '_deactivate', 1),
    ],
)
def test_a_transition_that_is_told_to_have_failed_is_not_made_later(
    monkeypatch: pytest.MonkeyPatch, transition: str, method: str, late: int
) -> None:
    monkeypatch.setattr(executor_node, 'TRANSITION_LIMIT_S', 0.0)
    node, _ = unconfigured_node(1)
    node._ros, node.get_logger = Loop(), MagicMock()
    made = MagicMock()
    setattr(node, method, made)
    state = LifecycleState(label='inactive', state_id=2)
    assert getattr(node, transition)(state) == TransitionCallbackReturn.FAILURE
    assert made.call_count == 0
    node._ros.run()
    assert made.call_count == late


def test_a_transition_that_is_being_noted_when_its_time_ends_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, given_up = Event(), Event()

    class Observed(Future[None]):
        def cancel(self) -> bool:
            cancelled = super().cancel()
            given_up.set()
            return cancelled

    class BusyLoop:
        def call_loop(self, function: Callable[[], None]) -> None:
            Thread(target=function).start()
            begun.wait()

    def note() -> None:
        begun.set()
        given_up.wait()

    monkeypatch.setattr(executor_node, 'TRANSITION_LIMIT_S', 0.0)
    monkeypatch.setattr(executor_node, 'Future', Observed)
    node, _ = unconfigured_node(1)
    node._ros, node._deactivate, node._managed_entities = BusyLoop(), note, set()
    state = LifecycleState(label='active', state_id=3)
    assert node.on_deactivate(state) == TransitionCallbackReturn.SUCCESS


def test_an_autostart_waits_for_nobody_to_activate_robots_that_are_active(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_node, 'TRANSITION_LIMIT_S', 0.0)
    node, _ = unconfigured_node(1)
    node._ros, node.get_logger, node._managed_entities = Loop(), MagicMock(), set()
    node.servers = [MagicMock(robot='r')]
    node._activate()
    state = LifecycleState(label='inactive', state_id=2)
    assert node.on_activate(state) == TransitionCallbackReturn.SUCCESS
