"""Drives a rover over TCP.

It takes lines such as ``3 forward 1.5`` and answers each with its number and ``ok``, or with its
number and what is wrong; ``halt`` ends the line before it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import RobotUnavailableError, SkillFailedError
from timely_llm_ros.options import check_options, option

if TYPE_CHECKING:
    from timely_llm_ros.execution import CallValue, Perception
    from timely_llm_ros.skills import Call, Scene, SkillSet


@dataclass(frozen=True, slots=True, kw_only=True)
class RoverOptions:
    """How one rover is reached."""

    host: str
    port: int = option(7000, 'TCP port.', minimum=1, maximum=65535)

    def __post_init__(self) -> None:
        check_options(self)

    def make_driver(
        self,
        robot: str,  # noqa: ARG002 (this rover has no need of its name, nor of eyes)
        skill_set: SkillSet,  # noqa: ARG002
        perception: Perception | None,  # noqa: ARG002
    ) -> RoverDriver:
        """Return the driver of one rover."""
        return RoverDriver(self)


class RoverDriver:
    """Drives one rover."""

    def __init__(self, options: RoverOptions) -> None:
        self._options = options
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._number = 0

    async def connect(self) -> None:
        """Open the connection."""
        host, port = self._options.host, self._options.port
        await self.close()
        try:
            async with asyncio.timeout(2.0):
                self._reader, self._writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError) as err:
            raise RobotUnavailableError(f'rover at {host}:{port}: {err!r}') from err

    async def close(self) -> None:
        """Close the connection."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def execute(self, call: Call, scene: Scene) -> CallValue:  # noqa: ARG002 (no objects)
        """Do one skill."""
        match call.skill:
            case 'forward':
                (distance,) = call.arguments
                await self._send(f'forward {distance.value}')  # in metres
            case 'halt':
                await self.safe()
        return None

    async def safe(self) -> None:
        """Halt, whatever it does."""
        async with asyncio.timeout(0.5):
            await self._send('halt')

    async def _send(self, line: str) -> None:
        if self._reader is None or self._writer is None:
            raise RobotUnavailableError('rover: expected to be connected')
        self._number += 1
        number, answer = str(self._number), ['']
        try:
            self._writer.write(f'{number} {line}\n'.encode())
            await self._writer.drain()
            # Answers to lines that nobody waits for any more come first.
            while answer[0] != number:
                answer = (await self._reader.readline()).decode().strip().split(maxsplit=1)
                if not answer:
                    raise RobotUnavailableError('rover: the connection is closed')
        except OSError as err:
            raise RobotUnavailableError(f'rover: {err}') from err
        if answer[1:] != ['ok']:
            raise SkillFailedError(f'{line}: {" ".join(answer[1:])}')
