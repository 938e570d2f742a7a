"""The protocol of a driver, which makes one robot do skills. The drivers are in ``drivers/``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from timely_llm_ros.skills import Call, Scene

CallValue = str | bool | None
"""What a skill returns: a blocking skill's text or bool, None for any other."""


class Driver(Protocol):
    """Makes one robot do skills. Used from one asyncio loop, one call at a time."""

    async def connect(self) -> None:
        """Open the connection.

        Raises:
            ConfigurationError: It cannot be opened as it is configured; the robot has heard
                nothing.
            RobotUnavailableError: The robot does not answer.
        """
        ...

    async def close(self) -> None:
        """Release the connection; idempotent, never raises for a robot that is gone."""
        ...

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do one skill to its end and return its value.

        Cancelling it stops the robot where it is; the caller then asks for the safe action.

        Raises:
            SkillFailedError: The robot refused it or reported failure.
            DriverTimeoutError: The robot stopped answering in the middle.
            RobotUnavailableError: The connection is lost.
        """
        ...

    async def safe(self) -> None:
        """Issue the robot's declared safe action within 0.5 s.

        Idempotent; works after any failure and from a process that has only just connected.

        Raises:
            RobotUnavailableError: The connection is lost.
        """
        ...
