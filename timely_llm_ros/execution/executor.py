"""Runs plans on one driver: executes segments in order and keeps the robot safe.

If a segment does not succeed, the executor issues the robot's safe action before it tells anybody
the outcome. If the safe action cannot be issued, the executor counts the robot as lost, and issues
it before anything else once the robot is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import Ending, RobotUnavailableError
from timely_llm_ros.execution.driver import EmergencyDriver
from timely_llm_ros.execution.fence import Fence
from timely_llm_ros.execution.limits import SAFE_ATTEMPTS, ExecutorLimits
from timely_llm_ros.execution.plan_in_hand import PlanInHand, came_twice
from timely_llm_ros.execution.robot_link import SegmentCode, SegmentOutcome
from timely_llm_ros.execution.segment_job import SegmentJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.execution.driver import Driver
    from timely_llm_ros.execution.envelope import Envelope
    from timely_llm_ros.execution.robot_link import SegmentProgress
    from timely_llm_ros.skills import Scene, Segment, SkillSet

_logger = logging.getLogger(__name__)

ExecutorPhase = Literal['idle', 'executing', 'waiting', 'safe', 'lost']
"""``idle``: nothing to do. ``waiting``: between two segments of a plan. ``safe``: brought to its
safe action after an abnormal end. ``lost``: the driver has no contact."""

ENDED_PLANS_KEPT = 64
"""A late segment is recognised and refused if its plan is among the last so many that ended."""

_DEFAULT_LIMITS = ExecutorLimits()
_CUT_SHORT = Ending(SegmentCode.SHUTDOWN, 'the executor was cut short')
_NO_CONTACT = Ending(SegmentCode.ROBOT_LOST, 'the driver has no contact with the robot')


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """What an executor is doing.

    Attributes:
        phase: In one word.
        plan_id: The plan in hand, or the one that was given up when it was made safe; empty when
            idle.
        index: Index of the segment in hand, or of the latest one.
        call: Text of the call in hand; empty where there is none.
        elapsed_s: Time spent in the segment in hand (s).
        remaining_s: Expected time of the segments in hand and queued (s).
        queued: Segments that wait for their turn.
    """

    phase: ExecutorPhase
    plan_id: str
    index: int
    call: str
    elapsed_s: float
    remaining_s: float
    queued: int


class SegmentExecutor:
    """Executes segments on one robot. Used from one asyncio loop.

    Segments of one plan may come early and in any order; they run in the order of their index. A
    segment of another plan supersedes the plan in hand. After a segment that did not succeed no
    other of its plan runs. With an envelope no call runs that would leave it.
    """

    def __init__(
        self,
        driver: Driver,
        skill_set: SkillSet,
        clock: Clock,
        limits: ExecutorLimits = _DEFAULT_LIMITS,
        envelope: Envelope | None = None,
    ) -> None:
        self.driver, self.skill_set = driver, skill_set
        self._fence = None if envelope is None else Fence(envelope, skill_set, driver)
        self._clock = clock
        self._limits = limits
        self._plan = self._given_up = self._no_plan = PlanInHand('', skill_set)
        self._jobs: dict[int, SegmentJob] = {}
        self._running: SegmentJob | None = None
        self._ended: deque[str] = deque(maxlen=ENDED_PLANS_KEPT)
        self._runner: asyncio.Task[None] | None = None
        self._idle_watch: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._idle_watches: set[asyncio.Task[None]] = set()
        self._driver_lock = asyncio.Lock()
        self._connected = False
        self._was_made_safe = False
        self._owes_safe_action = False
        self._closing = self._released = False

    async def start(self) -> None:
        """Connect the driver, at first or again after contact was lost, and make the robot safe.

        Nobody knows what it was left with: a program that died may have left it moving.

        Raises:
            RobotUnavailableError: The robot does not answer, or the executor goes down.
        """
        if self._closing:
            raise RobotUnavailableError('robot: expected its executor not to go down')
        await self.driver.connect()
        owed = self._owes_safe_action
        # What a server that has just been found is asked may be lost until it has found its client.
        for _ in range(SAFE_ATTEMPTS):
            async with self._driver_lock:
                if self._released:
                    break
                await self._make_safe()
                if not self._owes_safe_action:
                    self._connected, self._was_made_safe = True, owed
                    return
        raise RobotUnavailableError(
            f'robot: asked {SAFE_ATTEMPTS} times for its safe action, expected it to take that'
        )

    async def close(self) -> bool:
        """Bring the robot to its safe action and release it; idempotent.

        Returns:
            Whether the safe action was issued, so that nothing is left for others to do.
        """
        # From here on nothing starts: once the driver is released, nobody could end a call, not
        # even this program's guard, which trusts the exit code.
        self._closing = True
        if not self._released and (self._connected or self._runner is not None):
            await self.stop(SegmentCode.SHUTDOWN, 'the executor goes down')
        self._drop_idle_watch()
        async with self._driver_lock:
            self._connected, self._released = False, True
            await self.driver.close()
        return self._was_made_safe

    @property
    def connected(self) -> bool:
        """Whether the driver has contact."""
        return self._connected

    @property
    def state(self) -> ExecutorState:
        """What it is doing."""
        remaining_s = sum(job.remaining_s for job in self._jobs.values())
        job = self._running
        if job is not None:
            return ExecutorState(
                'executing',
                job.plan_id,
                job.segment.index,
                job.call,
                job.elapsed_s,
                job.remaining_s + remaining_s,
                len(self._jobs),
            )
        phase: ExecutorPhase = 'waiting' if self._idle_watch is not None else 'idle'
        if not self._connected:
            phase = 'lost'
        elif self._was_made_safe:
            phase = 'safe'
        plan = self._given_up if phase == 'safe' else self._plan
        index, queued = max(0, plan.next_index - 1), len(self._jobs)
        return ExecutorState(phase, plan.plan_id, index, '', 0.0, remaining_s, queued)

    async def execute(
        self,
        plan_id: str,
        segment: Segment,
        scene: Scene,
        on_progress: Callable[[SegmentProgress], None],
    ) -> SegmentOutcome:
        """Run one segment when its turn comes, like ``RobotLink.execute``, but never raise."""
        known = self._plan is not self._no_plan and plan_id == self._plan.plan_id
        plan = self._plan if known else PlanInHand(plan_id, self.skill_set)
        refusal = self.refusal(plan_id, segment.index) or plan.add(segment, scene)
        if refusal is not None:
            return SegmentOutcome(segment.index, refusal)
        if plan is not self._plan:
            self._halt_plan(Ending(SegmentCode.SUPERSEDED, f'plan {plan_id} took over'))
            self._plan = plan
        job = SegmentJob(
            plan_id, segment, scene, on_progress, skill_set=self.skill_set, clock=self._clock
        )
        self._jobs[segment.index] = job
        self._wake()
        try:
            return await asyncio.shield(job.outcome)
        except asyncio.CancelledError:
            if not job.outcome.done():
                self._halt_from(job, Ending(SegmentCode.CANCELED, 'cancelled'))
                await asyncio.wait({job.outcome})
            raise

    def end_plan(self, plan_id: str) -> None:
        """Note that a plan has no more segments; no-op if it is not the plan in hand.

        Without this the robot counts as waiting until the idle limit.
        """
        if plan_id == self._plan.plan_id and self._runner is None and not self._jobs:
            self._forget_plan()
            self._drop_idle_watch()

    async def stop(
        self, code: SegmentCode = SegmentCode.CANCELED, error: str = 'the robot was stopped'
    ) -> bool:
        """Bring the robot to its safe action now; what runs or waits ends with that code.

        Returns:
            Whether the safe action was issued.
        """
        running = self._running
        self._halt_plan(Ending(code, error))
        self._drop_idle_watch()
        if running is not None:
            await asyncio.wait({running.outcome})
            if not running.outcome.result().succeeded:
                return not self._owes_safe_action
            if self._running is not None:
                # It was at its very end, and a newer plan has the robot by now.
                return True
        async with self._driver_lock:
            if not self._released:
                await self._make_safe()
            return self._was_made_safe

    async def cut_power(self, why: str) -> bool:
        """Cut the robot's power, whatever runs; take the safe action if the driver cannot.

        What runs or waits ends CANCELED, with ``why`` in its text.

        Returns:
            Whether the robot was told.

        Raises:
            RobotUnavailableError: The robot cannot be told.
        """
        stop = asyncio.create_task(self.stop(SegmentCode.CANCELED, f'emergency: {why}'))
        try:
            if isinstance(self.driver, EmergencyDriver):
                await self.driver.emergency()
        finally:
            told = await stop
        return told or isinstance(self.driver, EmergencyDriver)

    def refusal(self, plan_id: str, index: int) -> Ending | None:
        """Return why it would not take a segment with that index, whatever it says; None if it may.

        Cheap, so that nobody has to read a segment that has no place.
        """
        if self._closing:
            return Ending(SegmentCode.ROBOT_LOST, 'the executor goes down')
        if not self._connected:
            return _NO_CONTACT
        if plan_id in self._ended:
            return Ending(SegmentCode.CANCELED, f'plan {plan_id} ended before this segment')
        if plan_id == self._plan.plan_id:
            if misplaced := self._plan.misplaced(index):
                return misplaced
            if index in self._jobs:
                return came_twice(index)
            most = self.skill_set.limits.queued_segments
            if len(self._jobs) >= most:
                return Ending(
                    SegmentCode.INVALID_SEGMENT,
                    f'segment {index}: {len(self._jobs)} wait before it: expected less than '
                    f'{most}, queued_segments of skill set {self.skill_set.name!r}',
                )
        return None

    def _wake(self) -> None:
        if self._runner is None:
            self._drop_idle_watch()
            if self._plan.next_index in self._jobs:
                self._runner = asyncio.get_running_loop().create_task(self._run_jobs())
            else:
                self._watch_idle()

    async def _run_jobs(self) -> None:
        try:
            async with self._driver_lock:
                while (job := self._jobs.pop(self._plan.next_index, None)) is not None:
                    self._running = job
                    self._plan.next_index += 1
                    self._was_made_safe = False
                    self._conclude(job, await self._run(job))
        finally:
            # Nobody may wait for ever, even if a fault or the loop's end cuts this short.
            if self._running is not None:
                self._conclude(self._running, self._running.ended(_CUT_SHORT))
            self._runner = None
        self._watch_idle()

    async def _run(self, job: SegmentJob) -> SegmentOutcome:
        if not self._connected:
            # Contact was lost while the job waited.
            return job.ended(_NO_CONTACT)
        try:
            outcome = await job.run(self.driver, self._limits, self._fence)
        except asyncio.CancelledError:
            await self._make_safe()
            raise
        if outcome.ending.code == SegmentCode.ROBOT_LOST:
            self._connected = False
        if not outcome.succeeded:
            await self._make_safe()
        return outcome

    def _conclude(self, job: SegmentJob, outcome: SegmentOutcome) -> None:
        self._running = None
        # Before those behind it end, which say only that it did not succeed.
        job.outcome.set_result(outcome)
        if not outcome.succeeded and job.plan_id == self._plan.plan_id:
            error = outcome.ending.message
            text = f'segment {outcome.index} of its plan did not succeed: {error}'
            self._halt_plan(Ending(SegmentCode.CANCELED, text))

    def _halt_plan(self, ending: Ending) -> None:
        """Halt everything of the plan in hand, and have no plan."""
        self._end_queued(0, ending)
        if self._plan is not self._no_plan:
            self._given_up = self._plan
        self._forget_plan()
        if self._running is not None:
            self._running.halt(ending)

    def _forget_plan(self) -> None:
        if self._plan is not self._no_plan:
            self._ended.append(self._plan.plan_id)
            self._plan = self._no_plan

    def _halt_from(self, job: SegmentJob, ending: Ending) -> None:
        """Halt one segment and those after it; earlier ones go on."""
        if job is self._running:
            self._halt_plan(ending)
        elif self._jobs.get(job.segment.index) is job:
            self._plan.cut_at = job.segment.index
            self._end_queued(job.segment.index, ending)

    def _end_queued(self, from_index: int, ending: Ending) -> None:
        for index in sorted(index for index in self._jobs if index >= from_index):
            job = self._jobs.pop(index)
            job.outcome.set_result(job.ended(ending))

    async def _make_safe(self) -> None:
        """Issue the safe action; the driver's lock is held."""
        if self._fence is not None:
            self._fence.made_safe()
        try:
            async with asyncio.timeout(self._limits.safe_limit_s):
                await self.driver.safe()
        except RobotUnavailableError as err:
            text = 'safe action not issued, owed until the robot is back: %s'
            _logger.error(text, err)  # noqa: TRY400 (the error says all)
        except TimeoutError:
            text = 'safe action not issued within %g s: lost'
            _logger.error(text, self._limits.safe_limit_s)  # noqa: TRY400 (it says all)
        except Exception:
            _logger.exception('safe action not issued: lost')
        else:
            self._was_made_safe, self._owes_safe_action = True, False
            return
        # Nobody may take the robot for safe, nor use it as it is.
        self._was_made_safe, self._owes_safe_action, self._connected = False, True, False

    def _watch_idle(self) -> None:
        if self._plan is not self._no_plan:
            loop = asyncio.get_running_loop()
            self._idle_watch = loop.call_later(self._limits.idle_limit_s, self._end_idling)

    def _end_idling(self) -> None:
        watch = asyncio.get_running_loop().create_task(self._safe_when_idle())
        self._idle_watch = watch
        self._idle_watches.add(watch)
        watch.add_done_callback(self._idle_watches.discard)

    async def _safe_when_idle(self) -> None:
        async with self._driver_lock:
            if self._closing:
                return
            if self._jobs:
                ending = Ending(
                    SegmentCode.INVALID_SEGMENT,
                    f'segment {self._plan.next_index} did not come within '
                    f'{self._limits.idle_limit_s:g} s: expected it before {min(self._jobs)}',
                )
                self._halt_plan(ending)
            await self._make_safe()
            self._was_made_safe = False
        self._idle_watch = None

    def _drop_idle_watch(self) -> None:
        watch, self._idle_watch = self._idle_watch, None
        # A watch that holds the lock issues the safe action, which must not be cut short.
        is_safe_action = isinstance(watch, asyncio.Task) and self._driver_lock.locked()
        if watch is not None and not is_safe_action:
            watch.cancel()
