"""Robots are connected when their executor is configured, and taken segments for while active."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError
from timely_llm_ros.nodes.executor.node import ExecutorNode


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
    node._configured, node._touched = False, 0
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
