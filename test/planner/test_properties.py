"""Whatever happens in whatever order, what the planner promises holds."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.errors import Ending, RobotUnavailableError, TaskRefusedError
from timely_llm_ros.planner import (
    PlannerConfig,
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
    TaskStatus,
)
from timely_llm_ros.testing import Fleet, Note, Script, ScriptedEngine, make_fleet
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.engine import EndReason
    from timely_llm_ros.planner import PlannerEvent
    from timely_llm_ros.planner.task_handle import TaskHandle

ROBOTS = ('r1', 'r2', 'r3')
AFTER_ALL_S = 20_000.0
"""More than the longest schedule takes."""


@dataclass(frozen=True)
class Submit:
    robot: str
    when_busy: str
    durations_ms: tuple[int, ...]
    looks_after: int
    every_s: float
    reason: EndReason
    budget_s: float | None
    overrun: str


@dataclass(frozen=True)
class Disturb:
    """``cancel`` and ``break`` hit one robot; ``engine`` hits all."""

    what: str
    robot: str


Op = Submit | Disturb

robots = st.sampled_from(ROBOTS)
submits = st.builds(
    Submit,
    robot=robots,
    when_busy=st.sampled_from(['abort', 'queue']),
    durations_ms=st.lists(st.sampled_from([0, 1, 300, 2000]), min_size=0, max_size=5).map(tuple),
    looks_after=st.integers(0, 6),
    every_s=st.sampled_from([0.0, 0.05, 0.3, 2.5]),
    reason=st.sampled_from(['stop'] * 6 + ['invalid_plan', 'length', 'error']),
    budget_s=st.sampled_from([None, None, 0.2, 1.0]),
    overrun=st.sampled_from(['kill', 'skip_next']),
)
disturbances = st.builds(
    Disturb,
    what=st.sampled_from(['cancel', 'cancel', 'break', 'mend', 'gone', 'back']),
    robot=robots,
)
schedules = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.05, 0.1, 0.7, 3.0]), st.one_of(submits, submits, disturbances)
    ),
    min_size=1,
    max_size=14,
)
safe_times_s = st.sampled_from([0.0, 0.4])


def plan_of(number: int, op: Submit) -> str:
    """A plan whose calls tell which task and segment they are of."""
    calls = [
        f'act({duration_ms + 5000 * number + 10 * index});'
        for index, duration_ms in enumerate(op.durations_ms)
    ]
    if op.looks_after < len(calls):
        calls.insert(op.looks_after, 'look(cup_1);')
    return ''.join(calls)


class Scenario:
    """One schedule of operations on one fleet; task n is the n-th submit of the whole schedule."""

    def __init__(
        self, schedule: list[tuple[float, Op]], safe_s: float, only: str | None = None
    ) -> None:
        self.schedule, self.safe_s, self.only = schedule, safe_s, only
        self.plans: dict[str, str] = {}
        self.scripts: dict[str, Script] = {}
        self.handles: dict[str, TaskHandle] = {}
        self.connecting: list[asyncio.Task[None]] = []
        self.fleet: Fleet = run_virtual(self._run())

    async def _run(self) -> Fleet:
        fleet = await make_fleet(
            self._script, robots=ROBOTS, latency_s=0.008, config=PlannerConfig(stop_limit_s=1.0)
        )
        for driver in fleet.drivers.values():
            driver.safe_s = self.safe_s
        loop, at_s = asyncio.get_running_loop(), 0.0
        for number, (delay_s, op) in enumerate(self.schedule):
            # Never two at once: a loop runs timers of one instant in no particular order.
            at_s += delay_s + 1e-4
            if self.only is None or op.robot == self.only:
                loop.call_at(at_s, self._do, fleet, number, op)
        await asyncio.sleep(AFTER_ALL_S)
        assert fleet.planner.tasks == ()
        assert isinstance(fleet.engine, ScriptedEngine)
        assert fleet.engine.live == 0
        assert not fleet.planner._queues
        await fleet.close()
        return fleet

    def _script(self, request: GenerationRequest) -> Script:
        return self.scripts[request.generation_id]

    def _do(self, fleet: Fleet, number: int, op: Op) -> None:
        if isinstance(op, Submit):
            task_id = f't{number}'
            plan = self.plans[task_id] = plan_of(number, op)
            self.scripts[task_id] = Script(plan, every_s=op.every_s, reason=op.reason, error='bad')
            task = fleet.task(
                task_id,
                op.robot,
                when_busy=op.when_busy,
                time_budget_s=op.budget_s,
                overrun=op.overrun,
            )
            # Refused only because of a full queue or a robot that is gone.
            with contextlib.suppress(TaskRefusedError, RobotUnavailableError):
                self.handles[task_id] = fleet.submit(task)
            return
        driver = fleet.drivers[op.robot]
        match op.what:
            case 'cancel':
                for handle in fleet.planner.tasks:
                    if handle.task.robot == op.robot:
                        handle.cancel()
                        break
            case 'break':
                driver.broken = True
            case 'mend':
                driver.broken = False
            case 'gone':
                driver.gone = True
            case 'back':
                driver.gone = False
                loop = asyncio.get_running_loop()
                self.connecting.append(loop.create_task(self._connect(fleet, op.robot)))

    async def _connect(self, fleet: Fleet, robot: str) -> None:
        # Refused by a robot that is gone again, or broken and so cannot be made safe.
        with contextlib.suppress(RobotUnavailableError):
            await fleet.executors[robot].start()


def check(scenario: Scenario) -> None:
    log = scenario.fleet.log
    accepted = [event.task_id for event in log if isinstance(event, TaskAccepted)]
    ended = {e.task_id: (at, e) for at, e in enumerate(log) if isinstance(e, TaskEnded)}
    assert sorted(accepted) == sorted(scenario.handles)
    assert [e.task_id for e in log if isinstance(e, TaskEnded)] == list(ended)
    assert sorted(ended) == sorted(accepted), 'every accepted task ends exactly once'
    for task_id, (end_at, end) in ended.items():
        events = [
            (at, event)
            for at, event in enumerate(log)
            if not isinstance(event, Note) and event.task_id == task_id
        ]
        assert events[-1][0] == end_at, 'nothing is reported after the end'
        check_times(end)
        check_order(scenario, task_id, [event for _, event in events])
        check_robot(scenario, task_id, end_at, end, log)


def check_times(end: TaskEnded) -> None:
    result = end.result
    assert (result.status is TaskStatus.SUCCEEDED) == (result.ending == Ending())
    assert all(wait_s >= 0 for wait_s in result.waits_s)
    assert result.completion_s == result.waiting_s + result.execution_s
    assert result.waiting_s == sum(result.waits_s)
    assert result.response_s == (result.waits_s[0] if result.waits_s else None)
    assert result.segments <= len(result.waits_s)


def check_order(scenario: Scenario, task_id: str, events: list[PlannerEvent]) -> None:
    ready = [event.segment for event in events if isinstance(event, SegmentReady)]
    started = [event.index for event in events if isinstance(event, SegmentStarted)]
    ends = [event.outcome for event in events if isinstance(event, SegmentEnded)]
    planned = [call for call in scenario.plans[task_id].split(';') if call]
    assert [segment.index for segment in ready] == list(range(len(ready)))
    assert started == list(range(len(started))), 'segments start in order'
    assert sorted(outcome.index for outcome in ends) == list(range(len(ready))), 'each ends once'
    done = [outcome.index for outcome in ends if outcome.succeeded]
    assert done == list(range(len(done))), 'what was executed is a prefix of what was generated'
    assert [segment.statements[0].text for segment in ready] == planned[: len(ready)]  # type: ignore[union-attr]


def check_robot(
    scenario: Scenario,
    task_id: str,
    end_at: int,
    end: TaskEnded,
    log: list[Note | PlannerEvent],
) -> None:
    own = {call for call in scenario.plans[task_id].split(';') if call.startswith('act')}
    starts = [at for at, note in enumerate(log) if isinstance(note, Note) and note.call in own]
    assert all(at < end_at for at in starts), 'nothing moves after the end'
    if not starts or end.result.status is TaskStatus.SUCCEEDED or end.result.ending.code == 7:
        return
    last = [n for n in log[:end_at] if isinstance(n, Note) and n.robot == end.robot][-1]
    if not scenario.fleet.drivers[end.robot].was_gone:
        assert last.event == 'safe', 'after an abnormal end the robot is safe'


@examples(120)
@given(schedules, safe_times_s)
def test_promises_hold_whatever_happens(schedule: list[tuple[float, Op]], safe_s: float) -> None:
    check(Scenario(schedule, safe_s))


@examples(40)
@given(schedules, safe_times_s)
def test_what_happens_to_one_robot_does_not_touch_the_others(
    schedule: list[tuple[float, Op]], safe_s: float
) -> None:
    together = Scenario(schedule, safe_s).fleet.log
    for robot in ROBOTS:
        alone = Scenario(schedule, safe_s, only=robot).fleet.log
        assert of_robot(alone, robot) == of_robot(together, robot)


def of_robot(log: list[Note | PlannerEvent], robot: str) -> list[str]:
    """What happened to one robot before everything was closed."""
    return [repr(thing) for thing in log if thing.robot == robot and thing.at_s < AFTER_ALL_S]


@examples(30)
@given(schedules, safe_times_s)
def test_equal_runs_are_equal(schedule: list[tuple[float, Op]], safe_s: float) -> None:
    assert repr(Scenario(schedule, safe_s).fleet.log) == repr(Scenario(schedule, safe_s).fleet.log)
