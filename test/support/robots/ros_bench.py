"""A robot with ROS interfaces without ROS: generated classes, and servers in this process."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.ros import Endpoint, GoalEnding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from timely_llm_ros.drivers.ros import GoalRun

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6

_DEFAULTS: dict[str, Any] = {'string': '', 'boolean': False, 'double': 0.0, 'float': 0.0}


def message(package: str, word: str, fields: dict[str, str], **constants: int) -> Any:
    """Return a class as rosidl generates it, with these fields and constants."""

    def init(self: Any, **given: Any) -> None:
        for name, kind in fields.items():
            if name in given:
                value = given[name]
            elif '<' in kind or '[' in kind:
                value = '' if kind.startswith('string') else []
            elif '/' in kind:
                inner, _, last = kind.partition('/')
                value = getattr(sys.modules[f'{inner}.msg'], last)()
            else:
                value = _DEFAULTS.get(kind, 0)
            setattr(self, name, value)

    kind = type(f'Metaclass_{word}', (type,), dict(constants))
    body = {
        '__init__': init,
        '__module__': f'{package}.msg',
        'get_fields_and_field_types': classmethod(lambda cls: dict(fields)),
    }
    return kind(word, (), body)


def _group(package: str, word: str, **parts: Any) -> Any:
    made = {
        part: message(package, f'{word}_{part}', *given) if isinstance(given, tuple) else given
        for part, given in parts.items()
    }
    return type(word, (), made)


def install(patch: pytest.MonkeyPatch) -> None:
    """Make packages importable as if they had been generated, until the end of the test."""
    messages = {
        'builtin_interfaces': {
            'Duration': {'sec': 'int32', 'nanosec': 'uint32'},
            'Time': {'sec': 'int32', 'nanosec': 'uint32'},
        },
        'std_msgs': {'Header': {'stamp': 'builtin_interfaces/Time', 'frame_id': 'string'}},
        'geometry_msgs': {
            'Point': {'x': 'double', 'y': 'double', 'z': 'double'},
            'Vector3': {'x': 'double', 'y': 'double', 'z': 'double'},
            'Quaternion': {'x': 'double', 'y': 'double', 'z': 'double', 'w': 'double'},
            'Pose': {'position': 'geometry_msgs/Point', 'orientation': 'geometry_msgs/Quaternion'},
            'PoseStamped': {'header': 'std_msgs/Header', 'pose': 'geometry_msgs/Pose'},
            'Twist': {'linear': 'geometry_msgs/Vector3', 'angular': 'geometry_msgs/Vector3'},
        },
        'bot_msgs': {
            'Everything': {
                'flag': 'boolean',
                'small': 'uint8',
                'large': 'int64',
                'length': 'double',
                'word': 'string',
                'short': 'string<4>',
                'raw': 'octet',
                'many': 'sequence<double>',
                'three': 'double[3]',
                'few': 'sequence<string, 2>',
                'time': 'builtin_interfaces/Duration',
                'point': 'geometry_msgs/Point',
                'pose': 'geometry_msgs/PoseStamped',
                'turned': 'geometry_msgs/Quaternion',
            }
        },
    }
    for package, classes in messages.items():
        module = ModuleType(f'{package}.msg')
        for word, fields in classes.items():
            setattr(module, word, message(package, word, fields))
        patch.setitem(sys.modules, package, ModuleType(package))
        patch.setitem(sys.modules, f'{package}.msg', module)
    actions, services = ModuleType('bot_msgs.action'), ModuleType('bot_msgs.srv')
    result = message(
        'bot_msgs', 'Go_Result', {'error_code': 'uint16', 'error_msg': 'string'}, WALL=7
    )
    actions.Go = _group(  # type: ignore[attr-defined]
        'bot_msgs',
        'Go',
        Goal=({'pose': 'geometry_msgs/PoseStamped', 'speed': 'double'},),
        Result=result,
        Feedback=({'left': 'builtin_interfaces/Duration'},),
    )
    services.Ask = _group(  # type: ignore[attr-defined]
        'bot_msgs',
        'Ask',
        Request=({'what': 'string'},),
        Response=({'ok': 'boolean', 'text': 'string', 'level': 'double'},),
    )
    patch.setitem(sys.modules, 'bot_msgs.action', actions)
    patch.setitem(sys.modules, 'bot_msgs.srv', services)


class Run:
    """A goal at a server of this process."""

    def __init__(self, robot: FakeRobot, endpoint: Endpoint, goal: Any) -> None:
        loop = asyncio.get_running_loop()
        self.endpoint, self.goal = endpoint, goal
        self.accepted: asyncio.Future[bool] = loop.create_future()
        self.ended: asyncio.Future[GoalEnding] = loop.create_future()
        self.heard_s = loop.time()
        self.feedback: Any = None
        self.cancelled = False
        self._robot = robot

    def accept(self, takes: bool = True) -> None:
        """Answer; a goal that was cancelled meanwhile ends."""
        self.heard_s = asyncio.get_running_loop().time()
        if not self.accepted.done():
            self.accepted.set_result(takes)
        if self.cancelled and takes:
            self.stop()

    def feed_back(self, feedback: Any) -> None:
        self.heard_s, self.feedback = asyncio.get_running_loop().time(), feedback

    def end(self, status: int = SUCCEEDED, **fields: Any) -> None:
        result = sys.modules['bot_msgs.action'].Go.Result(**fields)
        if not self.ended.done():
            self.ended.set_result(GoalEnding(status, result))

    def cancel(self) -> None:
        self.cancelled = True
        self._robot.log.append(('cancel', self.endpoint.name))
        if self.accepted.done() and not self._robot.stubborn:
            self.stop()

    def stop(self) -> None:
        asyncio.get_running_loop().call_later(0.1, self.end, CANCELED)


class FakeRobot:
    """What a robot offers, in this process.

    Attributes:
        log: What it was told, in order.
        absent: Names that nobody serves.
        silent: Names whose servers do not answer.
        refuses: Whether cancels of everything are refused.
        lost: So many of the next answers get lost.
        slow_s: After so long answers come (s).
        stubborn: Whether a goal that is cancelled goes on.
        on_goal: Says what becomes of a goal.
        answer: What services answer: the fields of the response.
        runs: The goals so far.
    """

    def __init__(self, on_goal: Callable[[Run], object] = lambda run: run.accept()) -> None:
        self.log: list[tuple[str, str]] = []
        self.sent: list[Any] = []
        self.absent: set[str] = set()
        self.silent: set[str] = set()
        self.refuses = self.stubborn = False
        self.lost = 0
        self.slow_s = 0.0
        self.on_goal = on_goal
        self.answer: dict[str, Any] = {'ok': True}
        self.runs: list[Run] = []
        self._endpoints: tuple[Endpoint, ...] = ()

    async def open(self, endpoints: Iterable[Endpoint], cancelled: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(dict.fromkeys([*endpoints, *cancelled]))

    async def close(self) -> None:
        self._endpoints = ()

    def missing(self) -> str | None:
        gone = [one for one in self._endpoints if one.name in self.absent]
        return f'{gone[0].where}: {gone[0]}: no server' if gone else None

    def send_goal(self, endpoint: Endpoint, goal: Any) -> GoalRun:
        self.log.append(('goal', endpoint.name))
        run = Run(self, endpoint, goal)
        self.runs.append(run)
        if endpoint.name not in self.silent:
            self.on_goal(run)
        return run

    def ask(self, endpoint: Endpoint, request: Any) -> asyncio.Future[Any]:
        self.log.append(('ask', endpoint.name))
        self.sent.append(request)
        return self._answered(endpoint, sys.modules['bot_msgs.srv'].Ask.Response(**self.answer))

    def cancel_goals(self, endpoint: Endpoint) -> asyncio.Future[bool]:
        self.log.append(('cancel all', endpoint.name))
        return self._answered(endpoint, not self.refuses)

    def publish(self, endpoint: Endpoint, message: Any) -> None:
        self.log.append(('publish', endpoint.name))
        self.sent.append(message)

    def _answered(self, endpoint: Endpoint, answer: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.lost:
            self.lost -= 1
        elif endpoint.name in self.silent | self.absent:
            pass
        elif self.slow_s:
            asyncio.get_running_loop().call_later(self.slow_s, _answer, future, answer)
        else:
            future.set_result(answer)
        return future


def _answer(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.cancelled():
        future.set_result(answer)
