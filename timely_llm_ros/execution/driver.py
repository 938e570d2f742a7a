"""The protocol of drivers, each of which makes one robot do skills; they are in ``drivers/``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from timely_llm_ros.skills import Call, Scene

CallValue = str | bool | None
"""What a skill returns: a blocking skill's text or bool, None for any other."""


class Driver(Protocol):
    """Makes one robot do skills. Used from one asyncio loop, one call at a time."""

    async def connect(self) -> None:
        """Open the connection.

        Raises:
            ConfigurationError: The configuration is wrong; the robot has heard nothing.
            RobotUnavailableError: The robot does not answer.
        """
        ...

    async def close(self) -> None:
        """Release the connection; idempotent, never raises for a robot that is gone."""
        ...

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do one skill to its end and return its value.

        Cancelling this stops the robot where it is; the caller then asks for the safe action.

        Raises:
            SkillFailedError: The robot refused the skill or reported failure.
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


@runtime_checkable
class EmergencyDriver(Protocol):
    """A driver of a robot whose power can be cut."""

    async def emergency(self) -> None:
        """Cut the power at once, whatever the robot does; the call in hand fails.

        Raises:
            RobotUnavailableError: The robot cannot be told.
        """
        ...


class EstimatingDriver(Protocol):
    """A driver whose robot says how long the call in hand will take."""

    @property
    def remaining_s(self) -> float | None:
        """What the robot says (s); None where it says nothing."""
        ...


class Pose(NamedTuple):
    """Where a robot is, in the frame of its scenes: x forward, y left, z up from its start."""

    x_m: float
    y_m: float
    z_m: float
    heading_rad: float
    """Counter-clockwise from its start."""


@runtime_checkable
class LocatingDriver(Protocol):
    """A driver that knows where its robot is."""

    @property
    def pose(self) -> Pose | None:
        """Where it is now; None while that is not known."""
        ...


@runtime_checkable
class BatteryDriver(Protocol):
    """A driver that knows the charge of its robot."""

    @property
    def battery_percent(self) -> float | None:
        """What is left; None while that is not known."""
        ...


@runtime_checkable
class PacedDriver(Protocol):
    """A driver that knows how fast its robot moves."""

    @property
    def speed_m_s(self) -> float:
        """At most (m/s)."""
        ...
