"""Serves a mock Indy over gRPC with the SDK's own stubs. Runs in the SDK's environment."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
from neuromeka import indydcp3, proto

from timely_llm_ros.drivers.indy.mock.body import IndyBody, Refusal
from timely_llm_ros.drivers.indy.mock.options import MockIndyOptions
from timely_llm_ros.drivers.journal import Journal
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.processes import take_precedence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

RATIOS = {'velocity ratio': (1, 100), 'acceleration ratio': (1, 900)}
"""What the SDK's ``Limits`` allow (%)."""

TICK_S = 0.005
"""How often time passes for the body (s)."""


class Gate(grpc.ServerInterceptor):  # type: ignore[misc]
    """Lets requests through, or holds them: a controller that hangs answers nobody."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def close(self) -> None:
        """Answer nobody from now on."""
        self._open.clear()

    def open(self) -> None:
        """Answer again; requests that nobody waits for any more are dropped."""
        self._open.set()

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Have a request wait for the gate."""
        handler = continuation(details)

        def answer(request: Any, context: Any) -> Any:
            while not self._open.wait(0.05):
                if not context.is_active():
                    raise RuntimeError('the client is gone')
            return handler.unary_unary(request, context)

        # The driver uses no streams.
        return grpc.unary_unary_rpc_method_handler(
            answer, handler.request_deserializer, handler.response_serializer
        )


class Controller(
    proto.ControlServicer,  # type: ignore[misc]
    proto.DeviceServicer,  # type: ignore[misc]
    proto.ConfigServicer,  # type: ignore[misc]
    proto.RTDataExchangeServicer,  # type: ignore[misc]
):
    """Answers the requests of the driver from a body; other requests are unimplemented."""

    def __init__(self, body: IndyBody) -> None:
        self._body = body

    def MoveJ(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Begin a joint motion to absolute angles."""
        return self._move(self._body.move_joints, request.target.j_target, request)

    def MoveL(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Begin a straight motion to an absolute pose."""
        return self._move(self._body.move_line, request.target.t_target, request)

    def StopMotion(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Stop."""
        self._body.stop(request.category)
        return proto.common_msgs.Response(code=0)

    def Recover(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Recover from a violation."""
        return _response(self._body.recover())

    def SetEndDO(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Switch outputs of the tool."""
        return self._set((signal.port, list(signal.states)) for signal in request.signals)

    def SetDO(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Switch outputs of the control box."""
        return self._set((str(signal.address), [signal.state]) for signal in request.signals)

    def GetHomePosition(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Tell the joint angles of the home position."""
        return proto.config_msgs.JointPos(jpos=self._body.home)

    def GetControlData(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Tell position and state."""
        status = self._body.status()
        return proto.rtde_msgs.ControlData(
            op_state=status['op_state'], q=status['q'], p=status['p'], is_robot_connected=True
        )

    def GetMotionData(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Tell whether the arm moves."""
        status = self._body.status()
        return proto.rtde_msgs.MotionData(
            is_in_motion=status['is_in_motion'], is_target_reached=status['is_target_reached']
        )

    def GetViolationData(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Tell what is wrong."""
        text = str(self._body.status()['violation'])
        return proto.rtde_msgs.ViolationData(violation_code=int(bool(text)), violation_str=text)

    def _move(
        self,
        begin: Callable[[Sequence[float], float, float], tuple[Refusal, str]],
        target: Sequence[float],
        request: Any,
    ) -> Any:
        ratios = (request.vel_ratio, request.acc_ratio)
        for (name, (least, most)), value in zip(RATIOS.items(), ratios, strict=True):
            if not least <= value <= most:
                text = f'{name} {value:g}: expected {least} to {most}'
                return _response((Refusal.NOT_READY, text))
        return _response(begin(list(target), *ratios))

    def _set(self, signals: Iterable[tuple[str, list[int]]]) -> Any:
        for name, states in signals:
            answer = self._body.set_output(name, states)
            if answer[0]:
                return _response(answer)
        return _response((Refusal.NONE, ''))


class Link:
    """Serves the four ports that the driver uses, until unplugged.

    Raises:
        ConfigurationError: A port is taken.
    """

    def __init__(self, body: IndyBody, gate: Gate, host: str, index: int) -> None:
        self._body, self._gate, self._host, self._index = body, gate, host, index
        self._servers: list[Any] = []
        self.plug()

    def plug(self) -> None:
        """Serve."""
        for ports, add in (
            (indydcp3.CONTROL_SOCKET_PORT, proto.add_ControlServicer_to_server),
            (indydcp3.DEVICE_SOCKET_PORT, proto.add_DeviceServicer_to_server),
            (indydcp3.CONFIG_SOCKET_PORT, proto.add_ConfigServicer_to_server),
            (indydcp3.RTDE_SOCKET_PORT, proto.add_RTDataExchangeServicer_to_server),
        ):
            server = grpc.server(
                ThreadPoolExecutor(4),
                interceptors=[self._gate],
                options=[('grpc.so_reuseport', 0)],
                maximum_concurrent_rpcs=64,
            )
            add(Controller(self._body), server)
            address = f'{self._host}:{ports[self._index]}'
            try:
                server.add_insecure_port(address)
            except RuntimeError as err:
                raise ConfigurationError(f'{address}: expected the port to be free') from err
            server.start()
            self._servers.append(server)

    def unplug(self) -> None:
        """Cut every connection; the arm goes on with what it does."""
        for server in self._servers:
            server.stop(0).wait()
        self._servers.clear()


def main(arguments: Sequence[str]) -> int:
    """Serve until ``quit``; the only argument is the options as JSON."""
    # An arm's controller is a computer of its own.
    take_precedence()
    options = MockIndyOptions.from_json(arguments[0])
    try:
        journal = Journal(options.record)
        body = IndyBody(journal.note, speed=options.speed, jitter=options.jitter, seed=options.seed)
        gate = Gate()
        link = Link(body, gate, options.host, options.index)
    except (ConfigurationError, OSError) as err:
        print(f'error: {err}', file=sys.stderr)
        return 1
    threading.Thread(target=_tick, args=(body,), daemon=True).start()
    print(f'ready {options.host} {options.index}', flush=True)
    try:
        for line in sys.stdin:
            word, _, text = line.strip().partition(' ')
            if word == 'quit':
                break
            if word:
                print(_obey(word, text, body, gate, link), flush=True)
        else:
            while not options.until_eof:
                time.sleep(3600)
    except KeyboardInterrupt:
        return 130
    gate.open()
    link.unplug()
    return 0


def _obey(word: str, text: str, body: IndyBody, gate: Gate, link: Link) -> str:
    commands: dict[str, Callable[[], None]] = {
        'refuse': lambda: body.refuse_next(text),
        'violate': lambda: body.violate(text),
        'collide': lambda: body.collide(text),
        'estop': body.press_emergency_stop,
        'release': body.release_emergency_stop,
        'silence': gate.close,
        'answer': gate.open,
        'reset': body.reset,
        'unplug': link.unplug,
        'plug': link.plug,
    }
    command = commands.get(word)
    if command is None:
        return f'error: {word!r}: expected one of {", ".join(commands)}, quit'
    command()
    return f'ok {word}'


def _tick(body: IndyBody) -> None:
    while True:
        time.sleep(TICK_S)
        body.advance()


def _response(answer: tuple[Refusal, str]) -> Any:
    code, text = answer
    return proto.common_msgs.Response(code=int(code), msg=text)
