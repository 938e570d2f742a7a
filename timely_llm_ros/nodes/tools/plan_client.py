"""A program that sends tasks to a planner for another program: JSON lines in, JSON lines out.

A line in is a task (see ``task_json.goal_of``) with a ``key`` of the caller's, or
``{"cancel": key}``. A line out has an ``event``:

* ``found``: the planner's action server is there; while it loads its model, it has no heartbeat;
  ``ready``: its heartbeat is heard, and every robot that is watched is there;
* ``lost``: the planner died, with ``error``, and ``key`` where a task died with it;
* ``accepted``, ``rejected`` (with ``error``), ``feedback``, ``result``: of the task with ``key``;
* with ``--watch``, everything that ``nodes.fleet.FleetView`` tells.

The program ends when its input does, after it has cancelled the tasks that have not ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from timely_llm_ros.errors import InvalidTaskError, PlannerLostError
from timely_llm_ros.nodes.fleet import FleetView
from timely_llm_ros.ros import TaskClient, create_steady_timer, run
from timely_llm_ros.ros.conversions import feedback_json, goal_of, result_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.ros import RosThread, SentTask

    Emit = Callable[[dict[str, Any]], None]

CHECK_PERIOD_S = 0.1

CANCEL_LIMIT_S = 8.0
"""How long the end waits for tasks that it cancelled (s)."""


class PlanClient:
    """Sends tasks and calls ``emit`` with what becomes of them. Used on the ROS thread only.

    The planner counts as ready once it has met all of ``robots``.
    """

    def __init__(self, node: Node, emit: Emit, robots: Sequence[str] = ()) -> None:
        self._emit = emit
        self._open: dict[str, SentTask] = {}
        self._found = self._ready = False
        self._missed = set(robots)
        if robots:
            node.create_subscription(DiagnosticArray, 'diagnostics', self._on_diagnostics, 10)
        self._client = TaskClient(node)
        create_steady_timer(node, CHECK_PERIOD_S, self._check)

    @property
    def open_tasks(self) -> int:
        """How many tasks have an end that is not told yet."""
        return len(self._open)

    def submit(self, task: dict[str, Any]) -> None:
        """Send a task; what is wrong with it is told as ``rejected``."""
        key = str(task.get('key', ''))
        try:
            goal = goal_of(task)
        except InvalidTaskError as err:
            self._emit({'event': 'rejected', 'key': key, 'error': str(err)})
            return
        sent = self._open[key] = self._client.send(goal, partial(self._on_feedback, key))
        sent.accepted.add_done_callback(partial(self._on_accepted, key))
        sent.result.add_done_callback(partial(self._on_result, key))

    def cancel(self, key: str) -> None:
        """Ask for a task's end, at the latest when it is accepted; no-op if it has ended."""
        if key in self._open:
            self._open[key].cancel()

    def cancel_all(self) -> None:
        """Ask for the end of every task."""
        # One that no planner was met for ends at once.
        for sent in tuple(self._open.values()):
            sent.cancel()

    def _on_accepted(self, key: str, accepted: Any) -> None:
        if accepted.exception() is None:
            self._emit({'event': 'accepted', 'key': key, 'plan': accepted.result()})

    def _on_feedback(self, key: str, feedback: Any) -> None:
        self._emit({'event': 'feedback', 'key': key, **feedback_json(feedback)})

    def _on_result(self, key: str, answer: Any) -> None:
        self._open.pop(key, None)
        error = answer.exception()
        if isinstance(error, PlannerLostError):
            self._emit({'event': 'lost', 'key': key, 'error': str(error)})
        elif error is not None:
            self._emit({'event': 'rejected', 'key': key, 'error': str(error)})
        else:
            end = answer.result()
            self._emit({'event': 'result', 'key': key, **result_json(end.status, end.result)})

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            _, found, robot = status.name.partition(': robot ')
            if found and status.message != 'lost':
                self._missed.discard(robot)

    def _check(self) -> None:
        if self._client.found and not self._found:
            self._found = True
            self._emit({'event': 'found'})
        ready = self._client.ready and not self._missed
        if ready and not self._ready:
            self._ready = True
            self._emit({'event': 'ready'})
        elif self._ready and not self._client.ready:
            self._ready = False
            self._emit({'event': 'lost', 'key': '', 'error': 'the planner fell silent'})


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
