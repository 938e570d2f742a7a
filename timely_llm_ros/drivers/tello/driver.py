"""A DJI Tello, flown through djitellopy with the skills of ``skills/tello.yaml``.

Its safe action is to hover at once, and to land if nothing else is asked of it for a while. A
landing that has begun is gone on with instead: nothing breaks it off.
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
    from timely_llm_ros.execution import CallValue, Perception, Pose
    from timely_llm_ros.skills import Call, Scene

_logger = logging.getLogger(__name__)

CONNECT_ATTEMPTS = 6
"""How often a connection is tried: datagrams get lost."""

ANSWER_LIMIT_S = 0.5
"""How long the answer to what does not move the aircraft may take (s), and its first state."""

CLOSE_LIMIT_S = 8.0
"""How long a landing at the end may take (s)."""

CUT_REPEATS = 3
"""How often the motors are cut: datagrams get lost."""

DRIFT_DM_S = 1
"""The unrest of hovering (dm/s). A move at less than three times this speed is told from it only
by standing quite still."""

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
        drift_dm_s = DRIFT_DM_S if options.speed_m_s >= 3 * DRIFT_DM_S / 10 else 0
        self._wire = TelloWire(options.address, options.local_address, drift_dm_s)
        self._flight = TelloFlight(self._wire, options)
        self._rest: asyncio.Task[None] | None = None
        self._connected = self._motors_cut = False
        self._skills = tello_skills(self._flight, perception or NoPerception(), options.address)

    @property
    def pose(self) -> Pose | None:
        """Where the aircraft is, by dead reckoning; None before its first take-off."""
        return self._flight.pose

    @property
    def battery_percent(self) -> float | None:
        """What is left; None if unknown."""
        return self._wire.telemetry.battery_percent

    @property
    def speed_m_s(self) -> float:
        """How fast it flies (m/s)."""
        return self._options.speed_m_s

    async def connect(self) -> None:
        """Have the aircraft take commands; one that flies is told to hover, or to land on."""
        was_connected = self._connected
        try:
            await self._enter_sdk_mode()
        except BaseException:
            if not was_connected:
                self._wire.close()
            raise
        self._connected = True
        self._start_rest()

    async def close(self) -> None:
        """Land it unless its motors are off, heard or not, and release the ports."""
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._end_rest()
                if self._connected:
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
        """Do one skill; if it does not come to its end, tell the aircraft to hover at once.

        A landing is gone on with, whether it comes to its end here or later.
        """
        skill = self._skills.get(call.skill)
        if skill is None:
            raise SkillFailedError(
                f'skill {call.skill!r}: expected one of {", ".join(sorted(self._skills))}'
            )
        if call.skill == 'land':
            # Whoever does not hear the aircraft may still be heard.
            self._flight.landing = True
        self._require_link()
        try:
            if call.skill != 'land':
                await self._landed()
            await self._end_rest()
            return await self._do(skill(call, scene), call)
        except SkillFailedError as err:
            self._settle_anyway()
            # What the aircraft says to its motors being cut may come before the watch looks.
            why = 'emergency: the motors were cut' if self._motors_cut else err
            raise SkillFailedError(f'{call.text}: {why}') from err
        except BaseException:
            self._settle_anyway()
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

        An aircraft that lands goes on landing, and one whose motors are off is left alone. After
        this has raised, the aircraft is told again and again until it is seen to obey.
        """
        if not self._connected:
            raise RobotUnavailableError(f'Tello {self._wire.host}: expected to be connected')
        seen = False
        try:
            await self._end_rest()
            seen = await self._flight.settle_until_seen(self._options.halt_limit_s)
        finally:
            self._start_rest(insist=not seen)
        if not seen:
            raise RobotUnavailableError(
                f'Tello {self._wire.host}: told to hover, not seen to do so within '
                f'{self._options.halt_limit_s:g} s'
            )

    async def emergency(self) -> None:
        """Cut the motors at once: the aircraft falls. The call in hand fails and says so."""
        for _ in range(CUT_REPEATS):
            self._wire.mention('emergency')
            self._motors_cut = True
            await asyncio.sleep(0.02)

    # Safety

    async def _enter_sdk_mode(self) -> None:
        wire = self._wire
        wire.open()
        answered = False
        for _ in range(CONNECT_ATTEMPTS):
            async with wire.told('command') as answers:
                # Its state is its answer: it comes only from an aircraft in SDK mode.
                if await wire.wait_state(ANSWER_LIMIT_S):
                    break
                answered |= answers.count > 0
        else:
            raise RobotUnavailableError(
                f'Tello {wire.host}: no state on UDP port 8890: expected no firewall in its way'
                if answered
                else f'Tello {wire.host}: no answer to {CONNECT_ATTEMPTS} times "command": '
                'expected it to be switched on and in this network'
            )
        # Whoever flew it before may be gone in the middle of a move, or of a landing.
        self._flight.settle()
        await self._set_speed()
        if self._options.video:
            answer = await self._ask_patiently('streamon')
            if answer.lower() != 'ok':
                raise RobotUnavailableError(
                    f"Tello {wire.host}: answered {answer!r} to 'streamon': expected ok"
                )

    async def _set_speed(self) -> None:
        """Set the speed and ask for it: a number is nobody else's answer."""
        speed = speed_cm_s(self._options.speed_m_s)
        answer = ''
        for _ in range(CONNECT_ATTEMPTS):
            await self._ask_patiently(f'speed {speed}')
            answer = await self._ask_patiently('speed?')
            with contextlib.suppress(ValueError):
                if round(float(answer)) == speed:
                    return
        raise RobotUnavailableError(
            f"Tello {self._wire.host}: answered {answer!r} to 'speed?': expected {speed}"
        )

    async def _ask_patiently(self, command: str) -> str:
        for _ in range(CONNECT_ATTEMPTS):
            with contextlib.suppress(DriverTimeoutError):
                return await self._wire.ask(command, ANSWER_LIMIT_S)
        raise RobotUnavailableError(
            f'Tello {self._wire.host}: no answer to {CONNECT_ATTEMPTS} times "{command}": '
            'expected it to be in reach'
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
                if self._flight.lands:
                    raise SkillFailedError('the aircraft lands by itself')
            await asyncio.sleep(_WATCH_PERIOD_S)

    def _settle_anyway(self) -> None:
        with contextlib.suppress(RobotUnavailableError):
            self._flight.settle()

    def _start_rest(self, *, insist: bool = False) -> None:
        if (self._rest is None or self._rest.done()) and self._connected:
            self._rest = asyncio.create_task(self._be_at_rest(insist))

    async def _end_rest(self) -> None:
        """End what the driver does by itself between two calls."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.cancel()
            await asyncio.wait({rest})

    async def _landed(self) -> None:
        """Wait until a landing that the driver makes by itself has ended."""
        while self._rest is not None and self._flight.lands:
            self._require_link()
            await asyncio.sleep(_WATCH_PERIOD_S)

    async def _be_at_rest(self, insist: bool) -> None:
        """Keep it hovering and, after a while, land it; see to it that a landing ends."""
        flight, idle_since_s = self._flight, time.monotonic()
        while True:
            try:
                if not flight.may_fly:
                    insist, idle_since_s = False, time.monotonic()
                    await asyncio.sleep(STAY_PERIOD_S)
                elif flight.lands or self._has_reason_to_land(time.monotonic() - idle_since_s):
                    await flight.land()
                elif insist:
                    if await flight.settle_until_seen(1.0):
                        insist, idle_since_s = False, time.monotonic()
                else:
                    self._wire.tell('rc 0 0 0 0')
                    await asyncio.sleep(min(STAY_PERIOD_S, self._options.land_after_s))
            except TimelyError as err:
                text = 'Tello %s: at rest: %s'
                _logger.error(text, self._wire.host, err)  # noqa: TRY400 (the error says all)
                await asyncio.sleep(1.0)

    def _has_reason_to_land(self, idle_s: float) -> bool:
        try:
            self._require_battery()
        except SkillFailedError as err:
            _logger.warning('Tello %s: %s', self._wire.host, err)
            return True
        if idle_s < self._options.land_after_s:
            return False
        _logger.warning('Tello %s: nothing to do for %.0f s: landing', self._wire.host, idle_s)
        return True
