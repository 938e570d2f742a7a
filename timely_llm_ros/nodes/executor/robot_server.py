"""One robot's side of the wire: its segment executor behind an action, a service and a topic."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter, deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rclpy.action import GoalResponse

from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.errors import Ending, TimelyError
from timely_llm_ros.execution import SegmentCode, SegmentOutcome
from timely_llm_ros.msg import RobotState
from timely_llm_ros.nodes.executor.planner_watch import PERIOD_S, PlannerWatch
from timely_llm_ros.nodes.executor.stop_services import StopServices
from timely_llm_ros.ros import (
    REST_PERIOD_S,
    STATE_QOS,
    DeferredActionServer,
    SolePublisher,
)
from timely_llm_ros.ros.conversions import (
    outcome_message,
    progress_message,
    robot_state_message,
    segment_record,
)

if TYPE_CHECKING:
    from rclpy.action.server import ServerGoalHandle
    from rclpy.node import Node

    from timely_llm_ros.execution import ExecutorState, SegmentExecutor, SegmentProgress
    from timely_llm_ros.ros import RosThread
    from timely_llm_ros.skills import Scene, Segment

_logger = logging.getLogger(__name__)

INTRODUCTION_S = 0.5
"""How long a segment waits for the first heartbeat of its planner (s): discovery has no order."""

RECONNECT_PERIOD_S = 2.0
"""How often a lost connection to the robot is tried again (s)."""

WORK_PERIOD_S = 0.4
"""How often the state of a robot is published that has a plan or no contact, though it does not
change (s); ``robot_timeout_s`` is longer."""

LATE_S = 0.02
"""By how much a state may be published later than that (s), since no timer is exact."""

_CANCELLED = Ending(SegmentCode.CANCELED, 'cancelled by the client')


@dataclass(slots=True, eq=False)
class _Taken:
    """A goal that was taken. ``goal`` is there once rclpy has accepted it; ROS thread only."""

    asked: ExecuteSegment.Goal
    known_by_s: float
    """On the loop's clock; by then its planner must have been heard."""
    goal: ServerGoalHandle | None = None
    dropped: Ending | None = None
    """Why it must not begin any more; loop's thread only."""


class RobotServer:
    """Takes segments for one robot and runs them in order.

    Args:
        node: The executor's node.
        ros: Its thread.
        robot: Name of the robot: its namespace, relative to the node's.
        executor: Runs the segments.
        planner_timeout_s: How long the planner may be silent (s) while the robot has work of it;
            0 for ever. The robot is then brought to its safe action.
        state_period_s: How often :meth:`publish_change` is called (s).
        result_timeout_s: How long a segment's result is kept (s).
    """

    def __init__(
        self,
        node: Node,
        ros: RosThread,
        robot: str,
        executor: SegmentExecutor,
        *,
        planner_timeout_s: float,
        state_period_s: float,
        result_timeout_s: int,
    ) -> None:
        self.robot = robot
        self.executor = executor
        self._node, self._ros = node, ros
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
        self._unread: deque[_Taken] = deque()
        self._reading = False
        self._runs: dict[_Taken, asyncio.Task[SegmentOutcome]] = {}
        self._by_goal: dict[bytes, _Taken] = {}
        self._taking: _Taken | None = None
        self._reconnection: asyncio.Task[None] | None = None
        action = f'{robot}/execute_segment'
        self._states = SolePublisher(
            node, RobotState, f'{robot}/robot_state', STATE_QOS, action=action
        )
        self._published: tuple[ExecutorState, bool, bool] | None = None
        """The last state that was published, and whether the robot was halted and active."""
        self._published_s = 0.0
        self._state_period_s = state_period_s
        self._result_timeout_s = result_timeout_s
        self._server: DeferredActionServer | None = None

    # On the loop's thread

    async def claim(self) -> None:
        """Make sure that no other program executes for the robot.

        Raises:
            ConfigurationError: One does.
        """
        await self._states.claim()

    def open(self) -> None:
        """Begin to serve, before the node does."""
        self._server = DeferredActionServer(
            self._node,
            ExecuteSegment,
            f'{self.robot}/execute_segment',
            on_goal=self._on_goal,
            on_accepted=self._on_accepted,
            on_cancel=self._on_cancel,
            result_timeout_s=self._result_timeout_s,
            is_addressed=self._is_addressed,
            client_of=lambda goal: bytes(goal.planner),
        )
        self.stops.open()

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
        rests = state.phase in ('idle', 'safe') and not (self.planner.new or self._states.new)
        period_s = REST_PERIOD_S if rests else WORK_PERIOD_S
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

    def _take(self, taken: _Taken) -> None:
        """Read a segment after those that came before it, unless too many did."""
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

    def _read(self, taken: _Taken) -> None:
        """Start a segment, or refuse it where it is not valid."""
        message, executor = taken.asked.segment, self.executor
        # Without a plan id, as when sent by hand, it is a plan of its own.
        given = bytes(message.plan_id.uuid)
        plan_id = str(uuid.UUID(bytes=given)) if any(given) else str(uuid.uuid4())
        try:
            if message.robot != self.robot:
                raise _invalid('robot', message.robot, self.robot)
            if message.skill_set != executor.skill_set.name:
                raise _invalid('skill set', message.skill_set, executor.skill_set.name)
            # Cheap questions first: reading takes time in proportion to the text.
            refusal = self.stops.refusal or executor.refusal(plan_id, message.index)
            if refusal is not None:
                self._refuse(taken, refusal)
                return
            segment, scene = segment_record(message, executor.skill_set)
        except TimelyError as err:
            self._refuse(taken, Ending(SegmentCode.INVALID_SEGMENT, str(err)))
            return
        self._start(taken, segment, scene, plan_id)

    def _refuse(self, taken: _Taken, ending: Ending) -> None:
        _logger.warning('robot %s: segment refused: %s', self.robot, ending.message)
        self.ended[ending.code] += 1
        self._ros.call(self._finish, taken, SegmentOutcome(taken.asked.segment.index, ending))

    def _drop_unread(self, ending: Ending) -> None:
        """Refuse what came before a stop, read or not: it must not start after it."""
        if self._server is not None:
            self._server.drop_early()
        for taken in self._runs:
            taken.dropped = ending
        while self._unread:
            self._refuse(self._unread.popleft(), ending)

    def _start(self, taken: _Taken, segment: Segment, scene: Scene, plan_id: str) -> None:
        if not self.planner.begin(bytes(taken.asked.planner)):
            problem = f'robot {self.robot!r}: expected the planner that it hears and works for'
            self._refuse(taken, Ending(SegmentCode.FENCED, problem))
            return
        run = asyncio.create_task(
            self._run(taken, segment, scene, plan_id), name=f'segment {segment.index}'
        )
        self._runs[taken] = run
        # A run that is cancelled before it begins runs none of its own lines.
        run.add_done_callback(partial(self._ended, taken))

    async def _run(
        self, taken: _Taken, segment: Segment, scene: Scene, plan_id: str
    ) -> SegmentOutcome:
        # A stop may have come since it was read.
        if (ending := taken.dropped or self.stops.refusal) is not None:
            return SegmentOutcome(segment.index, ending)
        return await self.executor.execute(
            plan_id, segment, scene, partial(self._on_progress, taken)
        )

    def _ended(self, taken: _Taken, run: asyncio.Task[SegmentOutcome]) -> None:
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
        self._ros.call(self._finish, taken, outcome)
        self.publish_state()

    def _on_progress(self, taken: _Taken, progress: SegmentProgress) -> None:
        # Told a moment later: the call that it tells of is only now being started.
        self._ros.loop.call_soon(self._tell, taken, progress)

    def _tell(self, taken: _Taken, progress: SegmentProgress) -> None:
        self._ros.call(self._feed_back, taken, progress_message(progress))
        self.publish_state()

    def _cancel(self, taken: _Taken) -> None:
        run = self._runs.get(taken)
        if run is not None:
            run.cancel()
        elif taken in self._unread:
            self._unread.remove(taken)
            self._refuse(taken, _CANCELLED)

    # On the ROS thread

    def _is_addressed(self, goal: ExecuteSegment.Goal) -> bool:
        # Where two programs execute for one robot, the planner means the one that it listens to.
        return not goal.executor or bytes(goal.executor) == self._states.gid

    def _on_goal(self, goal: ExecuteSegment.Goal) -> GoalResponse:
        """Take every goal, and have it read and started before rclpy has told its client.

        A goal that is not valid is aborted once it is accepted: only a result can carry a reason.
        """
        taken = self._taking = _Taken(goal, self._ros.loop.time() + INTRODUCTION_S)
        self._ros.call_loop(self._take, taken)
        self._ros.call(self._require_goal, taken)
        return GoalResponse.ACCEPT

    def _on_accepted(self, goal: ServerGoalHandle) -> None:
        taken, self._taking = self._taking, None
        if taken is None:
            raise RuntimeError('expected a goal to be taken before it is accepted')
        taken.goal = goal
        self._by_goal[bytes(goal.goal_id.uuid)] = taken

    def _require_goal(self, taken: _Taken) -> None:
        """Stop a segment whose goal rclpy could not accept: nobody would hear of it."""
        if taken.goal is None:
            self._ros.call_loop(self._cancel, taken)

    def _on_cancel(self, goal: ServerGoalHandle) -> None:
        taken = self._by_goal.get(bytes(goal.goal_id.uuid))
        if taken is not None:
            self._ros.call_loop(self._cancel, taken)

    def _feed_back(self, taken: _Taken, message: ExecuteSegment.Feedback) -> None:
        if taken.goal is not None:
            taken.goal.publish_feedback(message)

    def _finish(self, taken: _Taken, outcome: SegmentOutcome) -> None:
        if taken.goal is None or self._server is None:
            return
        self._by_goal.pop(bytes(taken.goal.goal_id.uuid), None)
        self._server.finish(taken.goal, outcome_message(outcome), succeeded=outcome.succeeded)


def _invalid(what: str, value: str, expected: str) -> TimelyError:
    return TimelyError(f'{what} {value[:80]!r}: expected {expected!r}')
