"""A DJI Tello, flown through djitellopy with the skills of ``skills/tello.yaml``.

Its safe action is to hover at once, and to land if nothing else is asked of it for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello.flight import STAY_PERIOD_S, TelloFlight
from timely_llm_ros.drivers.tello.ports import load_sdk
from timely_llm_ros.drivers.tello.skills import tello_skills
from timely_llm_ros.drivers.tello.units import speed_cm_s
from timely_llm_ros.drivers.tello.wire import TelloWire
from timely_llm_ros.errors import (
    DriverTimeoutError,
    RobotUnavailableError,
    SkillFailedError,
    TimelyError,
)
from timely_llm_ros.execution import NoPerception

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from timely_llm_ros.drivers.tello.options import TelloOptions
    from timely_llm_ros.execution import CallValue, Perception
    from timely_llm_ros.skills import Call, Scene

_logger = logging.getLogger(__name__)

CONNECT_ATTEMPTS = 6
"""How often a connection is tried: datagrams get lost."""

ANSWER_LIMIT_S = 0.5
"""How long the answer to what does not move the aircraft may take (s)."""

STATE_LIMIT_S = 2.0
"""How long the first state may take (s)."""

CLOSE_LIMIT_S = 6.0
"""How long a landing at the end may take (s)."""

CUT_REPEATS = 3
"""How often the motors are cut: datagrams get lost."""

_WATCH_PERIOD_S = 0.02


class TelloDriver:
    """Flies one Tello. Several in one process share its UDP ports.

    Raises:
        ConfigurationError: djitellopy is missing.
    """

    def __init__(self, options: TelloOptions, *, perception: Perception | None = None) -> None:
        # Imported now: whoever has to make a flying aircraft safe must not wait for it.
        load_sdk()
        self._options = options
        self._wire = TelloWire(options.address, options.local_address)
        self._flight = TelloFlight(self._wire, options)
        self._rest: asyncio.Task[None] | None = None
        self._landing = self._connected = self._motors_cut = False
        self._skills = tello_skills(self._flight, perception or NoPerception())

    async def connect(self) -> None:
        """Have the aircraft take commands; one that flies is told to hover first of all."""
        was_connected = self._connected
        try:
            await self._enter_sdk_mode()
        except BaseException:
            if not was_connected:
                self._wire.close()
            raise
        self._connected = True
        if not was_connected:
            self._flight.may_fly = self._flight.in_the_air
            self._start_rest()

    async def close(self) -> None:
        """Land it if it flies and can be reached, and release the ports."""
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._end_rest(wait_for_landing=True)
                if self._connected and self._flight.may_fly:
                    self._require_link()
                    await self._flight.land()
        except (TimelyError, TimeoutError) as err:
            text = 'Tello %s: not seen to land at the end: %s'
            _logger.error(text, self._wire.host, err)  # noqa: TRY400 (the error says all)
        finally:
            self._connected = False
            if self._rest is not None:
                self._rest.cancel()
            self._wire.close()

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do one skill; if it does not come to its end, tell the aircraft to hover at once."""
        skill = self._skills.get(call.skill)
        if skill is None:
            raise SkillFailedError(
                f'skill {call.skill!r}: expected one of {", ".join(sorted(self._skills))}'
            )
        self._require_link()
        try:
            await self._end_rest(wait_for_landing=True)
            return await self._do(skill(call, scene), call)
        except SkillFailedError as err:
            self._halt_anyway()
            # What the aircraft says to its motors being cut may come before the watch looks.
            why = 'emergency: the motors were cut' if self._motors_cut else err
            raise SkillFailedError(f'{call.text}: {why}') from err
        except BaseException:
            self._halt_anyway()
            raise
        finally:
            self._start_rest()

    async def _do(self, skill: Awaitable[CallValue], call: Call) -> CallValue:
        """Await a skill and return its value, unless the watch raises before."""
        self._motors_cut = False
        work = asyncio.ensure_future(skill)
        watch = asyncio.create_task(self._watch(call))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await watch
            return work.result()
        finally:
            for task in (work, watch):
                task.cancel()
            # Their errors are seen here, so that none is reported as never retrieved.
            await asyncio.gather(work, watch, return_exceptions=True)

    async def safe(self) -> None:
        """Have the aircraft hover at once, and land later if it is asked for nothing else.

        After this has raised, the aircraft is told again and again until it is heard.
        """
        if not self._connected:
            raise RobotUnavailableError(f'Tello {self._wire.host}: expected to be connected')
        if self._landing:
            return
        await self._end_rest(wait_for_landing=False)
        heard = False
        try:
            heard = await self._wire.halt_until_heard(self._options.halt_limit_s)
        finally:
            self._start_rest(insist=not heard)
        if not heard:
            raise RobotUnavailableError(
                f'Tello {self._wire.host}: told to hover, not heard within '
                f'{self._options.halt_limit_s:g} s'
            )

    async def emergency(self) -> None:
        """Cut the motors at once: the aircraft falls. The call in hand fails and says so."""
        for _ in range(CUT_REPEATS):
            self._wire.mention('emergency')
            self._motors_cut = True
            self._flight.may_fly = False
            await asyncio.sleep(0.02)

    # Safety

    async def _enter_sdk_mode(self) -> None:
        wire = self._wire
        wire.open()
        # Whoever flew it before may be gone in the middle of a move.
        await self._ask_patiently('command', halting=self._flight.may_fly)
        if self._flight.may_fly:
            wire.halt()
        if not await wire.wait_state(STATE_LIMIT_S):
            raise RobotUnavailableError(
                f'Tello {wire.host}: no state on UDP port 8890 within {STATE_LIMIT_S:g} s: '
                'expected no firewall to be in its way'
            )
        await self._set_up(f'speed {speed_cm_s(self._options.speed_m_s)}')
        if self._options.video:
            await self._set_up('streamon')

    async def _set_up(self, command: str) -> None:
        answer = await self._ask_patiently(command)
        if answer.lower() != 'ok':
            raise RobotUnavailableError(
                f'Tello {self._wire.host}: answered {answer!r} to {command!r}: expected ok'
            )

    async def _ask_patiently(self, command: str, *, halting: bool = False) -> str:
        """Ask as often as it takes, each time after a halt if that is wanted."""
        for _ in range(CONNECT_ATTEMPTS):
            if halting:
                self._wire.halt()
            with contextlib.suppress(DriverTimeoutError):
                return await self._wire.ask(command, ANSWER_LIMIT_S)
        raise RobotUnavailableError(
            f'Tello {self._wire.host}: no answer to {CONNECT_ATTEMPTS} times "{command}": '
            'expected it to be switched on and in this network'
        )

    def _require_link(self) -> None:
        if not self._connected:
            raise RobotUnavailableError(f'Tello {self._wire.host}: expected to be connected')
        silence_s = self._wire.telemetry.silence_s
        if silence_s > self._options.link_timeout_s:
            raise RobotUnavailableError(
                f'Tello {self._wire.host}: silent for {silence_s:.1f} s: expected its '
                'state every 0.1 s'
            )

    def _require_battery(self) -> None:
        battery, least = self._wire.telemetry.battery_percent, self._options.landing_battery_percent
        if self._flight.may_fly and battery is not None and battery <= least:
            raise SkillFailedError(
                f'battery {battery} %: expected more than {least} % in the air: landing'
            )

    async def _watch(self, call: Call) -> None:
        """Look after the aircraft during a call; ends only by raising."""
        while True:
            if self._motors_cut:
                raise SkillFailedError('emergency: the motors were cut')
            self._require_link()
            if call.skill != 'land':
                self._require_battery()
            await asyncio.sleep(_WATCH_PERIOD_S)

    def _halt_anyway(self) -> None:
        with contextlib.suppress(RobotUnavailableError):
            self._wire.halt()

    def _start_rest(self, *, insist: bool = False) -> None:
        if (self._rest is None or self._rest.done()) and self._connected:
            self._rest = asyncio.create_task(self._be_at_rest(insist))

    async def _end_rest(self, *, wait_for_landing: bool) -> None:
        """End what the driver does by itself between two calls."""
        rest = self._rest
        if rest is None:
            return
        if not (self._landing and wait_for_landing):
            rest.cancel()
        await asyncio.wait({rest})
        if self._rest is rest:
            self._rest = None

    async def _be_at_rest(self, insist: bool) -> None:
        """Keep it hovering and, after a while, land it."""
        idle_since_s = time.monotonic()
        while insist or self._flight.may_fly:
            try:
                if insist:
                    insist = not await self._wire.halt_until_heard(1.0)
                    idle_since_s = time.monotonic()
                elif (why := self._reason_to_land(time.monotonic() - idle_since_s)) is not None:
                    _logger.warning('Tello %s: %s', self._wire.host, why)
                    await self._land_by_itself()
                else:
                    self._wire.tell('rc 0 0 0 0')
                    await asyncio.sleep(min(STAY_PERIOD_S, self._options.land_after_s))
            except TimelyError as err:
                text = 'Tello %s: at rest: %s'
                _logger.error(text, self._wire.host, err)  # noqa: TRY400 (the error says all)
                await asyncio.sleep(1.0)

    def _reason_to_land(self, idle_s: float) -> str | None:
        try:
            self._require_battery()
        except SkillFailedError as err:
            return str(err)
        if idle_s >= self._options.land_after_s:
            return f'nothing to do for {idle_s:.0f} s: landing'
        return None

    async def _land_by_itself(self) -> None:
        self._landing = True
        try:
            await self._flight.land()
        finally:
            self._landing = False
