"""A mock Tello: speaks the SDK over UDP, like an aircraft, on an address of its own.

Every address of 127.0.0.0/8 is this machine, so each mock of a fleet has an address with the
aircraft's own port 8889. It sends its state to port 8890 of whoever commands it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.journal import Journal
from timely_llm_ros.drivers.tello.mock.body import TelloBody
from timely_llm_ros.drivers.tello.mock.link import Link
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from timely_llm_ros.drivers.tello.mock.airframe import Airframe
    from timely_llm_ros.drivers.tello.mock.pose import Phase

CONTROL_PORT, STATE_PORT = 8889, 8890
STATE_PERIOD_S = 0.1
"""How often it sends its state (s), on its own clock."""

TICK_S = 0.01


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of what happened to a mock.

    Attributes:
        t: When (s on the machine's monotonic clock, which all its processes share).
        event: ``command`` (received), ``phase`` (entered) or ``fault`` (set).
        what: The command, the phase or the fault.
    """

    t: float
    event: str
    what: str


class MockTello:
    """One mock aircraft. Use :meth:`start` and :meth:`close` on one asyncio loop.

    Args:
        host: Its address, for example 127.0.0.2.
        speed: How many times as fast as a real one it is.
        loss: Share of datagrams that get lost, each way.
        double: Share of answers and states that arrive twice, the second time late.
        delay_s: How late answers and states arrive at most (s), on its own clock; each is as late
            as it happens to be, so that they overtake one another.
        seed: Equal seeds treat equal datagrams equally.
        battery_percent: Its charge at first.
        drain_percent_s: How much charge a second in the air costs, on its own clock.
        airframe: What carries it, whose times are those of its own clock; without one it is
            always where it is told to be.
        clock: Its time (s), before ``speed``; that of a test may leave out stalls.
        journal_path: File to which its entries are appended as JSON lines; empty for none.
        on_entry: Told every entry.

    Raises:
        ConfigurationError: An option is out of range.
    """

    def __init__(
        self,
        host: str,
        *,
        speed: float = 1.0,
        loss: float = 0.0,
        double: float = 0.0,
        delay_s: float = 0.0,
        seed: int = 0,
        battery_percent: float = 87.0,
        drain_percent_s: float = 0.12,
        airframe: Airframe | None = None,
        clock: Callable[[], float] = time.monotonic,
        journal_path: str | Path = '',
        on_entry: Callable[[Entry], None] = lambda _: None,
    ) -> None:
        for name, value, least, greatest in (
            ('speed', speed, 0.01, 1000.0),
            ('battery', battery_percent, 0.0, 100.0),
            ('drain', drain_percent_s, 0.0, 100.0),
        ):
            if not least <= value <= greatest:
                raise ConfigurationError(f'{name} {value!r}: expected {least:g} to {greatest:g}')
        self.host, self.speed, self._clock = host, speed, clock
        self.link = Link(f'{seed} {host}', loss=loss, double=double, delay_s=delay_s)
        self.deaf = False
        """Whether it hears nothing."""
        self.mute = False
        """Whether nothing it says is heard: no answers, no states."""
        self.entries: list[Entry] = []
        self.body = TelloBody(
            battery_percent=battery_percent,
            drain_percent_s=drain_percent_s,
            airframe=airframe,
            on_phase=lambda at_s, phase: self._note('phase', phase.value, at_s / self.speed),
        )
        self._next_state_s = self._now_s()
        self._journal_path, self._on_entry = journal_path, on_entry
        self._journal = Journal()
        self._transport: asyncio.DatagramTransport | None = None
        self._pilot: tuple[str, int] | None = None
        self._ticks: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take commands from now on.

        Raises:
            ConfigurationError: Its address or its journal cannot be used.
        """
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: _Ear(self), local_addr=(self.host, CONTROL_PORT)
            )
            self._journal = Journal(self._journal_path)
        except OSError as err:
            if self._transport is not None:
                self._transport.close()
            raise ConfigurationError(
                f'mock Tello at {self.host}: {err.strerror or err}: expected an address of '
                f'127.0.0.0/8 whose UDP port {CONTROL_PORT} is free, and a writable journal'
            ) from err
        self._next_state_s = self._now_s()
        self.body.advance(self._next_state_s)
        self._ticks = asyncio.create_task(self._live())

    async def close(self) -> None:
        """Take nothing any more; idempotent."""
        if self._ticks is not None:
            self._ticks.cancel()
            await asyncio.wait({self._ticks})
            self._ticks = None
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        self._journal.close()

    @property
    def phase(self) -> Phase:
        """What it does now."""
        self._live_on()
        return self.body.phase

    def phases(self) -> list[str]:
        """Return the phases that it entered, in order."""
        return [entry.what for entry in self.entries if entry.event == 'phase']

    def commands(self) -> list[str]:
        """Return the commands that it received, in order."""
        return [entry.what for entry in self.entries if entry.event == 'command']

    def set_fault(self, text: str) -> None:
        """Have something go wrong, or heal.

        Args:
            text: ``deaf``, ``mute``, ``lost`` (both), ``heal``, ``stall``, ``loss 0.2``,
                ``double 0.3``, ``delay 0.2`` (s), ``say ok`` (an old answer arrives only now),
                ``blind`` (moves break off half way), ``low 0.35`` (height that is reported too
                low, in m), ``battery 8``, or ``refuse forward error Not joystick``.

        Raises:
            ConfigurationError: There is no such fault.
        """
        body, link = self.body, self.link
        self._live_on()
        match text.split():
            case ['deaf' | 'mute' | 'lost' as fault]:
                self.deaf, self.mute = fault != 'mute', fault != 'deaf'
            case ['heal']:
                self.deaf = self.mute = body.stalled = body.blind = False
                link.set()
                body.height_error_m = 0.0
                body.refusals.clear()
            case ['stall']:
                body.stalled = True
            case ['blind']:
                body.blind = True
            case ['loss', share] if _is_number(share, 0, 1):
                link.loss = float(share)
            case ['double', share] if _is_number(share, 0, 1):
                link.double = float(share)
            case ['delay', delay_s] if _is_number(delay_s, 0, 10):
                link.delay_s = float(delay_s)
            case ['low', error_m] if _is_number(error_m, 0, 1):
                body.height_error_m = float(error_m)
            case ['battery', percent] if _is_number(percent, 0, 100):
                body.battery_percent = float(percent)
            case ['say', *answer] if answer and self._pilot is not None:
                self._send(' '.join(answer), self._pilot)
            case ['refuse', word, *answer] if answer:
                body.refusals[word] = ' '.join(answer)
            case _:
                raise ConfigurationError(
                    f'fault {text!r}: expected deaf, mute, lost, heal, stall, blind, "loss 0.2", '
                    '"double 0.3", "delay 0.2", "say ok", "low 0.35", "battery 8" or "refuse '
                    'forward error Not joystick"'
                )
        self._note('fault', text)

    def receive(self, data: bytes, sender: tuple[str, int]) -> None:
        """Take one datagram, if it is not lost on its way."""
        if self.deaf or self.link.loses():
            return
        command = data.decode('ascii', errors='replace').strip()
        self._live_on()
        self._note('command', command)
        if command == 'command':
            self._pilot = sender
        self.body.take(command, lambda answer: self._send(answer, sender))

    async def _live(self) -> None:
        while True:
            self._live_on()
            await asyncio.sleep(TICK_S)

    def _live_on(self) -> None:
        """Let time pass until now; no state is left out, however late this comes."""
        now_s = self._now_s()
        while self._next_state_s <= now_s:
            self.body.advance(self._next_state_s)
            self._next_state_s += STATE_PERIOD_S
            if self._pilot is not None:
                self._send(self.body.state_line(self.speed), (self._pilot[0], STATE_PORT))
        self.body.advance(now_s)

    def _send(self, text: str, receiver: tuple[str, int]) -> None:
        if self.mute:
            return
        data = text.encode('ascii', errors='replace')
        for delay_s in self.link.delays_s():
            if delay_s:
                asyncio.get_running_loop().call_later(
                    delay_s / self.speed, self._arrive, data, receiver
                )
            else:
                self._arrive(data, receiver)

    def _arrive(self, data: bytes, receiver: tuple[str, int]) -> None:
        if self._transport is not None:
            self._transport.sendto(data, receiver)

    def _now_s(self) -> float:
        """Return the time on its own clock, which runs ``speed`` times as fast."""
        return self._clock() * self.speed

    def _note(self, event: str, what: str, at_s: float | None = None) -> None:
        entry = Entry(self._clock() if at_s is None else at_s, event, what)
        self.entries.append(entry)
        self._on_entry(entry)
        self._journal.note({'t': entry.t, 'host': self.host, 'event': event, 'what': what})


class _Ear(asyncio.DatagramProtocol):
    def __init__(self, mock: MockTello) -> None:
        self._mock = mock

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._mock.receive(data, addr)


def _is_number(text: str, least: float, greatest: float) -> bool:
    try:
        return least <= float(text) <= greatest
    except ValueError:
        return False
