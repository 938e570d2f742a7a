"""Generations that wait for a replica go to the first that can take them, however it came to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from support.engines.ray_runs import on_ray, request, simulated

from timely_llm_ros.engines.commands import Submit
from timely_llm_ros.engines.engine import (
    EngineFailed,
    EngineInfo,
    EngineReady,
    GenerationEnded,
)
from timely_llm_ros.engines.ray import engine as ray_engine
from timely_llm_ros.engines.ray.engine import RayEngine
from timely_llm_ros.engines.ray.routing import ReplicaLoad
from timely_llm_ros.engines.ray.wire import Hello
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

INFO = EngineInfo('simulated', 'simulated', 0, 'none', 0, 1_000_000, 0.0)


class FakeLink:
    """A link to a replica that takes what it is sent and says what the test says."""

    def __init__(self, name: str, *_: object, **told: Callable[..., None]) -> None:
        self.name, self._told = name, told
        self.hello, self.load, self.state = Hello(INFO, 2), ReplicaLoad(INFO, 2), None
        self.ready = self.draining = False
        self.submitted: list[str] = []

    def send(self, command: object) -> None:
        assert isinstance(command, Submit)
        self.submitted.append(command.request.generation_id)

    async def close(self) -> None:
        return

    def arrive(self) -> None:
        self.ready = True
        self._told['on_ready'](self)

    def end(self, name: str) -> None:
        self._told['on_event'](self, GenerationEnded(name, 'stop', '', 1, 0.1))


class Cluster:
    """An engine ``ray`` whose running replicas are what the test says, and its events."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.engine: Any = RayEngine(on_ray(simulated()), lambda _: pytest.fail('made'))
        self.engine._on_event, self.engine._info = self.events.append, INFO
        self.engine._calls, self.engine._loop = MagicMock(), asyncio.get_running_loop()

    def runs(self, *names: str) -> None:
        self.engine._replicas(frozenset(names))

    def link(self, name: str) -> FakeLink:
        found: FakeLink = self.engine._links[name]
        return found

    def told(self, *kinds: type) -> list[Any]:
        return [type(event) for event in self.events if isinstance(event, kinds)]


@pytest.fixture(autouse=True)
def links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, 'Link', FakeLink)


def run(scenario: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.runs('a')
        cluster.link('a').arrive()
        cluster.engine.submit(request(0))
        assert cluster.link('a').submitted == ['g0']
        # It drains: what it has goes on, and what comes waits.
        cluster.runs()
        cluster.engine.submit(request(1))
        assert cluster.link('a').submitted == ['g0']
        await scenario(cluster)
        await cluster.engine.close()

    run_virtual(main())


def test_a_replica_that_runs_on_after_all_takes_what_waited() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runs('a')
        assert cluster.link('a').submitted == ['g0', 'g1']

    run(scenario)


def test_a_replica_that_comes_takes_what_waited() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.runs('b')
        cluster.link('b').arrive()
        assert cluster.link('b').submitted == ['g1']

    run(scenario)


def test_what_waits_for_long_after_the_last_replica_left_ends() -> None:
    async def scenario(cluster: Cluster) -> None:
        limit_s = cluster.engine._options.give_up_s
        cluster.link('a').end('g0')
        assert not cluster.engine._links
        await asyncio.sleep(limit_s - 1)
        assert not cluster.told(EngineFailed)
        await asyncio.sleep(2)
        assert cluster.told(EngineFailed, GenerationEnded) == [
            GenerationEnded, EngineFailed, GenerationEnded
        ]  # fmt: skip
        assert 'no replica for 30 s' in cluster.events[-1].error
        cluster.runs('b')
        cluster.link('b').arrive()
        assert cluster.told(EngineReady)

    run(scenario)


def test_nothing_is_given_up_while_a_replica_that_drains_has_work() -> None:
    async def scenario(cluster: Cluster) -> None:
        await asyncio.sleep(10 * cluster.engine._options.give_up_s)
        assert not cluster.told(EngineFailed, GenerationEnded)

    run(scenario)
