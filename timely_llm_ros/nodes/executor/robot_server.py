"""One robot's side of the wire: its segment executor behind an action, services and a topic."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from timely_llm_ros.errors import Ending, TimelyError
from timely_llm_ros.execution import SegmentCode, SegmentOutcome
from timely_llm_ros.msg import RobotState
from timely_llm_ros.nodes.executor.planner_watch import PERIOD_S, PlannerWatch
from timely_llm_ros.nodes.executor.stop_services import StopServices
from timely_llm_ros.ros import REST_PERIOD_S, STATE_QOS, SolePublisher, SoleTopic
from timely_llm_ros.ros.conversions import robot_state_message, segment_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node

    from timely_llm_ros.execution import ExecutorState, SegmentExecutor, SegmentProgress
    from timely_llm_ros.nodes.executor.segment_server import SegmentServer, Taken
    from timely_llm_ros.ros import RosThread
    from timely_llm_ros.skills import Scene, Segment

_logger = logging.getLogger(__name__)

RECONNECT_PERIOD_S = 2.0
"""How often a lost connection to the robot is tried again (s)."""

WORK_PERIOD_S = 0.4
"""How often the state of a robot is published that has a plan or no contact, though it does not
change (s); ``robot_timeout_s`` is longer."""

LATE_S = 0.02
"""By how much a state may be published later than that (s), since no timer is exact."""

_CANCELLED = Ending(SegmentCode.CANCELED, 'cancelled by the client')


class RobotServer:
    """Takes segments for one robot and runs them in order.

    Args:
        node: The executor's node.
        ros: Its thread.
        robot: Name of the robot: its namespace, relative to the node's.
        executor: Runs the segments.
        segments: The action by which segments come and are answered.
        planner_timeout_s: How long the planner may be silent (s) while the robot has work of it;
            0 for ever. The robot is then brought to its safe action.
        state_period_s: How often :meth:`publish_change` is called (s).
        begins: Called when the robot no longer rests, before it moves.
    """

    def __init__(
        self,
        node: Node,
        ros: RosThread,
        robot: str,
        executor: SegmentExecutor,
        segments: SegmentServer,
        *,
        planner_timeout_s: float,
        state_period_s: float,
        begins: Callable[[], None],
    ) -> None:
        self.robot, self.executor = robot, executor
        self._ros, self._segments = ros, segments
        self.planner = PlannerWatch(robot, executor, planner_timeout_s)
        self.stops = StopServices(
            node,
            ros,
            robot,
            executor,
            drop_unread=self._drop_unread,
            answered=self.publish_state,
        )
        self.ended: Counter[int] = Counter()
        """Segments that ended, by :class:`SegmentCode`; refused ones are among them."""
        self._unread: deque[Taken] = deque()
        self._reading = False
        self._runs: dict[Taken, asyncio.Task[SegmentOutcome]] = {}
        self._reconnection: asyncio.Task[None] | None = None
        states = SoleTopic(RobotState, f'{robot}/robot_state', STATE_QOS, f'{robot}/stop')
        self._states = SolePublisher(node, states)
        self._published: tuple[ExecutorState, bool, bool] | None = None
        """The last state that was published, and whether the robot was halted and active."""
        self._published_s = 0.0
        self._state_period_s, self._begins = state_period_s, begins

    @property
    def gid(self) -> bytes:
        """The identity by which planners mean this executor; from any thread."""
        return self._states.gid

    # On the loop's thread

    @property
    def rests(self) -> bool:
        """Whether the robot does nothing, and nothing that was read is about to begin."""
        return not self._runs and self.executor.state.phase in ('idle', 'safe')

    async def claim(self) -> None:
        """Make sure that no other program executes for the robot.

        Raises:
            ConfigurationError: One does.
        """
        await self._states.claim()

    def activate(self) -> None:
        """Take segments from now on."""
        self.stops.active = True
        self.publish_state()

    def deactivate(self) -> asyncio.Task[None]:
        """Take no more segments; the task brings the robot to its safe action."""
        self.stops.active = False
        self._drop_unread(self.stops.inactive)
        return asyncio.create_task(self._stop_inactive(), name=f'deactivate {self.robot}')

    async def _stop_inactive(self) -> None:
        if self.executor.connected:
            await self.executor.stop(SegmentCode.HALTED, self.stops.inactive.message)
        self.publish_state()

    async def close(self) -> bool:
        """End every goal and release the robot; return whether its safe action was issued."""
        safe = await self.executor.close()
        self._drop_unread(Ending(SegmentCode.SHUTDOWN, 'the executor goes down'))
        if self._runs:
            await asyncio.wait(self._runs.values(), timeout=1.0)
        if safe:
            # A planner that goes down at the same time need not ask whether it is.
            self._publish(replace(self.executor.state, phase='safe'))
        self.publish_state()
        return safe

    def plan_ended(self, plan_id: str, publisher: bytes) -> bool:
        """Note that nothing more of a plan will come; return whether who says so counts."""
        if not self.planner.may_end(plan_id, publisher):
            return False
        self.executor.end_plan(plan_id)
        self.publish_state()
        return True

    def check(self) -> None:
        """Notice a planner that fell silent, and a robot that is lost; called regularly."""
        self.planner.check()
        if not self.executor.connected and self._reconnection is None:
            self._reconnection = asyncio.create_task(self._reconnect())

    def publish_state(self) -> None:
        """Publish what the robot does now."""
        self._publish(self.executor.state)

    def publish_change(self) -> None:
        """Publish what the robot does if it is new, and else as a rare sign of life.

        Called every state period. What costs a planner most of its idle time is to hear of robots
        that do nothing.
        """
        state = self.executor.state
        unheard_s = self._ros.loop.time() - self._published_s
        # It is soon known to a planner that is new, and new itself to another program of its name.
        new = self.planner.new or self._states.new
        period_s = REST_PERIOD_S if self.rests and not new else WORK_PERIOD_S
        # The next call would come too late.
        due = unheard_s + self._state_period_s > period_s + LATE_S
        if (state, self.stops.halted, self.stops.active) != self._published or due:
            self._publish(state)

    def _publish(self, state: ExecutorState) -> None:
        halted, active = self.stops.halted, self.stops.active
        self._published, self._published_s = (state, halted, active), self._ros.loop.time()
        message = robot_state_message(
            state, self.robot, self.executor.skill_set, halted=halted, inactive=not active
        )
        message.action = self._segments.name
        self._states.publish(message, message.header)

    def rival(self) -> str:
        """Return why the robot must be left to another program; '' if it need not."""
        return self._states.rival()

    async def _reconnect(self) -> None:
        try:
            await asyncio.sleep(RECONNECT_PERIOD_S)
            # Configuring may have connected it meanwhile, and it may be at work.
            if not self.executor.connected:
                await self.executor.start()
                _logger.info('robot %s: connected again', self.robot)
        except TimelyError as err:
            _logger.warning('robot %s: %s', self.robot, err)
        finally:
            self._reconnection = None

    def take(self, taken: Taken) -> None:
        """Stop, or read a segment after those that came before it, unless too many did."""
        if taken.asked.stop:
            self.stops.stop(partial(self._stopped, taken))
            return
        skill_set = self.executor.skill_set
        most = skill_set.limits.queued_segments
        if len(self._unread) >= most:
            problem = (
                f'{len(self._unread)} segments are not read yet: expected less than {most}, '
                f'queued_segments of skill set {skill_set.name!r}'
            )
            self._refuse(taken, Ending(SegmentCode.INVALID_SEGMENT, problem))
            return
        self._unread.append(taken)
        if not self._reading:
            self._read_next()

    def _read_next(self) -> None:
        """Read one segment in each round of the loop, which serves everything else in between."""
        self._reading = bool(self._unread)
        if not self._unread:
            return
        first, now_s = self._unread[0], self._ros.loop.time()
        if now_s < first.known_by_s and not self.planner.knows(bytes(first.asked.planner)):
            self._ros.loop.call_later(PERIOD_S, self._read_next)
            return
        try:
            self._read(self._unread.popleft())
        finally:
            self._ros.loop.call_soon(self._read_next)

    def _read(self, taken: Taken) -> None:
        """Start a segment, or refuse it where it is not valid."""
        message, executor = taken.asked.segment, self.executor
        # Without a plan id, as when sent by hand, it is a plan of its own.
        given = bytes(message.plan_id.uuid)
        plan_id = str(uuid.UUID(bytes=given)) if any(given) else str(uuid.uuid4())
        try:
            # Cheap questions first: reading takes time in proportion to the text.
            refusal = (
                self._foreign(message.skill_set)
                or self.stops.refusal
                or executor.refusal(plan_id, message.index)
            )
            if refusal is not None:
                self._refuse(taken, refusal)
                return
            segment, scene = segment_record(message, executor.skill_set)
        except TimelyError as err:
            self._refuse(taken, Ending(SegmentCode.INVALID_SEGMENT, str(err)))
            return
        self._start(taken, segment, scene, plan_id)

    def _foreign(self, skill_set: str) -> Ending | None:
        expected = self.executor.skill_set.name
        if skill_set == expected:
            return None
        problem = f'skill set {skill_set[:80]!r}: expected {expected!r}'
        return Ending(SegmentCode.INVALID_SEGMENT, problem)

    def _refuse(self, taken: Taken, ending: Ending) -> None:
        _logger.warning('robot %s: segment refused: %s', self.robot, ending.message)
        self.ended[ending.code] += 1
        self._segments.end(taken, SegmentOutcome(taken.asked.segment.index, ending))

    def _drop_unread(self, ending: Ending) -> None:
        """Refuse what came before a stop, read or not: it must not start after it."""
        self._segments.drop_early(self.robot)
        for taken in self._runs:
            taken.dropped = ending
        while self._unread:
            self._refuse(self._unread.popleft(), ending)

    def _start(self, taken: Taken, segment: Segment, scene: Scene, plan_id: str) -> None:
        if not self.planner.begin(bytes(taken.asked.planner)):
            problem = f'robot {self.robot!r}: expected the planner that it hears and works for'
            self._refuse(taken, Ending(SegmentCode.FENCED, problem))
            return
        run = asyncio.create_task(
            self._run(taken, segment, scene, plan_id), name=f'segment {segment.index}'
        )
        self._runs[taken] = run
        self._begins()
        # A run that is cancelled before it begins runs none of its own lines.
        run.add_done_callback(partial(self._ended, taken))

    async def _run(
        self, taken: Taken, segment: Segment, scene: Scene, plan_id: str
    ) -> SegmentOutcome:
        # A stop may have come since it was read.
        if (ending := taken.dropped or self.stops.refusal) is not None:
            return SegmentOutcome(segment.index, ending)
        return await self.executor.execute(
            plan_id, segment, scene, partial(self._on_progress, taken)
        )

    def _ended(self, taken: Taken, run: asyncio.Task[SegmentOutcome]) -> None:
        del self._runs[taken]
        index = taken.asked.segment.index
        if run.cancelled():
            outcome = SegmentOutcome(index, _CANCELLED)
        elif (err := run.exception()) is not None:
            _logger.error('robot %s: segment %d', self.robot, index, exc_info=err)
            outcome = SegmentOutcome(
                index, Ending(SegmentCode.SKILL_FAILED, f'fault in the executor: {err!r}')
            )
        else:
            outcome = run.result()
        self.ended[outcome.ending.code] += 1
        self._segments.end(taken, outcome)
        self.publish_state()

    def _on_progress(self, taken: Taken, progress: SegmentProgress) -> None:
        # Told a moment later: the call that it tells of is only now being started.
        self._ros.loop.call_soon(self._tell, taken, progress)

    def _tell(self, taken: Taken, progress: SegmentProgress) -> None:
        self._segments.tell(taken, progress)
        self.publish_state()

    def _stopped(self, taken: Taken, safe: bool, problem: str) -> None:
        ending = Ending(SegmentCode.NONE if safe else SegmentCode.ROBOT_LOST, problem)
        self._segments.end(taken, SegmentOutcome(taken.asked.segment.index, ending))

    def cancel(self, taken: Taken) -> None:
        """Give up a segment that its client wants no more."""
        run = self._runs.get(taken)
        if run is not None:
            run.cancel()
        elif taken in self._unread:
            self._unread.remove(taken)
            self._refuse(taken, _CANCELLED)
