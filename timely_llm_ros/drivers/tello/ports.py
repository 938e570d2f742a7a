"""The two UDP ports of the Tello SDK, which all aircraft of a process share.

djitellopy has one control socket for all aircraft of a process and files what it hears by the
sender's address. Left to itself it binds both ports to all addresses of the machine, does not say
that a port is taken, and stops listening at the first datagram that is not ASCII. So this module
opens the sockets, puts them where djitellopy looks for them, and tells listeners what they hear.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import selectors
import socket
import sys
import threading
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from djitellopy import Tello

CONTROL_PORT = 8889
"""Where an aircraft takes commands, and from where they are sent."""

STATE_PORT = 8890
"""Where an aircraft sends its state, ten times a second, on the machine that commands it."""

_DATAGRAM_BYTES = 2048

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_opened: TelloPorts | None = None


def load_sdk() -> Any:
    """Return djitellopy's module, quiet below warnings.

    Raises:
        ConfigurationError: It is not installed.
    """
    # It decodes video with av, 100 MB of which nothing is used here. Where that is not installed an
    # empty module stands in for it while djitellopy is imported, so that only video would fail.
    absent = importlib.util.find_spec('av') is None
    if absent:
        sys.modules['av'] = ModuleType('av')
    try:
        from djitellopy import tello as sdk
    except ImportError as err:
        raise ConfigurationError(
            f"driver 'tello': {err}: expected djitellopy to be installed "
            "(pip install 'timely_llm_ros[tello]')"
        ) from err
    finally:
        if absent:
            del sys.modules['av']
    # Its own handler would print each command beside the program's log.
    sdk.Tello.LOGGER.removeHandler(sdk.Tello.HANDLER)
    sdk.Tello.LOGGER.setLevel(logging.WARNING)
    return sdk


class TelloPorts:
    """The open ports, one pair per process; made by :meth:`open`."""

    def __init__(self, sdk: Any, local_address: str) -> None:
        self.local_address = local_address
        self._sdk = sdk
        self._users: dict[str, tuple[Tello, list[Listener]]] = {}
        with contextlib.ExitStack() as opened:
            self._sockets = [
                opened.enter_context(_bound(local_address, port))
                for port in (CONTROL_PORT, STATE_PORT)
            ]
            opened.pop_all()
        self._wake_end, self._waker = os.pipe()
        sdk.client_socket, sdk.threads_initialized = self._sockets[0], True
        self._thread = threading.Thread(target=self._listen, name='tello ports', daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, host: str, local_address: str, listener: Listener) -> tuple[TelloPorts, Tello]:
        """Open the ports, unless they are open, for one more user of an aircraft.

        Args:
            host: Address of the aircraft.
            local_address: This machine's address towards it; empty for any.
            listener: Told what is heard of the aircraft, on another thread; must not wait.

        Returns:
            The ports and djitellopy's object of the aircraft.

        Raises:
            ConfigurationError: djitellopy is missing, or has the ports open at another address.
            RobotUnavailableError: Another program has a port.
        """
        global _opened
        sdk = load_sdk()
        with _lock:
            if _opened is None:
                if sdk.threads_initialized:
                    raise ConfigurationError(
                        "driver 'tello': djitellopy has opened its ports by itself in this "
                        'process: expected nobody else to use it'
                    )
                _opened = cls(sdk, local_address)
            if _opened.local_address != local_address:
                raise ConfigurationError(
                    f'local address {local_address!r}: expected {_opened.local_address!r}, as for '
                    'the other Tellos of this process: djitellopy has one control socket'
                )
            return _opened, _opened._add(host, listener)

    def release(self, host: str, listener: Listener) -> None:
        """Undo one :meth:`open`; the last one closes the ports. Idempotent."""
        global _opened
        with _lock:
            tello, listeners = self._users.get(host, (None, []))
            if listener not in listeners:
                return
            listeners.remove(listener)
            if not listeners and tello is not None:
                del self._users[host]
                tello.end()
                # Collected, the object ends once more, which must not unplug its successor.
                tello.address = ('', CONTROL_PORT)
            if not self._users:
                self._close()
                _opened = None

    def _add(self, host: str, listener: Listener) -> Tello:
        if host not in self._users:
            # Two objects of one address would share answers, and the end of one unplug both.
            self._users[host] = (self._sdk.Tello(host, retry_count=1), [])
        tello, listeners = self._users[host]
        listeners.append(listener)
        return tello

    def _close(self) -> None:
        os.write(self._waker, b'.')
        self._thread.join()
        self._sdk.threads_initialized = False
        for one in self._sockets:
            one.close()
        os.close(self._waker)
        os.close(self._wake_end)

    def _listen(self) -> None:
        _, state = self._sockets
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_end, selectors.EVENT_READ)
            for one in self._sockets:
                selector.register(one, selectors.EVENT_READ)
            while True:
                ready: list[Any] = [key.fileobj for key, _ in selector.select()]
                if self._wake_end in ready:
                    return
                for one in ready:
                    self._take(one, is_state=one is state)

    def _take(self, one: socket.socket, *, is_state: bool) -> None:
        """Take one datagram; a fault costs no more than that datagram."""
        try:
            data, (host, _) = one.recvfrom(_DATAGRAM_BYTES)
        except OSError as err:
            _logger.warning('%s', err)
            return
        self._pass_on(host, data, is_state=is_state)

    def _pass_on(self, host: str, data: bytes, *, is_state: bool) -> None:
        user = self._users.get(host)
        if user is None:
            return
        heard_s = time.monotonic()
        text = data.decode('ascii', errors='replace').strip()
        heard = self._sdk.Tello.parse_state(text) if is_state else text
        for listener in tuple(user[1]):
            listener(heard, heard_s)


def _bound(local_address: str, port: int) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        one.bind((local_address, port))
    except OSError as err:
        one.close()
        raise RobotUnavailableError(
            f'UDP port {port} of {local_address or "this machine"}: {err.strerror}: expected it to '
            'be free; one program at a time can fly Tellos, all of them together'
        ) from err
    one.setblocking(False)
    return one


if TYPE_CHECKING:
    Listener = Callable[[Mapping[str, object] | str, float], None]
    """Told a state's fields or an answer's text, and when it was heard (s, monotonic)."""
