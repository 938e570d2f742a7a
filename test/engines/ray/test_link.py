"""What a planner tells a replica goes in batches, in its order."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import Cancel, RobotIdleAt
from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.ray.link import CORRECTION_S, Link
from timely_llm_ros.engines.ray.wire import Hello
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

INFO = EngineInfo('simulated', 'simulated', 0, 'none', 0, 1_000_000, 0.0)


class Calls:
    """A replica that is there and notes which batches came, and when."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, list[Any]]] = []

    async def call(self, _: str, __: str, ___: str, data: bytes) -> float:
        now_s = asyncio.get_running_loop().time()
        if batch := pickle.loads(data):
            self.batches.append((now_s, batch))
        return now_s

    async def stream(self, *_: str) -> AsyncIterator[bytes]:
        yield pickle.dumps([Hello(INFO, 2)])
        await asyncio.Event().wait()


def batches(scenario: Callable[[Link], Coroutine[Any, Any, None]]) -> list[tuple[float, list[Any]]]:
    """Return what a link sent in a scenario: after how long (s), and the commands."""

    async def main() -> list[tuple[float, list[Any]]]:
        calls: Any = Calls()
        ready = asyncio.Event()
        link = Link(
            'replica',
            calls,
            'planner',
            on_event=lambda *_: None,
            on_ready=lambda _: ready.set(),
            on_lost=lambda *_: None,
        )
        await ready.wait()
        began_s = asyncio.get_running_loop().time()
        await scenario(link)
        await asyncio.sleep(4 * CORRECTION_S)
        await link.close()
        return [(at_s - began_s, batch) for at_s, batch in calls.batches]

    return run_virtual(main())


def test_corrections_wait_a_little_for_one_another() -> None:
    async def scenario(link: Link) -> None:
        link.send(RobotIdleAt('g1', 1.0))
        await asyncio.sleep(CORRECTION_S / 2)
        link.send(RobotIdleAt('g2', 2.0))

    ((after_s, commands),) = batches(scenario)
    assert [command.generation_id for command in commands] == ['g1', 'g2']
    assert CORRECTION_S <= after_s < 1.1 * CORRECTION_S


def test_another_command_takes_them_along_at_once_and_in_order() -> None:
    async def scenario(link: Link) -> None:
        link.send(RobotIdleAt('g1', 1.0))
        await asyncio.sleep(CORRECTION_S / 2)
        link.send(Cancel('g1'))
        await asyncio.sleep(CORRECTION_S / 4)
        link.send(RobotIdleAt('g2', 2.0))

    (first_s, first), (second_s, second) = batches(scenario)
    assert [type(command) for command in first] == [RobotIdleAt, Cancel]
    assert first_s < 0.75 * CORRECTION_S
    assert [command.generation_id for command in second] == ['g2']
    assert second_s >= 1.75 * CORRECTION_S
