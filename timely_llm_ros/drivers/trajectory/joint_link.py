"""The protocol by which a driver commands and watches joints. ``JointTopics`` has it over ROS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class JointReading:
    """What was last heard of one joint.

    Attributes:
        position: In rad, or in m for a sliding joint.
        velocity: In rad/s or m/s; 0 where the arm does not tell it.
        heard_s: When it was heard (s on the loop's clock).
    """

    position: float
    velocity: float
    heard_s: float


class JointLink(Protocol):
    """The joints of one arm. Used from one asyncio loop."""

    @property
    def readings(self) -> Mapping[str, JointReading]:
        """The latest reading of every joint that was heard of."""
        ...

    @property
    def has_controller(self) -> bool:
        """Whether somebody takes trajectories."""
        ...

    async def open(self) -> None:
        """Begin to listen; idempotent."""
        ...

    async def close(self) -> None:
        """Stop listening; idempotent."""
        ...

    def command(self, positions: Mapping[str, float], duration_s: float) -> None:
        """Send a trajectory that ends at rest at these positions (rad or m) after so long (s)."""
        ...

    async def heard(self, limit_s: float) -> None:
        """Return once there is a new reading, and after ``limit_s`` (s) at the latest."""
        ...
