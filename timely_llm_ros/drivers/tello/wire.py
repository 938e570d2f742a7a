"""One aircraft's wire: commands go out, answers and states come in, and nothing blocks.

djitellopy waits for answers in a sleep that nobody can end, repeats a move whose answer is late,
and takes an answer to the previous command for one to this. So djitellopy only sends, files and
parses; the waiting is done here, where it can be cancelled and no move is repeated.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello.ports import TelloPorts
from timely_llm_ros.drivers.tello.telemetry import Telemetry
from timely_llm_ros.errors import DriverTimeoutError, RobotUnavailableError

if TYPE_CHECKING:
    from djitellopy import Tello

_logger = logging.getLogger(__name__)

COMMAND_GAP_S = 0.1
"""Least time between an answer and the next command (s): closer ones an aircraft may not hear."""

LATE_ANSWER_S = 0.3
"""How long to wait for an answer that nobody waited for any more, before the next command (s)."""

HALT_PERIOD_S = 0.1
"""How often an aircraft is told to halt until it has heard (s)."""

SETTLED_S = 0.02
"""A state that comes this soon after an answer may have been sent before it (s)."""

STILL_STATES = 2
"""After so many states in a row without motion an aircraft counts as standing still."""


class TelloWire:
    """What is said to one aircraft and heard of it. Used from one asyncio loop.

    Args:
        host: Its address.
        local_address: This machine's address towards it; empty for any.
    """

    def __init__(self, host: str, local_address: str = '') -> None:
        self.host, self._local_address = host, local_address
        self._ports: TelloPorts | None = None
        self._tello: Tello | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asking = asyncio.Lock()
        self._heard = asyncio.Event()
        self._late_answers = 0
        self.telemetry = Telemetry()
        self._answered_s = self._halted_s = float('-inf')

    def open(self) -> None:
        """Open the ports unless they are open; raises as :meth:`TelloPorts.open`."""
        if self._ports is None:
            self._loop = asyncio.get_running_loop()
            self._ports, self._tello = TelloPorts.open(
                self.host, self._local_address, self._on_datagram
            )

    def close(self) -> None:
        """Close the ports; idempotent."""
        if self._ports is not None:
            self._ports.release(self.host, self._on_datagram)
            self._ports = self._tello = None
            self.telemetry.forget()

    @property
    def _heard_halt(self) -> bool:
        """Whether the aircraft, since it was last told to halt, answered or stands still."""
        return self._answered_s > self._halted_s or (
            self.telemetry.still_states >= STILL_STATES and self.telemetry.heard_s > self._halted_s
        )

    async def ask(self, command: str, limit_s: float) -> str:
        """Send a command in the SDK's words and return its answer.

        Raises:
            DriverTimeoutError: There is none within ``limit_s`` (s).
            RobotUnavailableError: The command cannot be sent.
        """
        async with self._asking:
            await self._end_answers_before()
            answers = self._answers
            answers.clear()
            self._heard.clear()
            self.tell(command)
            self._late_answers += 1
            try:
                async with asyncio.timeout(limit_s):
                    while not answers:
                        await self._heard.wait()
                        self._heard.clear()
            except TimeoutError as err:
                raise DriverTimeoutError(
                    f'no answer to {command!r} within {limit_s:g} s: expected ok'
                ) from err
            self._late_answers -= 1
            return answers.pop(0).decode('utf-8', errors='replace').strip()

    def tell(self, command: str) -> None:
        """Send a command that is not answered.

        Raises:
            RobotUnavailableError: It cannot be sent.
        """
        try:
            self._sdk.send_command_without_return(command)
        except OSError as err:
            raise RobotUnavailableError(
                f'Tello {self.host}: {err.strerror}: expected it to be reachable'
            ) from err

    def mention(self, command: str) -> None:
        """Send a command whose answer nobody waits for; raises as :meth:`tell`."""
        self.tell(command)
        self._late_answers += 1

    def halt(self) -> None:
        """Tell the aircraft to hover where it is, whatever it does; raises as :meth:`tell`."""
        self._halted_s, self.telemetry.still_states = time.monotonic(), 0
        self._say_halt()

    def _say_halt(self) -> None:
        self.tell('rc 0 0 0 0')
        # Velocities alone do not end a move that the aircraft flies by itself.
        self.mention('stop')

    async def halt_until_heard(self, limit_s: float) -> bool:
        """Repeat a halt until it is heard; return whether that was within ``limit_s`` (s).

        Raises:
            RobotUnavailableError: The halt cannot be sent.
        """
        end_s = time.monotonic() + limit_s
        self.halt()
        while True:
            try:
                async with asyncio.timeout(min(HALT_PERIOD_S, end_s - time.monotonic())):
                    while not self._heard_halt:
                        self._heard.clear()
                        await self._heard.wait()
                    return True
            except TimeoutError:
                if time.monotonic() >= end_s:
                    return self._heard_halt
                # What is heard since the first halt counts.
                self._say_halt()

    async def wait_state(self, limit_s: float) -> bool:
        """Wait for the next state; return whether one came within ``limit_s`` (s)."""
        before_s = self.telemetry.heard_s
        try:
            async with asyncio.timeout(limit_s):
                while self.telemetry.heard_s == before_s:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            return False
        return True

    async def wait_settled(self, limit_s: float) -> None:
        """Wait for a state from after the last answer: an older one may be from within a move."""
        if self.telemetry.heard_s <= self._answered_s + SETTLED_S:
            await self.wait_state(limit_s)

    @property
    def _sdk(self) -> Tello:
        if self._tello is None:
            raise RobotUnavailableError(f'Tello {self.host}: expected to be connected')
        return self._tello

    @property
    def _answers(self) -> list[bytes]:
        answers: list[bytes] = self._sdk.get_own_udp_object()['responses']
        return answers

    @property
    def _last_answer(self) -> bytes:
        answers = [] if self._tello is None else self._answers
        return answers[-1] if answers else b''

    async def _end_answers_before(self) -> None:
        """Let earlier answers come, so that none is taken for the next command's."""
        if self._late_answers:
            end_s = time.monotonic() + LATE_ANSWER_S
            while len(self._answers) < self._late_answers and time.monotonic() < end_s:
                await asyncio.sleep(0.02)
            self._late_answers = 0
        gap_s = self._answered_s + COMMAND_GAP_S - time.monotonic()
        if gap_s > 0:
            await asyncio.sleep(gap_s)

    # On the thread of the ports

    def _on_datagram(self, is_state: bool, heard_s: float) -> None:
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._note, is_state, heard_s)
        except RuntimeError:
            # The loop has ended: there is nobody left to tell.
            return

    def _note(self, is_state: bool, heard_s: float) -> None:
        if is_state:
            state = self._tello.get_current_state() if self._tello is not None else {}
            self.telemetry.note(state, heard_s)
        elif not self._last_answer.startswith(b'unknown command'):
            # An aircraft that does not know the word has not heard that it should stop.
            self._answered_s = heard_s
        self._heard.set()
