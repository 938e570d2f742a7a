"""An action server whose goals end when the program says so, without a coroutine that waits."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.clock import ClockType, ROSClock
from rclpy.time import Time

from timely_llm_ros.ros.sole_publisher import same_program
from timely_llm_ros.ros.steady_timer import create_steady_timer
from timely_llm_ros.ros.topics import FEEDBACK_QOS, GOALS_QOS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rclpy.action import GoalResponse
    from rclpy.action.server import ServerGoalHandle
    from rclpy.node import Node

_logger = logging.getLogger(__name__)

RESULTS_KEPT = 50
"""Most results that are kept. Each is in every status message, which every client reads."""

OTHERS_KEPT = 256
"""Goals for other servers of the name that are remembered."""

MEET_LIMIT_S = 0.5
"""How long a goal waits until its client is discovered whole (s)."""

MEET_PERIOD_S = 0.02
"""How often it is looked for meanwhile (s)."""

ASKED_WITHIN_S = 2
"""Results are kept that long whatever their number, for clients that are about to ask (s)."""


class DeferredActionServer(ActionServer):  # type: ignore[misc]
    """Accepted goals are executing at once; ``finish`` ends them. Used on the ROS thread only.

    rclpy's own way, a callback that returns the result, would need a coroutine per goal, which
    its executors poll. No callback may wait.

    Args:
        node: The node.
        action_type: The generated action.
        name: Relative name.
        on_goal: Says whether to accept a goal.
        on_accepted: Takes an accepted goal, whose status is EXECUTING by then.
        on_cancel: Told that a client wants a goal cancelled, which is always accepted.
        is_addressed: Says whether a goal is for this server; others get no answer from it.
        client_of: Says who sent a goal, by the GID of any publisher of that program; b'' if that is
            not known.
        result_timeout_s: How long a result is kept (s), unless ``RESULTS_KEPT`` are newer.
    """

    def __init__(
        self,
        node: Node,
        action_type: Any,
        name: str,
        *,
        on_goal: Callable[[Any], GoalResponse],
        on_accepted: Callable[[ServerGoalHandle], None],
        on_cancel: Callable[[ServerGoalHandle], None],
        result_timeout_s: int,
        is_addressed: Callable[[Any], bool] = lambda _: True,
        client_of: Callable[[Any], bytes] = lambda _: b'',
    ) -> None:
        self._name, self._is_addressed, self._client_of = name, is_addressed, client_of
        self._met = b''
        """The client that was last seen to be discovered whole."""
        self._early: deque[tuple[float, Any]] = deque()
        """Goals of a client that is not, and when each came (s)."""
        self._others: deque[bytes] = deque(maxlen=OTHERS_KEPT)
        """Ids of goals that are for another server of the name."""

        def accept(goal: ServerGoalHandle) -> None:
            goal.execute()
            on_accepted(goal)

        def cancel(goal: ServerGoalHandle) -> CancelResponse:
            on_cancel(goal)
            return CancelResponse.ACCEPT

        self._ages = _Ages(node)
        self._timeout_ns = result_timeout_s * 10**9
        self._ended: deque[tuple[int, int]] = deque()
        """When the goals ended (ns), by the clock of the results' ages and really."""
        super().__init__(
            self._ages,
            action_type,
            name,
            execute_callback=_never,
            goal_callback=on_goal,
            handle_accepted_callback=accept,
            cancel_callback=cancel,
            goal_service_qos_profile=GOALS_QOS,
            result_service_qos_profile=GOALS_QOS,
            cancel_service_qos_profile=GOALS_QOS,
            feedback_pub_qos_profile=FEEDBACK_QOS,
            result_timeout=result_timeout_s,
        )
        # Goals are stamped by the node's own clock.
        self._node = node
        self._timer = create_steady_timer(node, ASKED_WITHIN_S / 2, self._forget)
        self._meeting = create_steady_timer(node, MEET_PERIOD_S, self._serve_early)
        self._meeting.cancel()

    async def execute(self, taken_data: Any) -> None:
        """Serve what has arrived; a fault is logged, for rclpy's executor would die of it."""
        try:
            self._drop_others(taken_data)
            if 'goal' in taken_data and not self._hears(taken_data['goal'][1].goal):
                self._early.append((time.monotonic(), taken_data.pop('goal')))
                self._meeting.reset()
            await super().execute(taken_data)
        except Exception:
            _logger.exception('action %s', self._name)

    def _drop_others(self, taken_data: dict[str, Any]) -> None:
        """Give no answer to what is asked of another server, whose answer would come second."""
        if 'goal' in taken_data and not self._is_addressed(taken_data['goal'][1].goal):
            self._others.append(bytes(taken_data.pop('goal')[1].goal_id.uuid))
        if 'result' in taken_data and bytes(taken_data['result'][1].goal_id.uuid) in self._others:
            del taken_data['result']
        if 'cancel' in taken_data:
            asked = taken_data['cancel'][1].goal_info.goal_id
            if bytes(asked.uuid) in self._others:
                del taken_data['cancel']

    def _hears(self, goal: Any) -> bool:
        """Return whether an answer reaches who sent a goal, as far as the graph tells.

        rmw_fastrtps loses the answer to a client whose readers it has not discovered. It waits for
        them for 0.1 s first, and lets no other thread of this program run meanwhile: two such
        answers in a row looked like a worker that hangs.
        """
        client = self._client_of(goal)
        if not client or client == self._met:
            return True
        service = f'{self._node.resolve_service_name(self._name)}/_action/'
        readers = (f'rr{service}{kind}Reply' for kind in ('send_goal', 'get_result', 'cancel_goal'))
        asked = f'rq{service}send_goalRequest'
        # With another middleware, or where a GID is not told, there is nothing to be seen.
        whole = all(
            _is_among(self._node.get_subscriptions_info_by_topic(name, no_mangle=True), client)
            for name in readers
        ) or not _is_among(self._node.get_publishers_info_by_topic(asked, no_mangle=True), client)
        if whole:
            self._met = client
        return whole

    def _serve_early(self) -> None:
        """Serve goals whose client is discovered by now, or has been waited for long enough."""
        before_s, early = time.monotonic() - MEET_LIMIT_S, self._early
        while early and (early[0][0] < before_s or self._hears(early[0][1][1].goal)):
            self._node.executor.create_task(self._serve, {'goal': early.popleft()[1]})
        if not self._early:
            self._meeting.cancel()

    def drop_early(self) -> None:
        """Forget goals that wait for their client, without an answer; from any thread."""
        self._early = deque()

    async def _serve(self, taken_data: dict[str, Any]) -> None:
        await super().execute(taken_data)

    def notify_execute(self, goal_handle: ServerGoalHandle, execute_callback: object) -> None:
        """Do nothing: the goal's execution is not rclpy's."""

    def finish(self, goal: ServerGoalHandle, result: object, *, succeeded: bool) -> None:
        """End a goal: SUCCEEDED, CANCELED if a client asked for that, or ABORTED."""
        if not goal.is_active:
            return
        self._ages.advance()
        if succeeded:
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        super().notify_execute(goal, lambda _: result)
        self._ended.append((self._ages.now_ns, time.monotonic_ns()))

    def destroy(self) -> None:
        """End the server and what belongs to it."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_timer(self._meeting)
        super().destroy()

    def _forget(self) -> None:
        """Drop results that are too old, and the oldest of too many."""
        ended = self._ended
        self._ages.advance()
        asked_ns = time.monotonic_ns() - ASKED_WITHIN_S * 10**9
        while len(ended) > RESULTS_KEPT and ended[0][1] < asked_ns:
            # Later than it is, by what makes the oldest too old.
            self._ages.advance(ended.popleft()[0] + self._timeout_ns + 1)
        while ended and ended[0][0] + self._timeout_ns < self._ages.now_ns:
            ended.popleft()
        # rclpy raises where it may tell of none.
        for goal in self._handle.expire_goals(len(self._goal_handles) or 1):
            goal_id = bytes(goal.goal_id.uuid)
            self._goal_handles.pop(goal_id).destroy()
            self.remove_future(self._result_futures.pop(goal_id))


class _Ages:
    """A node with a clock of its own, by which results grow old: it can be set forward.

    rclpy drops results by age alone, as told by the clock of the node.
    """

    def __init__(self, node: Node) -> None:
        self._of = node
        self._clock = ROSClock()
        self._clock._set_ros_time_is_active(True)  # noqa: SLF001 (rclpy has no public way)
        self._ahead_ns = self.now_ns = 0
        self.advance()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def get_clock(self) -> ROSClock:
        return self._clock

    def advance(self, at_least_ns: int = 0) -> None:
        """Set the clock to the present time, or later."""
        real_ns = time.monotonic_ns()
        self._ahead_ns = max(self._ahead_ns, at_least_ns - real_ns)
        self.now_ns = real_ns + self._ahead_ns
        now = Time(nanoseconds=self.now_ns, clock_type=ClockType.ROS_TIME)
        self._clock.set_ros_time_override(now)


def _is_among(endpoints: Iterable[Any], client: bytes) -> bool:
    return any(same_program(bytes(one.endpoint_gid), client) for one in endpoints)


def _never(_: ServerGoalHandle) -> None:
    raise AssertionError('goals are ended by finish()')
