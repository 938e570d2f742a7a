"""An action server whose goals end when the program says so, without a coroutine that waits."""

from __future__ import annotations

import logging
import threading
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

RESULTS_KEPT, UNASKED_KEPT = 50, 256
"""Most results that are kept, and while nobody has asked for the oldest. Each is in every status
message, which every client reads."""

OTHERS_KEPT = 256
"""Goals for other servers of the name that are remembered."""

MEET_LIMIT_S = 0.5
"""How long a goal waits until its client is discovered whole (s)."""

MEET_PERIOD_S = 0.02
"""How often it is looked for meanwhile (s)."""

ASKED_WITHIN_S, UNASKED_S = 2, 10
"""Results are kept that long whatever their number, for clients that are about to ask (s), and so
long while nobody has: a client whose machine is busy asks late."""


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
        self._keeping = threading.Lock()
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
        self._ended: deque[tuple[int, bytes]] = deque()
        """When goals ended, by the clock of the results' ages (ns), and their ids."""
        self._asked: set[bytes] = set()
        """Goals whose result somebody has asked for."""
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
            if 'result' in taken_data:
                # Of goals that are there alone: anybody may ask for any.
                asked = {bytes(taken_data['result'][1].goal_id.uuid)}
                self._asked |= asked & self._goal_handles.keys()
            if 'goal' in taken_data and not self._hears(taken_data['goal'][1].goal):
                with self._keeping:
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
        with self._keeping:
            while early and (early[0][0] < before_s or self._hears(early[0][1][1].goal)):
                self._node.executor.create_task(self._serve, {'goal': early.popleft()[1]})
            if not early:
                self._meeting.cancel()

    def drop_early(self, which: Callable[[Any], bool]) -> None:
        """Forget such goals that wait for their client, without an answer; from any thread."""
        with self._keeping:
            for early in tuple(self._early):
                if which(early[1][1].goal):
                    self._early.remove(early)

    async def _serve(self, taken_data: dict[str, Any]) -> None:
        await super().execute(taken_data)

    def notify_execute(self, goal_handle: ServerGoalHandle, execute_callback: object) -> None:
        """Do nothing: the goal's execution is not rclpy's."""

    def finish(self, goal: ServerGoalHandle, result: object, *, succeeded: bool) -> None:
        """End a goal: SUCCEEDED, CANCELED if a client asked for that, or ABORTED."""
        if not goal.is_active:
            return
        ended_ns = self._ages.set()
        if succeeded:
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        super().notify_execute(goal, lambda _: result)
        self._ended.append((ended_ns, bytes(goal.goal_id.uuid)))

    def destroy(self) -> None:
        """End the server and what belongs to it."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_timer(self._meeting)
        super().destroy()

    def _forget(self) -> None:
        """Drop results that are too old, and the oldest of too many."""
        ended = self._ended
        at_ns = now_ns = self._ages.set()
        while len(ended) > RESULTS_KEPT and self._is_old(now_ns, *ended[0]):
            # Later than it is, by what makes the oldest too old.
            at_ns = max(at_ns, ended.popleft()[0] + self._timeout_ns + 1)
        while ended and ended[0][0] + self._timeout_ns < at_ns:
            ended.popleft()
        self._ages.set(at_ns)
        # rclpy raises where it may tell of none.
        for goal in self._handle.expire_goals(len(self._goal_handles) or 1):
            goal_id = bytes(goal.goal_id.uuid)
            self._asked.discard(goal_id)
            self._goal_handles.pop(goal_id).destroy()
            self.remove_future(self._result_futures.pop(goal_id))
        self._ages.set()

    def _is_old(self, now_ns: int, ended_ns: int, goal_id: bytes) -> bool:
        """Return whether a result may go because there are too many."""
        unasked = goal_id not in self._asked and len(self._ended) <= UNASKED_KEPT
        kept_s = UNASKED_S if unasked else ASKED_WITHIN_S
        return ended_ns < now_ns - kept_s * 10**9


class _Ages:
    """A node with a clock of its own, by which results grow old: it can be set forward for a while.

    rclpy drops results by age alone, as told by the clock of the node.
    """

    def __init__(self, node: Node) -> None:
        self._of = node
        self._clock = ROSClock()
        self._clock._set_ros_time_is_active(True)  # noqa: SLF001 (rclpy has no public way)
        self.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def get_clock(self) -> ROSClock:
        return self._clock

    def set(self, at_least_ns: int = 0) -> int:
        """Set the clock to the present time, or later; return it (ns)."""
        now_ns = max(time.monotonic_ns(), at_least_ns)
        now = Time(nanoseconds=now_ns, clock_type=ClockType.ROS_TIME)
        self._clock.set_ros_time_override(now)
        return now_ns


def _is_among(endpoints: Iterable[Any], client: bytes) -> bool:
    return any(same_program(bytes(one.endpoint_gid), client) for one in endpoints)


def _never(_: ServerGoalHandle) -> None:
    raise AssertionError('goals are ended by finish()')
