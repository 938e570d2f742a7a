"""Single motions of an Indy: each commanded, accepted by its controller, watched to its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.indy.sdk import IndySdk
from timely_llm_ros.errors import DriverTimeoutError, RobotUnavailableError, SkillFailedError

if TYPE_CHECKING:
    from timely_llm_ros.drivers.indy.options import IndyOptions

_logger = logging.getLogger(__name__)

REACHED_MM, REACHED_DEG = 2.0, 0.5
"""How near to its target a motion ends."""

BEGIN_LIMIT_S = 2.0
"""A motion that was accepted begins within this time (s)."""

RECOVERY_LIMIT_S = 10.0
"""How long the controller may take to recover (s)."""

STOP_TRIES = 2
"""How often a stop is sent before the arm counts as lost."""


class IndyArm:
    """One arm. Used from one asyncio loop.

    Every motion raises ``SkillFailedError`` if its target is outside of the workspace, if the
    controller refuses it, or if the arm stops before its end, and ``RobotUnavailableError`` if the
    link is lost.
    """

    def __init__(self, options: IndyOptions) -> None:
        self._options, self._gripper = options, options.gripper
        self._sdk = IndySdk(options)

    async def connect(self) -> None:
        """Start the SDK and ask the arm for its state; an arm in violation can be connected too.

        Raises:
            ConfigurationError: The SDK is missing.
            RobotUnavailableError: The controller does not answer.
        """
        if not self._sdk.alive:
            await self._sdk.start()
        status = await self._status()
        if not status['ready']:
            _logger.warning('the arm is in %s', _trouble(status))

    async def close(self) -> None:
        """End the SDK's process; idempotent."""
        await self._sdk.close()

    async def line(self, x_m: float, y_m: float, z_m: float) -> None:
        """Move the tool in a straight line to a point of the base's frame (m)."""
        await self._move('move_line', self._options.tool_pose(x_m, y_m, z_m))

    async def home(self) -> None:
        """Move the joints to the controller's home position."""
        await self._move('move_joints', await self._sdk.call('home'))

    async def grip(self, what: str) -> None:
        """``open`` or ``close`` the gripper and give it its time."""
        if self._gripper is None:
            raise SkillFailedError(f'{what} gripper: there is none: expected gripper_port')
        operation, fields = self._gripper
        await self._be_ready()
        _require_taken(await self._sdk.call(operation, **fields[what]), f'{what} gripper')
        await asyncio.sleep(self._options.gripper_s)

    async def stop(self) -> None:
        """Tell the arm to stop smoothly; an SDK that is gone is started for it.

        Raises:
            RobotUnavailableError: The link is lost, or the controller does not take the stop.
        """
        if not self._sdk.alive:
            await self._sdk.start()
        for left in reversed(range(STOP_TRIES)):
            try:
                _require_taken(await self._sdk.call('stop'), 'stop')
            except RobotUnavailableError:
                if not left:
                    raise
            except SkillFailedError as err:
                # A controller that is off takes no stop; the brakes hold the arm.
                if (await self._sdk.call('status'))['ready']:
                    raise RobotUnavailableError(str(err)) from err
                return
            else:
                return

    async def let_go(self) -> None:
        """Tell the arm to stop, once, whether it hears or not: the safe action comes next."""
        with contextlib.suppress(RobotUnavailableError, SkillFailedError):
            await self._sdk.call('stop')

    async def stand_still(self) -> None:
        """Wait until the arm does not move."""
        while (await self._status())['is_in_motion']:
            await asyncio.sleep(self._options.poll_s)

    async def _move(self, operation: str, target: list[float]) -> None:
        await self._be_ready()
        answer = await self._sdk.call(
            operation,
            target=target,
            velocity=round(100 * self._options.speed),
            acceleration=round(100 * self._options.acceleration),
        )
        _require_taken(answer, f'motion to {_rounded(target)}')
        loop = asyncio.get_running_loop()
        accepted_s, begun = loop.time(), False
        while True:
            await asyncio.sleep(self._options.poll_s)
            status = await self._status()
            if not status['ready']:
                raise SkillFailedError(f'the arm stopped: {_trouble(status)}')
            if status['is_in_motion']:
                begun = True
                continue
            # For a moment after the command the state still tells of the motion before it, so
            # "reached" counts only where the arm is.
            if operation == 'move_joints':
                unit, near = 'deg', REACHED_DEG
                off = max(abs(a - b) for a, b in zip(status['q'], target, strict=True))
            else:
                off, unit, near = math.dist(status['p'][:3], target[:3]), 'mm', REACHED_MM
            if status['is_target_reached'] and off <= near:
                return
            if begun or loop.time() - accepted_s > BEGIN_LIMIT_S:
                raise SkillFailedError(
                    f'motion to {_rounded(target)}: the arm stands still {off:.1f} {unit} from it'
                )

    async def _be_ready(self) -> None:
        """Refuse to move an arm that is in violation, or recover it where that was asked for."""
        status = await self._status()
        if status['ready']:
            return
        trouble = _trouble(status)
        if not self._options.auto_recover:
            raise SkillFailedError(f'the arm is in {trouble}: expected a person to recover it')
        _logger.warning('recovering the arm from %s', trouble)
        _require_taken(await self._sdk.call('recover'), f'recovery from {trouble}')
        try:
            async with asyncio.timeout(RECOVERY_LIMIT_S):
                while not (await self._status())['ready']:
                    await asyncio.sleep(self._options.poll_s)
        except TimeoutError:
            raise DriverTimeoutError(
                f'recovery from {trouble}: not over within {RECOVERY_LIMIT_S:g} s'
            ) from None

    async def _status(self) -> dict[str, Any]:
        """Return the arm's state; one answer that is missing is not yet a lost link."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            try:
                status: dict[str, Any] = await self._sdk.call('status')
            except RobotUnavailableError:
                if not self._sdk.alive or loop.time() - began_s > self._options.link_limit_s:
                    raise
                await asyncio.sleep(self._options.poll_s)
            else:
                return status


def _require_taken(answer: dict[str, Any], what: str) -> None:
    # The SDK hands 64-bit numbers out as text.
    code = int(answer.get('code', 0))
    if code:
        raise SkillFailedError(f'{what}: refused with code {code}: {answer.get("msg", "")}')


def _trouble(status: dict[str, Any]) -> str:
    return f'{status["state"]} ({status.get("violation") or "no further text"})'


def _rounded(target: list[float]) -> str:
    return f'({", ".join(f"{value:.1f}" for value in target)})'
