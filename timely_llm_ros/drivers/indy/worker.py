"""Talks to an Indy's controller through its SDK, for a driver in another process and environment.

It speaks JSON lines over a socket that it inherits: requests ``{"id", "op", ...}``, answers
``{"id", "value"}`` or ``{"id", "error", "text"}``. When its driver is gone without a word, it stops
the arm: nobody else could in that moment.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
from neuromeka import IndyDCP3, StopCategory, indydcp3, proto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

THREADS = 4
"""Requests at once: a stop must not wait behind a question that nobody answers."""

CHANNEL_OPTIONS = (
    # The SDK's channels would wait a second and more before they try a lost link again.
    ('grpc.initial_reconnect_backoff_ms', 100),
    ('grpc.min_reconnect_backoff_ms', 100),
    ('grpc.max_reconnect_backoff_ms', 200),
    ('grpc.enable_http_proxy', 0),
)

FIELDS = ('method', 'timeout', 'metadata', 'credentials', 'wait_for_ready', 'compression')


class _Details(namedtuple('_Details', FIELDS), grpc.ClientCallDetails):  # type: ignore[misc]
    """A call's details with a limit."""


class _Limit(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Gives every call a limit: the SDK has none, and a controller that hangs would hang us."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Pass a call on with the limit."""
        values = [getattr(details, name, None) for name in FIELDS]
        values[FIELDS.index('timeout')] = self._limit_s
        return continuation(_Details(*values), request)


class Sdk:
    """The operations that the driver may ask for, by name."""

    def __init__(self) -> None:
        self._arm: Any = None
        self.operations: dict[str, Callable[..., Any]] = {
            'open': self.open,
            'status': self.status,
            'home': lambda: self._need().get_home_pos()['jpos'],
            'move_joints': self.move_joints,
            'move_line': self.move_line,
            'stop': lambda: self._need().stop_motion(StopCategory.CAT2),
            'recover': lambda: self._need().recover(),
            'tool_output': lambda port, states: self._need().set_endtool_do([(port, states)]),
            'box_output': lambda address, state: self._need().set_do([(address, state)]),
        }

    def open(self, host: str, index: int, limit_s: float) -> str:
        """Make the SDK's object; nothing is sent yet."""
        arm = IndyDCP3(host, index)
        limit = _Limit(limit_s)
        for name, ports, stub in (
            ('control', indydcp3.CONTROL_SOCKET_PORT, proto.ControlStub),
            ('device', indydcp3.DEVICE_SOCKET_PORT, proto.DeviceStub),
            ('config', indydcp3.CONFIG_SOCKET_PORT, proto.ConfigStub),
            ('rtde', indydcp3.RTDE_SOCKET_PORT, proto.RTDataExchangeStub),
        ):
            getattr(arm, f'{name}_channel').close()
            channel = grpc.insecure_channel(f'{host}:{ports[index]}', CHANNEL_OPTIONS)
            setattr(arm, f'{name}_channel', channel)
            setattr(arm, name, stub(grpc.intercept_channel(channel, limit)))
        self._arm = arm
        return str(grpc.__version__)

    def status(self) -> dict[str, Any]:
        """Return position, state and, where something is wrong, what."""
        arm = self._need()
        # The motion first: an end that is seen then has its state and position after it.
        motion, data = arm.get_motion_data(), arm.get_robot_data()
        status = {name: motion[name] for name in ('is_in_motion', 'is_target_reached')}
        status |= {name: data[name] for name in ('q', 'p')}
        status['state'] = proto.common_msgs.OpState.Name(data['op_state'])
        working = (
            proto.common_msgs.OP_IDLE, proto.common_msgs.OP_MOVING, proto.common_msgs.TRAJ_MOVING
        )  # fmt: skip
        status['ready'] = data['op_state'] in working
        if not status['ready']:
            status['violation'] = arm.get_violation_data()['violation_str']
        return status

    def move_joints(self, target: list[float], velocity: float, acceleration: float) -> Any:
        """Begin a motion to joint angles (deg) at ratios (%)."""
        return self._need().movej(target, vel_ratio=velocity, acc_ratio=acceleration)

    def move_line(self, target: list[float], velocity: float, acceleration: float) -> Any:
        """Begin a straight motion to a pose (mm, deg) at ratios (%)."""
        return self._need().movel(target, vel_ratio=velocity, acc_ratio=acceleration)

    def _need(self) -> Any:
        if self._arm is None:
            raise RuntimeError('expected "open" first')
        return self._arm

    @property
    def is_open(self) -> bool:
        """Whether there is an arm that may move."""
        return self._arm is not None


def main(arguments: Sequence[str]) -> int:
    """Serve until the socket, whose number is the only argument, is closed at the other end."""
    # A terminal's Ctrl-C is the driver's to answer; it needs this process for that.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=int(arguments[0]))
    sdk, lock = Sdk(), threading.Lock()

    def answer(request: dict[str, Any]) -> None:
        text = json.dumps({'id': request['id'], **_outcome(sdk, request)}) + '\n'
        try:
            with lock:
                channel.sendall(text.encode())
        except OSError:
            # The driver is gone; the main thread has noticed it too.
            return

    said_farewell = False
    with ThreadPoolExecutor(THREADS) as pool, channel.makefile('r', encoding='utf-8') as requests:
        try:
            for line in requests:
                request = json.loads(line)
                if request['op'] == 'close':
                    said_farewell = True
                    break
                pool.submit(answer, request)
        except OSError:
            # As an end of the file.
            said_farewell = False
    if sdk.is_open and not said_farewell:
        print('indy worker: the driver is gone; stopping the arm', file=sys.stderr)
        print(f'indy worker: {_outcome(sdk, {"op": "stop"})}', file=sys.stderr)
    return 0


def _outcome(sdk: Sdk, request: dict[str, Any]) -> dict[str, Any]:
    """Do one request; every failure is a value."""
    fields = {name: value for name, value in request.items() if name not in ('id', 'op')}
    operation = sdk.operations.get(request['op'])
    if operation is None:
        return {'error': 'fault', 'text': f'operation {request["op"]!r}: there is none'}
    try:
        return {'value': operation(**fields)}
    except grpc.RpcError as err:
        code = err.code()
        lost = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        kind = 'lost' if lost else 'refused'
        return {'error': kind, 'text': f'{code.name}: {err.details()}'}
    except Exception as err:  # noqa: BLE001 (the driver's process is told of every one)
        return {'error': 'fault', 'text': repr(err)}
