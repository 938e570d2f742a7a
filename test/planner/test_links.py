"""Links as networks make them: late, out of order, silent, closed, broken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import pytest

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.errors import Ending, RobotUnavailableError
from timely_llm_ros.execution import SegmentCode, SegmentOutcome, SegmentProgress, TimedSegment
from timely_llm_ros.planner import (
    PlannerConfig,
    PlannerEvent,
    SegmentEnded,
    SegmentStarted,
    Task,
    TaskEnded,
    TaskResult,
    TaskStatus,
)
from timely_llm_ros.planner.gate import require_robot
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.testing import EXACT_SCENE, EXACT_SKILLS, Script, ScriptedEngine, acts
from timely_llm_ros.utility import NORMAL
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.skills import Segment


@dataclass
class FakeLink:
    """Answers as its ``behaviour`` says."""

    behaviour: Callable[[Segment, Callable[[SegmentProgress], None]], Awaitable[SegmentOutcome]]
    available: bool = True
    halted: bool = False
    inactive: bool = False
    stops: list[float] = field(default_factory=list)
    stop_takes_s: float = 0.0
    stop_error: Exception | None = None

    async def execute(
        self, timed: TimedSegment, on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        return await self.behaviour(timed.segment, on_progress)

    async def stop(self) -> None:
        self.stops.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.stop_takes_s)
        if self.stop_error is not None:
            raise self.stop_error


def done(index: int, execution_s: float) -> SegmentOutcome:
    return SegmentOutcome(index, calls=('act',), execution_s=execution_s)


def serve(link: FakeLink, script: Script) -> tuple[TaskResult, list[PlannerEvent], ScriptedEngine]:
    """Run one task over the link."""

    async def main() -> tuple[TaskResult, list[PlannerEvent], ScriptedEngine]:
        events: list[PlannerEvent] = []
        engine = ScriptedEngine(lambda _: script)
        planner = Planner(
            engine=engine,
            robots={'r1': link},
            skill_sets={'exact': EXACT_SKILLS},
            clock=LoopClock(),
            on_event=events.append,
            config=PlannerConfig(stop_limit_s=2.0),
        )
        await planner.start()
        handle = planner.submit(
            planner.prepare(Task('t', 'r1', 'exact', 'go', EXACT_SCENE, NORMAL))
        )
        result = await handle.result()
        await planner.close()
        return result, events, engine

    return run_virtual(main())


def test_progress_of_the_next_segment_before_the_outcome_of_the_last() -> None:
    first_done = asyncio.Event()

    async def behaviour(
        segment: Segment, on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        if segment.index == 0:
            on_progress(SegmentProgress(0, 'act(1000)', 0.0, 1.0))
            await first_done.wait()
            return done(0, 1.0)
        await asyncio.sleep(1.2)
        on_progress(SegmentProgress(1, 'act(1000)', 0.05, 0.95))
        await asyncio.sleep(0.1)
        first_done.set()
        await asyncio.sleep(0.5)
        return done(1, 1.0)

    result, events, _ = serve(FakeLink(behaviour), Script(acts(1, 1)))
    # Generated at 0.1 s and 0.2 s; the second starts at 0.2 + 1.2 - 0.05 s by its own account.
    assert result.waits_s == pytest.approx((0.1, 0.25))
    assert result.completion_s == pytest.approx(2.35)
    order = [
        (type(event).__name__, event.index if isinstance(event, SegmentStarted) else None)
        for event in events
        if isinstance(event, SegmentStarted | SegmentEnded)
    ]
    assert [name for name, _ in order] == [
        'SegmentStarted', 'SegmentEnded', 'SegmentStarted', 'SegmentEnded',
    ]  # fmt: skip


def test_progress_that_never_comes() -> None:
    async def behaviour(
        segment: Segment, _on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        # The second waits for the first, as on a robot.
        await asyncio.sleep(1.0 if segment.index == 0 else 1.9)
        return done(segment.index, 1.0)

    result, events, _ = serve(FakeLink(behaviour), Script(acts(1, 1)))
    assert result.status is TaskStatus.SUCCEEDED
    assert result.waits_s == pytest.approx((0.1, 0.0))
    assert len([event for event in events if isinstance(event, SegmentStarted)]) == 2


def test_progress_after_the_outcome_is_ignored() -> None:
    kept: list[Callable[[SegmentProgress], None]] = []

    async def behaviour(
        segment: Segment, on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        for late in kept:
            late(SegmentProgress(0, 'act(1000)', 0.9, 0.1))
        kept.append(on_progress)
        on_progress(SegmentProgress(segment.index, 'act(1000)', 0.0, 1.0))
        await asyncio.sleep(1.0)
        return done(segment.index, 1.0)

    result, _, _ = serve(FakeLink(behaviour), Script(acts(1, 1), at_s=[0.1, 3.0]))
    assert result.waits_s == pytest.approx((0.1, 1.9))


@pytest.mark.parametrize(
    ('error', 'code', 'text'),
    [
        (RobotUnavailableError('executor of r1 fell silent'), 7, 'fell silent'),
        (asyncio.CancelledError(), 7, 'link was closed'),
        (ZeroDivisionError('oops'), 99, 'oops'),
    ],
)
@pytest.mark.usefixtures('caplog')
def test_a_link_that_breaks_ends_the_task_and_the_generation(
    error: BaseException, code: int, text: str
) -> None:
    async def behaviour(
        segment: Segment, on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        on_progress(SegmentProgress(segment.index, 'act(1000)', 0.0, 1.0))
        await asyncio.sleep(0.5)
        raise error

    link = FakeLink(behaviour)
    result, events, engine = serve(link, Script(acts(1, 1, 1), every_s=0.4))
    assert result.ending.code == code
    assert text in result.ending.message
    assert engine.canceled == ['t']
    assert len(link.stops) == 1
    assert isinstance(events[-1], TaskEnded)
    assert result.execution_s == pytest.approx(0.5)


@pytest.mark.parametrize(
    'link_options', [{'stop_takes_s': 1e6}, {'stop_error': RobotUnavailableError('gone')},
                     {'stop_error': ZeroDivisionError('oops')}],
)  # fmt: skip
def test_a_robot_that_does_not_confirm_its_stop_does_not_hold_up_the_end(
    link_options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    async def behaviour(
        segment: Segment, _on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        if segment.index == 1:
            return SegmentOutcome(1, Ending(SegmentCode.SKILL_FAILED, 'motor stop'))
        while True:
            # Does not react to being cancelled either.
            try:
                await asyncio.sleep(1000)
                return done(0, 1000)
            except asyncio.CancelledError:
                continue

    result, events, _ = serve(FakeLink(behaviour, **link_options), Script(acts(1, 1)))  # type: ignore[arg-type]
    assert result.ending.code == 8
    assert 'safe action not confirmed' in caplog.text
    assert 'does not end after a cancel' in caplog.text
    assert events[-1].at_s <= 0.2 + 2 * 2.0 + 1e-6
    assert len([event for event in events if isinstance(event, SegmentEnded)]) == 2


def test_a_result_that_is_lost_on_the_way_does_not_hold_up_the_close() -> None:
    async def behaviour(
        segment: Segment, _on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            # As a link that was told of the cancel and waits for the result.
            await asyncio.sleep(1e6)
        return done(segment.index, 1.0)

    async def main() -> float:
        planner = Planner(
            engine=ScriptedEngine(lambda _: Script(acts(1))),
            robots={'r1': FakeLink(behaviour)},
            skill_sets={'exact': EXACT_SKILLS},
            clock=LoopClock(),
            config=PlannerConfig(stop_limit_s=2.0),
        )
        await planner.start()
        planner.submit(planner.prepare(Task('t', 'r1', 'exact', 'go', EXACT_SCENE, NORMAL)))
        await asyncio.sleep(1.0)
        await planner.close()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(1.0 + 2.0)


def test_outcomes_name_what_the_robot_said() -> None:
    async def behaviour(
        segment: Segment, _on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        return SegmentOutcome(segment.index, Ending(SegmentCode.ROBOT_LOST, 'no telemetry for 3 s'))

    result, _, _ = serve(FakeLink(behaviour), Script(acts(1)))
    assert (result.ending.code, result.response_s) == (7, None)
    assert 'no telemetry for 3 s' in result.ending.message


def test_a_robot_that_is_gone_when_its_turn_comes() -> None:
    async def main() -> list[TaskResult]:
        async def behaviour(
            segment: Segment, _on_progress: Callable[[SegmentProgress], None]
        ) -> SegmentOutcome:
            await asyncio.sleep(1.0)
            link.available = False
            return done(segment.index, 1.0)

        link = FakeLink(behaviour)
        planner = Planner(
            engine=ScriptedEngine(lambda _: Script(acts(1))),
            robots={'r1': link},
            skill_sets={'exact': EXACT_SKILLS},
            clock=LoopClock(),
        )
        await planner.start()
        handles = [
            planner.submit(
                planner.prepare(
                    Task(name, 'r1', 'exact', 'go', EXACT_SCENE, NORMAL, when_busy='queue')
                )
            )
            for name in 'abc'
        ]
        results = [await handle.result() for handle in handles]
        await planner.close()
        return results

    results = run_virtual(main())
    assert [result.ending.code for result in results] == [0, 7, 7]


@pytest.mark.parametrize(
    ('state', 'expected'),
    [
        ({'available': False}, 'its executor does not answer'),
        ({'halted': True}, "robot 'r1' is halted: expected its release"),
        ({'inactive': True}, "robot 'r1': expected its executor to be active"),
        # Whoever activated it would have to release it all the same.
        ({'halted': True, 'inactive': True}, 'is halted'),
    ],
)
def test_a_refusal_says_why_a_robot_takes_no_tasks(state: dict[str, Any], expected: str) -> None:
    link = FakeLink(AsyncMock(), **state)
    with pytest.raises(RobotUnavailableError, match=expected):
        require_robot({'r1': link}, 'r1')
