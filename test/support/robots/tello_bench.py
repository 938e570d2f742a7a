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

PATIENT = TelloOptions(link_timeout_s=30.0, halt_limit_s=10.0)
"""On a busy machine everybody may be silent for a while."""


MOST_STEP_S = 0.1
"""Of a stall of this process no more counts on the mock's clock (s)."""


class ClockWithoutStalls:
    """A clock that stands still with this process, in which the driver stands still too.

    Else a mock that is ten times as fast lands by itself, unheard for 15 s, where a busy machine
    has held up both for 1.5 s, and whatever a test waits for is over before it looks again.
    """

    def __init__(self) -> None:
        self._read_s = self._now_s = time.monotonic()

    def __call__(self) -> float:
        before_s, self._read_s = self._read_s, time.monotonic()
        self._now_s += min(self._read_s - before_s, MOST_STEP_S)
        return self._now_s


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

    def cut(self, fault: str, link_timeout_s: float) -> None:
        """Cut the link, and from now on take so short a silence for the loss that it is."""
        self.driver._options = replace(self.driver._options, link_timeout_s=link_timeout_s)
        self.mock.set_fault(fault)

    def heal(self) -> None:
        """Be patient again, with a link that works."""
        self.driver._options = replace(self.driver._options, link_timeout_s=PATIENT.link_timeout_s)
        self.mock.set_fault('heal')

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
    given = {'speed': 10.0, 'drain_percent_s': 0.0, 'clock': ClockWithoutStalls(), **(mock or {})}
    body = MockTello(host, **given)
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
