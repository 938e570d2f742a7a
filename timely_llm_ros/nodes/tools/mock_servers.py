"""Mocks of what a robot offers: the actions, services and topics that a calls file names.

``python -m timely_llm_ros.nodes.tools.mock_servers --help`` tells how to run it.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import rclpy
from action_msgs.msg import GoalStatus
from rclpy.action import GoalResponse
from rclpy.node import Node

from timely_llm_ros.command_line import add_namespace, make_parser, run_command
from timely_llm_ros.drivers.ros import RosOptions, find_type, read_calls
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.tools.mock_program import open_record, serve_commands
from timely_llm_ros.ros import DeferredActionServer, create_steady_timer
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from rclpy.action.server import ServerGoalHandle

    from timely_llm_ros.drivers.ros import Request

_EXAMPLES = """\
examples:
  python -m timely_llm_ros.nodes.tools.mock_servers --skill-set nav2 --calls nav2 --robot rover_1
  python -m timely_llm_ros.nodes.tools.mock_servers --skill-set nav2 --calls nav2 --robot rover_1 \\
      --namespace hall --seconds 5 --record rover_1.jsonl

While it runs, type what shall happen:
  seconds 2.5      goals take so long from now on
  reject, accept   reject every goal and fail every request; take them again
  abort 723 wall   abort goals at their end, with this error code and text; "succeed" ends that
  stall, go on     goals neither advance nor give feedback; they do again
  quit
"""

PERIOD_S = 0.05
"""How often goals advance and give feedback (s)."""


@dataclass(slots=True)
class _Goal:
    """A goal that is being executed."""

    handle: ServerGoalHandle
    began_s: float
    seconds: float


class _ActionServer(DeferredActionServer):
    """Tells of each request to cancel, also of one that finds no goal."""

    def __init__(self, *arguments: Any, on_cancel_request: Callable[[], None], **more: Any) -> None:
        self._on_cancel_request = on_cancel_request
        super().__init__(*arguments, on_cancel=lambda _: None, **more)

    async def execute(self, taken_data: Any) -> None:
        if 'cancel' in taken_data:
            self._on_cancel_request()
        await super().execute(taken_data)


class MockAction:
    """Serves one action as the servers of robots do: a new goal takes the place of the old one."""

    def __init__(self, servers: MockServers, request: Request) -> None:
        self._servers, self._request = servers, request
        self._type = find_type(request.endpoint.type_name)
        self._goal: _Goal | None = None
        self._server = _ActionServer(
            servers,
            self._type,
            request.endpoint.name,
            on_goal=self._on_goal,
            on_accepted=self._on_accepted,
            on_cancel_request=lambda: self._note('cancel'),
            result_timeout_s=60,
        )

    def advance(self) -> None:
        """Give feedback, and end a goal that is due."""
        goal = self._goal
        if goal is None:
            return
        if goal.handle.is_cancel_requested:
            self._end(succeeded=False)
            return
        if self._servers.stalled:
            return
        left_s = goal.began_s + goal.seconds - time.monotonic()
        if left_s <= 0:
            self._end(succeeded=self._servers.error is None)
            return
        feedback = self._type.Feedback()
        if (remaining := self._request.remaining) is not None:
            _set(feedback, remaining.names, left_s)
        goal.handle.publish_feedback(feedback)

    def _on_goal(self, goal: Any) -> GoalResponse:
        if self._servers.takes:
            return GoalResponse.ACCEPT
        self._note('rejected', goal=_plain(goal))
        return GoalResponse.REJECT

    def _on_accepted(self, handle: ServerGoalHandle) -> None:
        # Its client has been answered by now: whoever waits for this may kill the server.
        self._note('goal', goal=_plain(handle.request))
        if self._goal is not None:
            self._end(succeeded=False)
        self._goal = _Goal(handle, time.monotonic(), self._servers.seconds)

    def _end(self, *, succeeded: bool) -> None:
        goal, self._goal = self._goal, None
        if goal is None:
            return
        result = self._type.Result()
        if succeeded:
            for path, expected in self._request.success:
                _set(result, path.names, expected)
        elif self._servers.error is not None and not goal.handle.is_cancel_requested:
            code, text = self._servers.error
            fields = result.get_fields_and_field_types()
            codes = [path.names for path, _ in self._request.success if path.type.integers]
            if 'int' in fields.get('error_code', ''):
                codes.append(('error_code',))
            for names in codes:
                _set(result, names, code)
            for name, kind in fields.items():
                if kind == 'string':
                    setattr(result, name, text)
        self._server.finish(goal.handle, result, succeeded=succeeded)
        words = {
            GoalStatus.STATUS_SUCCEEDED: 'succeeded',
            GoalStatus.STATUS_CANCELED: 'canceled',
            GoalStatus.STATUS_ABORTED: 'aborted',
        }
        self._note(words[goal.handle.status])

    def _note(self, event: str, **more: Any) -> None:
        self._servers.note(event, self._request.endpoint.name, **more)


class MockServers(Node):  # type: ignore[misc]
    """Serves everything that a calls file names.

    Attributes:
        seconds: How long goals take (s).
        takes: Whether goals are accepted and requests succeed.
        error: Error code and text with which goals end; None if they succeed.
        stalled: Whether goals neither advance nor give feedback.
    """

    def __init__(
        self, requests: Sequence[Request], robot: str, namespace: str, note: Callable[..., None]
    ) -> None:
        super().__init__(f'{robot}_mock_servers', namespace=namespace)
        self._note = note
        self.seconds = 1.0
        self.takes = True
        self.error: tuple[int, str] | None = None
        self.stalled = False
        self._actions: list[MockAction] = []
        for request in requests:
            found, name = request.endpoint.type_name, request.endpoint.name
            match request.endpoint.kind:
                case 'action':
                    self._actions.append(MockAction(self, request))
                case 'service':
                    answer = partial(self._answer, request)
                    self.create_service(find_type(found), name, answer)
                case 'topic':
                    hear = partial(self._hear, name)
                    self.create_subscription(find_type(found), name, hear, 10)
        self._timer = create_steady_timer(self, PERIOD_S, self._advance)

    def note(self, event: str, name: str, **more: Any) -> None:
        """Write down what happened."""
        self._note({'t': time.monotonic(), 'event': event, 'name': name, **more})

    def obey(self, line: str) -> str:
        """Do what a line of the input asks for; return what to print."""
        word, _, rest = line.partition(' ')
        try:
            match word, rest:
                case 'seconds', seconds:
                    self.seconds = float(seconds)
                case 'reject' | 'accept', '':
                    self.takes = word == 'accept'
                case 'abort', given:
                    code, _, text = given.partition(' ')
                    self.error = (int(code or 1), text)
                case 'succeed', '':
                    self.error = None
                case 'stall', '':
                    self.stalled = True
                case 'go', 'on':
                    self.stalled = False
                case _:
                    return f'error: {line!r}: expected a command of --help'
        except ValueError:
            return f'error: {line!r}: expected a number, see --help'
        return f'ok {line}'

    def _advance(self) -> None:
        for action in self._actions:
            action.advance()

    def _answer(self, request: Request, asked: Any, response: Any) -> Any:
        self.note('request', request.endpoint.name, request=_plain(asked))
        if self.takes:
            for path, expected in request.success:
                _set(response, path.names, expected)
        return response

    def _hear(self, name: str, message: Any) -> None:
        self.note('message', name, message=_plain(message))


def _set(message: Any, names: tuple[str, ...], value: Any) -> None:
    """Set a field within a message; a number may become a Duration."""
    *way, last = names
    for name in way:
        message = getattr(message, name)
    held = getattr(message, last)
    if hasattr(held, 'nanosec'):
        held.sec, held.nanosec = int(value), int(value % 1 * 1e9)
    else:
        setattr(message, last, value)


def _plain(message: Any) -> Any:
    """Return a message as what JSON can say."""
    if hasattr(message, 'get_fields_and_field_types'):
        return {
            name: _plain(getattr(message, name)) for name in message.get_fields_and_field_types()
        }
    if isinstance(message, str | int | float):
        return message
    return [_plain(item) for item in message]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mock until ``quit``, the end of its input or Ctrl-C; return its exit code."""
    parser = make_parser(
        'python -m timely_llm_ros.nodes.tools.mock_servers',
        description='Mocks of the actions, services and topics that a calls file names.',
        examples=_EXAMPLES,
    )
    parser.add_argument('--skill-set', required=True, help="the robot's skill set, or its path")
    parser.add_argument(
        '--calls', required=True, help='the calls file, or the name of a shipped one'
    )
    parser.add_argument('--robot', required=True, help='name of the robot')
    add_namespace(parser)
    parser.add_argument(
        '--prefix',
        default=RosOptions(calls_file='').prefix,
        help='goes before names, as the option of the driver (default: %(default)s)',
    )
    parser.add_argument(
        '--seconds', type=float, default=1.0, help='how long goals take (default: 1)'
    )
    parser.add_argument('--record', default='', help='file for what happens, as JSON lines')
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(options: argparse.Namespace) -> int:
    if not 0 <= options.seconds <= 86_400:
        raise ConfigurationError(f'seconds {options.seconds!r}: expected a number from 0 to 86400')
    robot: str = options.robot
    given = RosOptions(calls_file=options.calls, prefix=options.prefix.replace('{robot}', robot))
    calls = read_calls(find_skill_set(options.skill_set), given)
    journal = open_record(options.record)
    rclpy.init(args=[])
    node = MockServers(calls.requests, robot, options.namespace, journal.note)
    node.seconds = options.seconds
    serve_commands(node, f'ready {robot}', node.obey)
    return 0


if __name__ == '__main__':
    sys.exit(main())
