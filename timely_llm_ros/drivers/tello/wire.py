"""One aircraft's wire: commands out, answers and states in, and nothing that blocks.

djitellopy waits for answers in a sleep that nobody can end, repeats a move whose answer is late,
and takes an answer to the command before for one to this. So its object sends, files and parses,
while the waiting is done here: cancellable, once for each move, and after late answers have come.
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
"""How long an answer that nobody waits for any more is given to come (s)."""

HALT_PERIOD_S = 0.1
"""How often an aircraft that should stand still is told so (s), until it has heard."""

SETTLED_S = 0.02
"""A state that came so soon after an answer (s) may have been sent before it."""

STILL_STATES = 2
"""States without motion, one after the other, that say that an aircraft stands still."""


class TelloWire:
    """What is said to one aircraft and heard of it. Used from one asyncio loop.

    Args:
        host: Its address.
        local_address: Address of this machine's interface; empty for all.
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
        """Open the ports; no-op if they are.

        Raises:
            ConfigurationError: djitellopy is missing, or its ports are open otherwise.
            RobotUnavailableError: A port is taken by another program.
        """
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
    def heard_halt(self) -> bool:
        """Whether the aircraft, since it was last told to halt, answered or stands still."""
        return self._answered_s > self._halted_s or (
            self.telemetry.still_states >= STILL_STATES and self.telemetry.heard_s > self._halted_s
        )

    # What is said

    async def ask(self, command: str, limit_s: float) -> str:
        """Send a command and return its answer.

        Args:
            command: In the words of the SDK.
            limit_s: How long the answer may take (s).

        Raises:
            DriverTimeoutError: There is none.
            RobotUnavailableError: It cannot be sent.
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
        """Send a command without waiting for anything.

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
        """Send a command that is answered, but whose answer nobody waits for.

        Raises:
            RobotUnavailableError: It cannot be sent.
        """
        self.tell(command)
        self._late_answers += 1

    def halt(self) -> None:
        """Tell it to hover where it is, whatever it does; no answer is waited for.

        Raises:
            RobotUnavailableError: It cannot be told.
        """
        self._halted_s, self.telemetry.still_states = time.monotonic(), 0
        self.tell('rc 0 0 0 0')
        # Velocities alone do not end a move that the aircraft flies by itself.
        self.mention('stop')

    async def halt_until_heard(self, limit_s: float) -> bool:
        """Tell it to hover until it has heard; return whether it has within ``limit_s`` (s).

        Raises:
            RobotUnavailableError: It cannot be told.
        """
        end_s = time.monotonic() + limit_s
        self.halt()
        first_s = self._halted_s
        while True:
            next_s = time.monotonic() + HALT_PERIOD_S
            while (left_s := min(next_s, end_s) - time.monotonic()) > 0:
                if self.heard_halt:
                    return True
                self._heard.clear()
                try:
                    async with asyncio.timeout(left_s):
                        await self._heard.wait()
                except TimeoutError:
                    break
            if self.heard_halt:
                return True
            if time.monotonic() >= end_s:
                return False
            still_states = self.telemetry.still_states
            self.halt()
            # What was heard since the first time counts.
            self._halted_s, self.telemetry.still_states = first_s, still_states

    def cut_motors(self) -> None:
        """Stop the motors at once: it falls.

        Raises:
            RobotUnavailableError: It cannot be told.
        """
        try:
            self._sdk.emergency()
        except OSError as err:
            raise RobotUnavailableError(
                f'Tello {self.host}: {err.strerror}: expected it to be reachable'
            ) from err
        self._late_answers += 1

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
        """Wait for a state of after the last answer: one before may be of a move's middle."""
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
        """Let what was asked before be answered, so that its answer is not taken for the next."""
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
