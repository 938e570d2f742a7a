"""When a robot misses its planner, on a time of the test's own."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from timely_llm_ros.nodes.executor.planner_watch import PERIOD_S, PlannerWatch

TIMEOUT_S = 0.42
PLANNER = b'p' * 16


class Watched:
    """A robot, its watch, and a planner that beats until it dies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr('timely_llm_ros.silence.time', clock)
        self.state = SimpleNamespace(queued=0, phase='idle', plan_id='')
        self.stopped_s: list[float] = []
        executor: Any = SimpleNamespace(state=self.state, stop=self._stop)
        self.watch = PlannerWatch('drone_1', executor, TIMEOUT_S)

    async def _stop(self, *_: object) -> bool:
        self.stopped_s.append(self.now_s)
        self.state.phase = 'safe'
        return True

    async def live(self, seconds: float, *, beats: bool) -> None:
        for _ in range(round(seconds / PERIOD_S)):
            self.now_s += PERIOD_S
            if beats:
                self.watch.heard(PLANNER)
            self.watch.check()
            await asyncio.sleep(0)


async def test_a_segment_is_no_sign_of_its_planners_life(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = Watched(monkeypatch)
    await robot.live(1.0, beats=True)
    died_s = robot.now_s
    await robot.live(0.35, beats=False)
    # What the planner sent before it died arrives, or its turn comes, only now.
    assert robot.watch.begin(PLANNER)
    robot.state.phase = 'executing'
    await robot.live(1.0, beats=False)
    assert robot.stopped_s == [pytest.approx(died_s + TIMEOUT_S, abs=2 * PERIOD_S)]
    assert not robot.watch.begin(PLANNER)


async def test_a_planner_that_lives_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = Watched(monkeypatch)
    await robot.live(1.0, beats=True)
    assert robot.watch.begin(PLANNER)
    robot.state.phase = 'executing'
    await robot.live(5.0, beats=True)
    assert robot.stopped_s == []


async def test_segments_that_are_sent_by_hand_have_their_full_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = Watched(monkeypatch)
    await robot.live(5.0, beats=False)
    assert robot.watch.begin(b'')
    robot.state.phase = 'executing'
    began_s = robot.now_s
    await robot.live(1.0, beats=False)
    assert robot.stopped_s == [pytest.approx(began_s + TIMEOUT_S, abs=2 * PERIOD_S)]


async def test_only_the_end_of_a_plan_in_hand_is_its_planners_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = Watched(monkeypatch)
    other = b'q' * 16
    assert robot.watch.may_end('a plan without a segment', PLANNER)
    robot.watch.heard(PLANNER)
    assert robot.watch.begin(PLANNER)
    robot.state.plan_id = 'mine'
    assert robot.watch.may_end('mine', PLANNER)
    assert robot.watch.may_end('of another robot that ended early', other)
    assert not robot.watch.may_end('mine', other)
