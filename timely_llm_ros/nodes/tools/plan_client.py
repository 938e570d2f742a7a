"""A program that sends tasks to a planner for another program: JSON lines in, JSON lines out.

A line in is a task (see ``task_json.goal_of``) with a ``key`` of the caller's, or
``{"cancel": key}``. A line out has an ``event``:

* ``found``: the planner's action server is there; while it loads its model, it has no heartbeat;
  ``ready``: its heartbeat is heard, and every robot that is watched is there;
  ``lost``: the planner's heartbeat stopped;
* ``accepted``, ``rejected`` (with ``error``), ``feedback``, ``result``: of the task with ``key``;
* with ``--watch``, everything that ``fleet_view.FleetView`` tells.

The program ends when its input does, after it has cancelled the tasks that have not ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from std_msgs.msg import Header
from unique_identifier_msgs.msg import UUID

from timely_llm_ros.action import PlanTask
from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.msg import TaskEvent
from timely_llm_ros.nodes.tools.fleet_view import FleetView
from timely_llm_ros.ros import (
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    TASK_EVENTS_TOPIC,
    GoalClient,
    run,
)
from timely_llm_ros.ros.conversions import feedback_json, goal_of, result_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.ros import RosThread

    Emit = Callable[[dict[str, Any]], None]

SILENCE_S = 3.0
"""How long a planner that was heard may be silent until it counts as gone (s)."""

CHECK_PERIOD_S = 0.1

REASON_LIMIT_S = 3.0
"""How long the reason of a rejection, which comes on a topic, is waited for (s)."""

CANCEL_LIMIT_S = 8.0
"""How long the end waits for tasks that it cancelled (s)."""


@dataclass(frozen=True, slots=True)
class _Rejected:
    """A rejected task: it is told when its reason comes, or without one at ``told_by_s``."""

    key: str
    named: tuple[str, str]
    told_by_s: float


class PlanClient:
    """Sends tasks and calls ``emit`` with what becomes of them. Used on the ROS thread only.

    The planner counts as ready once it has met all of ``robots``.
    """

    def __init__(self, node: Node, emit: Emit, robots: Sequence[str] = ()) -> None:
        self._node, self._emit = node, emit
        self._client = GoalClient(node, PlanTask, 'plan_task')
        self._open: dict[str, Any] = {}
        """What rclpy knows of each task that has not ended; None until the planner answers."""
        self._unwanted: set[str] = set()
        """Tasks that were cancelled before the planner answered."""
        self._found = self._ready = False
        self._missed = set(robots)
        self._heard_s: float | None = None
        self._reasons: dict[tuple[str, str], str] = {}
        self._rejected: list[_Rejected] = []
        # The heartbeat last: a planner that is heard then knows everything else that listens here.
        node.create_subscription(TaskEvent, TASK_EVENTS_TOPIC, self._on_event, EVENTS_QOS)
        if robots:
            node.create_subscription(DiagnosticArray, 'diagnostics', self._on_diagnostics, 10)
        node.create_subscription(Header, HEARTBEAT_TOPIC, self._on_heartbeat, HEARTBEAT_QOS)
        node.create_timer(CHECK_PERIOD_S, self._check)

    @property
    def open_tasks(self) -> int:
        """How many tasks have an end that is not told yet."""
        return len(self._open) + len(self._rejected)

    def submit(self, task: dict[str, Any]) -> None:
        """Send a task; what is wrong with it is told as ``rejected``."""
        key = str(task.get('key', ''))
        try:
            goal = goal_of(task)
        except InvalidTaskError as err:
            self._emit({'event': 'rejected', 'key': key, 'error': str(err)})
            return
        self._open[key] = None
        goal_id = UUID(uuid=list(uuid.uuid4().bytes))
        sending = self._client.send_goal_async(
            goal, feedback_callback=partial(self._on_feedback, key), goal_uuid=goal_id
        )
        sending.add_done_callback(partial(self._on_answer, key, goal))

    def cancel(self, key: str) -> None:
        """Ask for a task's end, at the latest when it is accepted; no-op if it has ended."""
        handle = self._open.get(key)
        if handle is not None:
            handle.cancel_goal_async()
        elif key in self._open:
            self._unwanted.add(key)

    def cancel_all(self) -> None:
        """Ask for the end of every task."""
        for key in tuple(self._open):
            self.cancel(key)

    def _on_answer(self, key: str, goal: PlanTask.Goal, answer: Any) -> None:
        handle = answer.result()
        if handle is None or not handle.accepted:
            self._open.pop(key, None)
            self._unwanted.discard(key)
            # As the planner repeats them.
            named = (goal.robot[:64], goal.instruction[:400])
            self._rejected.append(_Rejected(key, named, time.monotonic() + REASON_LIMIT_S))
            self._tell_rejections()
            return
        self._open[key] = handle
        plan_id = bytes(handle.goal_id.uuid).hex()
        self._emit({'event': 'accepted', 'key': key, 'plan': plan_id})
        handle.get_result_async().add_done_callback(partial(self._on_result, key))
        if key in self._unwanted:
            self._unwanted.remove(key)
            handle.cancel_goal_async()

    def _on_feedback(self, key: str, message: Any) -> None:
        self._emit({'event': 'feedback', 'key': key, **feedback_json(message.feedback)})

    def _on_result(self, key: str, answer: Any) -> None:
        if self._open.pop(key, None) is None:
            return
        response = answer.result()
        self._emit({'event': 'result', 'key': key, **result_json(response.status, response.result)})

    def _on_event(self, event: TaskEvent) -> None:
        if event.event == TaskEvent.REFUSED:
            self._reasons[event.robot, event.instruction] = event.error_msg
            self._tell_rejections()

    def _tell_rejections(self) -> None:
        """Tell those whose reason has come, or has been waited for long enough."""
        for item in tuple(self._rejected):
            reason = self._reasons.pop(item.named, None)
            if reason is None and time.monotonic() < item.told_by_s:
                continue
            self._rejected.remove(item)
            error = reason or 'refused by the planner'
            self._emit({'event': 'rejected', 'key': item.key, 'error': error})

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            _, found, robot = status.name.partition(': robot ')
            if found and status.message != 'lost':
                self._missed.discard(robot)

    def _on_heartbeat(self, _: Header) -> None:
        self._heard_s = time.monotonic()

    def _check(self) -> None:
        self._tell_rejections()
        heard = self._heard_s is not None and time.monotonic() - self._heard_s < SILENCE_S
        there = self._client.server_is_ready()
        if there and not self._found:
            self._found = True
            self._emit({'event': 'found'})
        ready = heard and not self._missed and there
        if ready and not self._ready:
            self._ready = True
            self._emit({'event': 'ready'})
        elif self._ready and not heard:
            self._ready = False
            self._open.clear()
            self._unwanted.clear()
            self._emit({'event': 'lost'})


async def _serve(ros: RosThread, stop: asyncio.Event, robots: Sequence[str]) -> int:
    node = Node('plan_client')
    if robots:
        # Before the client, so that it listens once the planner is ready.
        FleetView(node, _emit, robots)
    client = PlanClient(node, _emit, robots)
    ros.start(node)
    reader = asyncio.StreamReader(limit=1 << 22)
    await ros.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    reading = asyncio.create_task(_read(reader, ros, client))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    reading.cancel()
    stopping.cancel()
    ros.call(client.cancel_all)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CANCEL_LIMIT_S):
            while client.open_tasks:
                await asyncio.sleep(0.02)
    return 0


async def _read(reader: asyncio.StreamReader, ros: RosThread, client: PlanClient) -> None:
    while line := await reader.readline():
        try:
            command = json.loads(line)
        except ValueError as err:
            print(f'plan_client: {line[:80]!r}: expected a line of JSON: {err}', file=sys.stderr)
            continue
        if not isinstance(command, dict):
            print(f'plan_client: {line[:80]!r}: expected a JSON object', file=sys.stderr)
        elif 'cancel' in command:
            ros.call(client.cancel, str(command['cancel']))
        else:
            ros.call(client.submit, command)


def _emit(event: dict[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(event) + '\n')
        sys.stdout.flush()
    except BrokenPipeError:
        # The program that listened is gone; our input ends too, and that ends us.
        return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until the input ends; return the exit code."""
    given = sys.argv if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument('--watch', nargs='*', default=[], help='robots to tell everything about')
    options = parser.parse_args(remove_ros_args(list(given))[1:])
    return run('plan_client', given, lambda ros, stop: _serve(ros, stop, options.watch))


if __name__ == '__main__':
    sys.exit(main())
