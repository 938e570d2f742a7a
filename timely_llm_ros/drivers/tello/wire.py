"""One aircraft's wire: commands go out, answers and states come in, and nothing blocks.

djitellopy waits for answers in a sleep that nobody can end, repeats a move whose answer is late,
and takes an answer to the previous command for one to this. So djitellopy only sends and parses;
the waiting is done here, where it can be cancelled and no move is repeated.

Answers say not what they answer, and the network may bring one late or twice. What comes after a
command is therefore only what may be its answer; whether it is, the state has to show.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello.ports import TelloPorts
from timely_llm_ros.drivers.tello.telemetry import Telemetry
from timely_llm_ros.errors import DriverTimeoutError, RobotUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from djitellopy import Tello

COMMAND_GAP_S = 0.1
"""Least time between an answer and the next command (s): closer ones an aircraft may not hear."""

LATE_ANSWER_S = 0.3
"""How long to wait for an answer that nobody waited for any more, before the next command (s)."""

STILL_STATES = 2
"""After so many states in a row without motion an aircraft counts as standing still."""


class Answers:
    """What came after a command and may be its answer.

    Attributes:
        ok_s: When the last ``ok`` came, on the monotonic clock (s); minus infinity if none did.
        refusal: The last that was anything else; empty if none was.
        refused_s: When the first of those came (s); infinity if none did.
        count: How many came.
    """

    def __init__(self) -> None:
        self.ok_s, self.refusal, self.refused_s = float('-inf'), '', float('inf')
        self.count = 0

    def note(self, text: str, heard_s: float) -> None:
        """Take one more."""
        self.count += 1
        if text.lower() == 'ok':
            self.ok_s = heard_s
        else:
            self.refusal = text
            self.refused_s = min(self.refused_s, heard_s)


class TelloWire:
    """What is said to one aircraft and heard of it. Used from one asyncio loop.

    Args:
        host: Its address.
        local_address: This machine's address towards it; empty for any.
        drift_dm_s: An aircraft that is no faster than this (dm/s) stands still.
    """

    def __init__(self, host: str, local_address: str = '', drift_dm_s: int = 0) -> None:
        self.host, self._local_address = host, local_address
        self._ports: TelloPorts | None = None
        self._tello: Tello | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asking = asyncio.Lock()
        self._heard = asyncio.Event()
        self._answers = Answers()
        self._owed_answers = 0
        self._answered_s = float('-inf')
        self.telemetry = Telemetry(drift_dm_s)

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
    def stands_still(self) -> bool:
        """Whether it has shown so since the last mark."""
        return self.telemetry.still_states >= STILL_STATES

    @contextlib.asynccontextmanager
    async def told(self, command: str) -> AsyncIterator[Answers]:
        """Send a command in the SDK's words; yield what is heard that may be its answer.

        Motion is measured from here on. Nobody else sends a command that is answered meanwhile,
        but for what halts and lands the aircraft.

        Raises:
            RobotUnavailableError: The command cannot be sent.
        """
        async with self._asking:
            await self._end_answers_before()
            self._answers = answers = Answers()
            self.telemetry.mark()
            self.mention(command)
            yield answers

    async def ask(self, command: str, limit_s: float) -> str:
        """Send a command that moves nothing and return the first answer.

        Raises:
            DriverTimeoutError: There is none within ``limit_s`` (s).
            RobotUnavailableError: The command cannot be sent.
        """
        async with self.told(command) as answers:
            end_s = time.monotonic() + limit_s
            while not answers.count:
                if not await self.listen(end_s - time.monotonic()):
                    raise DriverTimeoutError(
                        f'no answer to {command!r} within {limit_s:g} s: expected ok'
                    )
            return answers.refusal or 'ok'

    def tell(self, command: str) -> None:
        """Send a command that is not answered.

        Raises:
            RobotUnavailableError: It cannot be sent.
        """
        if self._tello is None:
            raise RobotUnavailableError(f'Tello {self.host}: expected to be connected')
        try:
            self._tello.send_command_without_return(command)
        except OSError as err:
            raise RobotUnavailableError(
                f'Tello {self.host}: {err.strerror}: expected it to be reachable'
            ) from err

    def mention(self, command: str) -> None:
        """Send a command whose answer nobody waits for; raises as :meth:`tell`."""
        self.tell(command)
        self._owed_answers += 1

    def halt(self) -> None:
        """Tell the aircraft to hover where it is, whatever it does; raises as :meth:`tell`.

        This breaks off a landing as well.
        """
        self.tell('rc 0 0 0 0')
        # Velocities alone do not end a move that the aircraft flies by itself.
        self.mention('stop')

    async def listen(self, limit_s: float) -> bool:
        """Wait for the next answer or state; return whether one came within ``limit_s`` (s)."""
        self._heard.clear()
        try:
            async with asyncio.timeout(max(0.0, limit_s)):
                await self._heard.wait()
        except TimeoutError:
            return False
        return True

    async def wait_state(self, limit_s: float) -> bool:
        """Wait for the next state; return whether one came within ``limit_s`` (s)."""
        before_s, end_s = self.telemetry.heard_s, time.monotonic() + limit_s
        while self.telemetry.heard_s == before_s:
            if not await self.listen(end_s - time.monotonic()):
                return False
        return True

    async def _end_answers_before(self) -> None:
        """Let earlier answers come, so that they do not have to be told from the next one's."""
        end_s = time.monotonic() + LATE_ANSWER_S
        while self._owed_answers and await self.listen(end_s - time.monotonic()):
            pass
        self._owed_answers = 0
        gap_s = self._answered_s + COMMAND_GAP_S - time.monotonic()
        if gap_s > 0:
            await asyncio.sleep(gap_s)

    def _on_datagram(self, heard: Mapping[str, object] | str, heard_s: float) -> None:
        # On the thread of the ports.
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._note, heard, heard_s)
        except RuntimeError:
            # The loop has ended: there is nobody left to tell.
            return

    def _note(self, heard: Mapping[str, object] | str, heard_s: float) -> None:
        if isinstance(heard, str):
            self._answered_s, self._owed_answers = heard_s, max(0, self._owed_answers - 1)
            self._answers.note(heard, heard_s)
        elif self._tello is not None:
            self.telemetry.note(heard, heard_s)
        self._heard.set()
