"""The planner's links to robots over ROS: clients of their executors' actions."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from rclpy.duration import Duration
from rclpy.exceptions import NameValidationException
from rclpy.validate_full_topic_name import validate_full_topic_name
from unique_identifier_msgs.msg import UUID

from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.execution import SegmentOutcome
from timely_llm_ros.msg import RobotState, SkillSegment
from timely_llm_ros.ros import (
    REST_PERIOD_S,
    SEGMENTS_QOS,
    STATE_QOS,
    GoalClient,
    IdentifiedSubscription,
)
from timely_llm_ros.ros.conversions import (
    outcome_record,
    progress_record,
    segment_message,
    uuid_text,
)
from timely_llm_ros.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rclpy.node import Node

    from timely_llm_ros.execution import SegmentProgress, TimedSegment
    from timely_llm_ros.nodes.planner.catalogue import Catalogue
    from timely_llm_ros.ros import RosThread, SolePublisher
    from timely_llm_ros.skills import SkillSet

_logger = logging.getLogger(__name__)

CHECK_PERIOD_S = 0.05
"""How often links must be checked (s)."""

IDLE_TURNS = 4
"""Links that are not busy are checked once in so many times."""

NEWCOMER_S = 0.8
"""Silence of an executor (s) after which another may take its place, where its robot does not rest;
one that is started anew listens for as long before it speaks."""

FOUND_S = 5.0
"""An executor that has been heard for so long is there, whatever rclpy says of its action (s)."""

MEET_S = 10.0
"""How long after its start a planner may not have met the executors that are there (s): what Fast
DDS has lost of their meeting is sent again after up to 3 s, and may be lost again."""

ANSWER_S = 10.0
"""How long an executor may take to answer a segment (s); a segment that is lost has no answer."""


def _unheard(_: SegmentProgress) -> None:
    """Take no notice of progress."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A segment on its way to the robot or on it, or a stop.

    ``client``, ``goal`` and ``canceling``: ROS thread only.
    """

    outcome: asyncio.Future[SegmentOutcome]
    on_progress: Callable[[SegmentProgress], None] = _unheard
    index: int = 0
    awaits_value: bool = False
    client: GoalClient | None = None
    goal: Any = None
    canceling: bool = False


class RosRobotLink:
    """One robot, reached over ROS; ``RobotLink`` has the contract.

    Args:
        node: The planner's node.
        ros: Its thread.
        client_of: Returns the client of an action, by its full name: one for all robots of an
            executor.
        robot: Name of the robot: its namespace, relative to the node's.
        skill_set: The robot's skills.
        heartbeat: What the planner publishes, by which executors know it.
        silence_limit_s: Silence of the executor (s) that counts as its loss; ``REST_PERIOD_S`` more
            while the robot rests.
    """

    def __init__(
        self,
        node: Node,
        ros: RosThread,
        client_of: Callable[[str], GoalClient],
        robot: str,
        skill_set: SkillSet,
        heartbeat: SolePublisher,
        silence_limit_s: float,
    ) -> None:
        self.robot, self.skill_set = robot, skill_set
        self.silence_limit_s = silence_limit_s
        self._node, self._ros, self._client_of = node, ros, client_of
        self._client: GoalClient | None = None
        """Of its executor's action, once that has been heard."""
        segments = f'{robot}/skill_segments'
        self._segments = node.create_publisher(SkillSegment, segments, SEGMENTS_QOS)
        self._heartbeat = heartbeat
        self._states = IdentifiedSubscription(node, RobotState, f'{robot}/robot_state', STATE_QOS)
        self._executor = b''
        self._silence = Silence(most_s=2 * IDLE_TURNS * CHECK_PERIOD_S)
        self._met_s = 0.0
        """When its executor was first heard after a silence (s)."""
        self._phase: int = RobotState.LOST
        self._left_safe = False
        """Whether it was safe when it was last heard of, perhaps before it was LOST, and was sent
        nothing since."""
        self.halted = self.inactive = False
        """Whether it takes no segments until it is released, or its executor is activated."""
        self.found = ''
        """The plan of another planner that the robot had when it was met; '' for none."""
        self._server_seen = False
        self._begun_s = time.monotonic()
        self._sent: set[_Sent] = set()
        self._stopping: set[_Sent] = set()

    # What is known of the robot

    @property
    def busy(self) -> bool:
        """Whether anything that was sent to it waits for its end."""
        return bool(self._sent or self._stopping)

    @property
    def silent(self) -> bool:
        """Whether its executor has given no sign of life for too long."""
        return self._silence.look() > self.silence_limit_s + self._rest_s

    @property
    def _rest_s(self) -> float:
        """How much longer its executor may be silent because the robot rests (s)."""
        return REST_PERIOD_S if self._phase in (RobotState.IDLE, RobotState.SAFE) else 0.0

    @property
    def phase(self) -> int:
        """``RobotState`` phase, LOST where its executor is silent."""
        lost: int = RobotState.LOST
        return lost if self.silent else self._phase

    @property
    def available(self) -> bool:
        """Whether its executor gives signs of life and takes segments."""
        if self.silent:
            self._server_seen = False
            return False
        if not self._server_seen:
            # What a dead executor leaves behind in the graph may make the live one's action seem
            # unready for ever (rmw_fastrtps wants as many request readers as response writers).
            if self._client is None:
                return False
            ready: bool = self._client.server_is_ready()
            self._server_seen = ready or time.monotonic() - self._met_s > FOUND_S
        return self._server_seen and self._phase != RobotState.LOST

    @property
    def unmet(self) -> bool:
        """Whether its executor may be there and only not be met yet."""
        if self._executor:
            return not (self.silent or self._server_seen or self._phase == RobotState.LOST)
        return time.monotonic() - self._begun_s < MEET_S

    def check(self) -> None:
        """Hear the executor, and give up what is under way if it is lost; called regularly."""
        for message, executor in self._states.take():
            self._on_state(message, executor)
        if self.silent:
            self._give_up(f'no sign of life for {self.silence_limit_s + self._rest_s:g} s')

    def _give_up(self, problem: str) -> None:
        if self._sent or self._stopping:
            _logger.error('robot %s: %s: lost', self.robot, problem)
        for sent in (*self._sent, *self._stopping):
            self._fail(sent, problem)
            self._ros.call(self._forget, sent)

    def _on_state(self, message: RobotState, executor: bytes) -> None:
        if executor != self._executor or not executor:
            if self._silence.look() < NEWCOMER_S + self._rest_s:
                self._states.report(executor, f'the executor {self._executor.hex()}')
                return
            if not executor or not self._meet(message.action):
                wanted = f'an action by its full name, not {message.action[:80]!r}, and an epoch'
                self._states.report(executor, wanted)
                return
            self._give_up('its executor was started anew')
            self._executor, self.found = executor, ''
            if any(message.plan_id.uuid):
                plan, segment = uuid_text(message.plan_id), message.segment
                self.found = f'plan {plan}, segment {segment}, of an earlier planner'
                _logger.warning('robot %s: %s', self.robot, self.found)
        elif self.silent:
            self._meet(message.action)
        self._silence.heard()
        self._phase = message.phase
        self.halted, self.inactive = message.halted, message.inactive
        if message.phase == RobotState.SAFE:
            self._left_safe = True
        elif message.phase != RobotState.LOST:
            self._left_safe = False
        elif self._left_safe:
            # It went down in order: nobody is there to be asked, nor need be.
            for stopping in tuple(self._stopping):
                self._end(stopping, SegmentOutcome(0))
                self._ros.call(self._forget, stopping)

    def _meet(self, action: str) -> bool:
        """Reach its executor by that action from now on; return whether there can be such a one."""
        try:
            validate_full_topic_name(action)
            # The longest of the names that it stands for.
            validate_full_topic_name(f'{action}/_action/cancel_goal')
        except (NameValidationException, ValueError):
            return False
        self._met_s, self._server_seen, self._client = time.monotonic(), False, None
        self._ros.make(self._make_client, action)
        return True

    def _lost(self, problem: str) -> RobotUnavailableError:
        return RobotUnavailableError(f'robot {self.robot!r}: {problem}, expected its executor')

    # Segments

    async def execute(
        self, timed: TimedSegment, on_progress: Callable[[SegmentProgress], None]
    ) -> SegmentOutcome:
        """Run one segment, see ``RobotLink``; ``skill_segments`` shows it in any case."""
        message = self._message(timed)
        if not self.available:
            self._segments.publish(message)
            raise self._lost('no sign of life')
        self._left_safe = False
        segment = timed.segment
        sent = _Sent(
            self._ros.loop.create_future(), on_progress, segment.index, segment.awaits_value
        )
        self._sent.add(sent)
        self._ros.call(self._send, sent, ExecuteSegment.Goal(segment=message))
        # The robot first, then those who watch.
        self._ros.call(self._segments.publish, message)
        unanswered = self._ros.loop.call_later(ANSWER_S, self._unanswered, sent)
        try:
            try:
                return await asyncio.shield(sent.outcome)
            except asyncio.CancelledError:
                self._ros.call(self._cancel, sent)
                await asyncio.wait({sent.outcome})
                raise
        finally:
            unanswered.cancel()
            self._sent.discard(sent)
            if sent.outcome.done() and not sent.outcome.cancelled():
                # Looked at: an error after a cancel is nobody's.
                sent.outcome.exception()

    def _message(self, timed: TimedSegment) -> SkillSegment:
        message = segment_message(timed, robot=self.robot, skill_set=self.skill_set)
        # The stamp says when its closing token was known, not when it came here; on a simulated
        # clock, which may stand at 0, nobody can say.
        age_s = max(0.0, time.monotonic() - timed.token_at_s)
        clock = self._node.get_clock()
        age = Duration(seconds=0.0 if clock.ros_time_is_active else age_s)
        message.header.stamp = (clock.now() - age).to_msg()
        return message

    async def stop(self) -> None:
        """Bring the robot to its safe action; see ``RobotLink``."""
        if self._left_safe and self.phase == RobotState.LOST:
            return
        if self.silent:
            raise self._lost('no sign of life')
        stop = _Sent(self._ros.loop.create_future())
        self._stopping.add(stop)
        goal = ExecuteSegment.Goal(segment=SkillSegment(robot=self.robot), stop=True)
        self._ros.call(self._send, stop, goal)
        try:
            outcome = await stop.outcome
        finally:
            self._stopping.discard(stop)
        if not outcome.succeeded:
            raise self._lost(f'safe action: {outcome.ending.message}')

    # On the ROS thread

    def _make_client(self, action: str) -> None:
        self._client = self._client_of(action)

    def _send(self, sent: _Sent, goal: ExecuteSegment.Goal) -> None:
        goal.planner, goal.executor = self._heartbeat.gid, self._executor
        if self._client is None:
            self._ros.call_loop(self._fail, sent, 'no client of its action')
            return
        sent.client = self._client
        response = sent.client.send_goal_async(
            goal,
            feedback_callback=partial(self._on_feedback, sent),
            goal_uuid=UUID(uuid=list(uuid.uuid4().bytes)),
        )
        response.add_done_callback(partial(self._on_response, sent))

    def _on_response(self, sent: _Sent, response: Any) -> None:
        goal = response.result()
        if not goal.accepted:
            self._ros.call_loop(self._fail, sent, 'its executor takes no segments')
            return
        sent.goal = goal
        goal.get_result_async().add_done_callback(partial(self._on_result, sent))
        if sent.canceling:
            goal.cancel_goal_async()

    def _on_feedback(self, sent: _Sent, message: Any) -> None:
        progress = progress_record(sent.index, message.feedback)
        self._ros.call_loop(self._progress, sent, progress)

    def _on_result(self, sent: _Sent, response: Any) -> None:
        outcome = outcome_record(
            sent.index, response.result().result, awaits_value=sent.awaits_value
        )
        self._ros.call_loop(self._end, sent, outcome)

    def _cancel(self, sent: _Sent) -> None:
        sent.canceling = True
        if sent.goal is not None:
            sent.goal.cancel_goal_async()

    def _forget(self, sent: _Sent) -> None:
        if sent.goal is not None and sent.client is not None:
            sent.client.forget(sent.goal.goal_id)

    # On the loop's thread

    def _progress(self, sent: _Sent, progress: SegmentProgress) -> None:
        if not sent.outcome.done():
            sent.on_progress(progress)

    def _end(self, sent: _Sent, outcome: SegmentOutcome) -> None:
        if not sent.outcome.done():
            sent.outcome.set_result(outcome)

    def _unanswered(self, sent: _Sent) -> None:
        if sent.goal is None:
            self._fail(sent, f'no answer to a segment for {ANSWER_S:g} s')
            # Should it come after all, it is not executed.
            self._ros.call(self._cancel, sent)

    def _fail(self, sent: _Sent, problem: str) -> None:
        if not sent.outcome.done():
            sent.outcome.set_exception(self._lost(problem))


def robot_links(
    node: Node,
    ros: RosThread,
    catalogue: Catalogue,
    heartbeat: SolePublisher,
    silence_limit_s: float,
) -> dict[str, RosRobotLink]:
    """Return the links to all robots of a catalogue, by robot; see :class:`RosRobotLink`."""
    client_of = cache(partial(GoalClient, node, ExecuteSegment))
    return {
        robot: RosRobotLink(
            node, ros, client_of, robot, catalogue.skill_sets[name], heartbeat, silence_limit_s
        )
        for robot, name in catalogue.skill_set_of.items()
    }


async def hear(links: Iterable[RosRobotLink]) -> None:
    """Hear robots, which need not know of it, until cancelled."""
    links = tuple(links)
    while True:
        for link in links:
            link.check()
        await asyncio.sleep(CHECK_PERIOD_S)
