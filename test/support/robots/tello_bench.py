"""A mock Tello, the driver that flies it, and the executor that runs segments on the driver."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.loopback import free_addresses

from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers.tello import TelloDriver, TelloOptions, ports
from timely_llm_ros.drivers.tello.mock.server import MockTello
from timely_llm_ros.execution import (
    ExecutorLimits,
    SegmentExecutor,
    SegmentOutcome,
    SimulatedPerception,
    read_envelope,
)
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.skills.statements import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from timely_llm_ros.drivers.tello.mock.pose import Phase
    from timely_llm_ros.execution import Perception

SKILLS = find_skill_set('tello')
SCENE = Scene((SceneObject('cat_1', 'cat', x_m=1.5, y_m=1.0), SceneObject('cup_1', 'cup')))
LIMIT_S = 60.0
PATIENT_LIMITS = ExecutorLimits(timeout_margin_s=LIMIT_S)

PATIENT = TelloOptions(link_timeout_s=30.0, halt_limit_s=1.5)
"""On a busy machine everybody may be silent for a while."""


class Bench:
    """A mock in the air or on the ground, its driver, connected, and its executor."""

    def __init__(self, mock: MockTello, driver: TelloDriver, executor: SegmentExecutor) -> None:
        self.mock, self.driver, self.executor = mock, driver, executor

    async def do(self, text: str) -> Any:
        """Make one call."""
        return await self.driver.execute(call(text), SCENE)

    def run(self, text: str, plan: str = 'p', index: int = 0) -> asyncio.Task[SegmentOutcome]:
        """Run a segment."""
        segment = Segment(index, text, parse(text, SKILLS, SCENE), 1)
        return asyncio.create_task(
            self.executor.execute(plan, segment, SCENE, lambda _progress: None)
        )

    async def until(self, condition: Callable[[], object], what: str) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end_s, f'{what}: not within {LIMIT_S:g} s'
            await asyncio.sleep(0.005)

    async def until_phase(self, *phases: Phase) -> None:
        await self.until(lambda: self.mock.phase in phases, f'one of {phases}')


def call(text: str) -> Call:
    (statement,) = parse(f'{text};', SKILLS, SCENE)
    assert isinstance(statement, Call)
    return statement


@asynccontextmanager
async def bench(
    *,
    mock: dict[str, Any] | None = None,
    limits: ExecutorLimits = PATIENT_LIMITS,
    perception: Perception | None = None,
    envelope: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Bench]:
    """Start all three; the mock flies ten times as fast as a Tello."""
    local, host = free_addresses(2)
    body = MockTello(host, **{'speed': 10.0, 'drain_percent_s': 0.0, **(mock or {})})
    await body.start()
    flown = TelloDriver(
        replace(PATIENT, **{'address': host, 'local_address': local, **options}),
        perception=perception or SimulatedPerception(probability=1.0),
    )
    rules = None if envelope is None else read_envelope(envelope)
    runs = SegmentExecutor(flown, SKILLS, WallClock(), limits, rules)
    try:
        await runs.start()
        yield Bench(body, flown, runs)
    finally:
        body.set_fault('heal')
        try:
            await runs.close()
        finally:
            await body.close()


def release_ports() -> None:
    """Take the ports from every driver that a test left open.

    All drivers of a process share them: else whatever flies after a test that failed fails too.
    """
    while ports._opened is not None:
        host, (_, listeners) = next(iter(ports._opened._users.items()))
        ports._opened.release(host, listeners[0])
