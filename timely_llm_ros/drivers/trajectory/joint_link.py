"""The protocol by which a driver commands and watches joints; over ROS, ``JointTopics``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class JointReading:
    """What was last heard of one joint.

    Attributes:
        position: Where it is (rad or m).
        velocity: How fast it moves (rad/s or m/s); 0 where that is not told.
        heard_s: When that was heard (s on the loop's clock).
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
        """Return once a new reading is there, after ``limit_s`` (s) in any case."""
        ...
