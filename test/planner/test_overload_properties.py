"""More than can be served, in any order, with cancels and deaths: nobody is forgotten for it.

The planner, the scheduler and the executors are the real ones. The engine takes 40 ms a token and
112 ms with four plans at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.engines import Cancel, Engine, EngineFailed, EngineReady
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine, StepTimeModel
from timely_llm_ros.errors import RobotUnavailableError, TaskRefusedError
from timely_llm_ros.planner import TaskAccepted, TaskEnded
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.testing import Fleet, acts, in_fleet, make_fleet
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines import Command, EngineEvent, EngineInfo
    from timely_llm_ros.planner import Task, TaskHandle, TaskResult

ROBOTS = ('r1', 'r2', 'r3')

PLANS = (
    acts(0.2),
    acts(3.0),
    acts(0.5, 0.5, 0.5),
    acts(6.0, 0.1),
    'repeat(2){' + acts(0.1, 0.1, 0.1, 0.1) + '};',
)
"""The last one's first segment is long."""

UTILITIES = {
    'urgent': replace(URGENT, floor=0.0),
    'picky': TimeUtility(0.3, -10.0, 3.0, floor=2.0),
    'normal': replace(NORMAL, floor=0.0),
    'hopeless': TimeUtility(0.01, -100.0, 5.0, floor=0.0),
    'patient': NORMAL,
    'dear': TimeUtility(1000.0, -50.0, 100.0),
}
"""The last two are served however late; no order of things makes the fourth one be in time."""

IN_TIME = ('urgent', 'picky', 'normal')
"""With a floor, and above it where nobody else is there."""

AGE_BOUND_S = 3.0
"""How long a robot waits for a segment until that goes first."""

LONGEST_S = 30.0 + 9 * (6.1 + 4 * (AGE_BOUND_S + 1.0))
"""In which any task ends: 30 s until it goes before those that came later, then the eight that were
there before it and itself, each with three segments and an end that the engine makes at last."""

LASTS_S = 2 * LONGEST_S
"""How long a crowd goes on."""


class MortalEngine(Engine):
    """A simulated engine that dies with all it has, and is started again."""

    def __init__(self) -> None:
        self._inner: SimulatedEngine | None = None
        self._info: EngineInfo | None = None
        self._on_event: Callable[[EngineEvent], None] | None = None

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        self._on_event = on_event
        self._inner = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda request: request.prompt.body.split('task: ')[1].split('\n')[0],
                policy='least_loss',
                max_running=4,
                scheduling=SchedulingOptions(age_bound_s=AGE_BOUND_S),
                step_time=StepTimeModel(decode_s=0.04, batch_factor=0.6, prefill_s=0.02),
            )
        )
        self._info = await self._inner.start(on_event)
        return self._info

    async def close(self) -> None:
        if self._inner is not None:
            await self._inner.close()

    def send(self, command: Command) -> None:
        if self._inner is None:
            # Nothing is left that could be cancelled, and nobody submits to what has failed.
            assert isinstance(command, Cancel)
            return
        self._inner.send(command)

    async def die(self) -> None:
        if self._inner is not None and self._on_event is not None:
            inner, self._inner = self._inner, None
            await inner.close()
            self._on_event(EngineFailed('killed'))

    async def rise(self) -> None:
        if self._inner is None and self._on_event is not None:
            self._on_event(EngineReady(await self.start(self._on_event)))


@dataclass(frozen=True)
class Arrival:
    robot: str
    plan: str
    utility: str
    when_busy: str
    client: str


@dataclass(frozen=True)
class Disturb:
    what: str
    number: int


Op = Arrival | Disturb


def arrivals(when_busy: tuple[str, ...] = ('queue', 'queue', 'abort')) -> st.SearchStrategy[Op]:
    return st.builds(
        Arrival,
        robot=st.sampled_from(ROBOTS),
        plan=st.sampled_from(PLANS),
        utility=st.sampled_from(tuple(UTILITIES)),
        when_busy=st.sampled_from(when_busy),
        client=st.sampled_from(('', 'noisy')),
    )


disturbances = st.builds(
    Disturb,
    what=st.sampled_from(['cancel', 'cancel', 'gone', 'back', 'die', 'rise']),
    number=st.integers(0, 6),
)
delays_s = st.sampled_from([0.0, 0.0, 0.05, 0.3, 2.0])
schedules = st.lists(
    st.tuples(delays_s, st.one_of(arrivals(), arrivals(), disturbances)), min_size=1, max_size=25
)


class Crowd:
    """One order of things; ``lasts_s`` is how long it is repeated, 0 for once."""

    def __init__(self, schedule: list[tuple[float, Op]], lasts_s: float = 0.0) -> None:
        self.schedule, self.lasts_s = schedule, lasts_s
        self.handles: dict[str, TaskHandle] = {}
        self.idle_refused: list[str] = []
        self.probes: dict[str, TaskResult | str] = {}
        self.fleet: Fleet = run_virtual(self._run())

    async def _run(self) -> Fleet:
        self.engine = MortalEngine()
        fleet = await make_fleet(engine=self.engine, robots=ROBOTS, latency_s=0.008)
        for driver in fleet.drivers.values():
            driver.safe_s = 0.4
        loop, number = asyncio.get_running_loop(), 0
        while True:
            for delay_s, op in self.schedule:
                await asyncio.sleep(delay_s + 1e-4)
                await self._do(fleet, f't{number}', op)
                number += 1
            if loop.time() >= self.lasts_s:
                break
            # Whatever it was: it does not come all at once.
            await asyncio.sleep(0.2)
        await self._mend(fleet)
        for handle in self.handles.values():
            await handle.result()
        assert fleet.planner.tasks == ()
        await self._probe(fleet)
        await fleet.close()
        return fleet

    async def _do(self, fleet: Fleet, task_id: str, op: Op) -> None:
        if isinstance(op, Arrival):
            task = fleet.task(
                task_id,
                op.robot,
                instruction=op.plan,
                utility=UTILITIES[op.utility],
                when_busy=op.when_busy,
                client=op.client,
            )
            self._submit(fleet, task, op.utility)
            return
        robot = ROBOTS[op.number % len(ROBOTS)]
        match op.what:
            case 'cancel' if fleet.planner.tasks:
                fleet.planner.tasks[op.number % len(fleet.planner.tasks)].cancel()
            case 'gone':
                fleet.drivers[robot].gone = True
            case 'back':
                await self._back(fleet, robot)
            case 'die':
                await self.engine.die()
            case 'rise':
                await self.engine.rise()

    def _submit(self, fleet: Fleet, task: Task, utility: str) -> None:
        idle = not fleet.planner.tasks
        try:
            self.handles[task.task_id] = fleet.submit(task)
        except RobotUnavailableError:
            pass
        except TaskRefusedError as err:
            if idle and utility in IN_TIME:
                self.idle_refused.append(str(err))

    async def _mend(self, fleet: Fleet) -> None:
        await self.engine.rise()
        for robot in ROBOTS:
            await self._back(fleet, robot)

    async def _back(self, fleet: Fleet, robot: str) -> None:
        fleet.drivers[robot].gone = False
        with contextlib.suppress(RobotUnavailableError):
            await fleet.executors[robot].start()

    async def _probe(self, fleet: Fleet) -> None:
        """Ask for one task at a time of each kind, with nobody else there."""
        for name in IN_TIME:
            for robot in ROBOTS:
                task = fleet.task(
                    f'{name} of {robot}', robot, instruction=PLANS[0], utility=UTILITIES[name]
                )
                try:
                    self.probes[task.task_id] = await fleet.submit(task).result()
                except TaskRefusedError as err:
                    self.probes[task.task_id] = str(err)

    def times(self) -> tuple[dict[str, float], dict[str, float]]:
        """When each was accepted and ended (s)."""
        began = {e.task_id: e.at_s for e in self.fleet.events if isinstance(e, TaskAccepted)}
        ended = {e.task_id: e.at_s for e in self.fleet.events if isinstance(e, TaskEnded)}
        return began, ended


def test_those_that_are_asked_about_are_in_time_alone() -> None:
    async def body(fleet: Fleet) -> None:
        for name in IN_TIME:
            task = fleet.task(name, instruction=PLANS[0], utility=UTILITIES[name])
            result = await fleet.submit(task).result()
            assert result.utility > UTILITIES[name].floor

    in_fleet(body, engine=MortalEngine())


@examples(60)
@given(schedules)
def test_whatever_comes_each_task_is_answered_once_and_an_idle_system_takes_all_in_time(
    schedule: list[tuple[float, Op]],
) -> None:
    crowd = Crowd(schedule)
    answers = Counter(e.task_id for e in crowd.fleet.events if isinstance(e, TaskEnded))
    accepted = Counter(e.task_id for e in crowd.fleet.events if isinstance(e, TaskAccepted))
    assert answers == accepted
    assert set(accepted.values()) == {1}
    assert not crowd.idle_refused
    for name, result in crowd.probes.items():
        assert not isinstance(result, str), f'{name}: {result}'
        assert result.ending.succeeded, f'{name}: {result.ending.message}'
        assert result.utility > UTILITIES[name.split()[0]].floor, f'{name}: {result.response_s}'


crowds = st.lists(
    st.tuples(delays_s, arrivals(('queue', 'queue', 'queue', 'abort'))), min_size=1, max_size=12
)


DEAR_AMONG_URGENT: list[tuple[float, Op]] = [
    (0.05, Arrival('r2', PLANS[4], 'urgent', 'abort', '')),
    (0.0, Arrival('r3', PLANS[2], 'dear', 'queue', 'noisy')),
    (0.0, Arrival('r1', PLANS[3], 'dear', 'queue', '')),
]
"""Who has much time is not to be kept from beginning for ever by those who have none."""


@examples(6)
@example(DEAR_AMONG_URGENT)
@given(crowds)
def test_nobody_who_was_taken_waits_for_ever_whatever_goes_on_coming(
    schedule: list[tuple[float, Op]],
) -> None:
    schedule = [(delay_s, damped(op)) for delay_s, op in schedule]
    began_s, ended_s = Crowd(schedule, LASTS_S).times()
    early = [name for name, at_s in began_s.items() if at_s < LASTS_S - LONGEST_S]
    assert early
    assert max(ended_s[name] - began_s[name] for name in early) < LONGEST_S


def damped(op: Op) -> Op:
    """What has no floor ends what runs because its client says so: nobody else's affair."""
    if isinstance(op, Arrival) and UTILITIES[op.utility].floor == -math.inf:
        return replace(op, when_busy='queue')
    return op
