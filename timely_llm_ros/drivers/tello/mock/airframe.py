"""What carries a mock Tello through the air, where that is more than a pose that it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from timely_llm_ros.drivers.tello.mock.pose import Pose


class Airframe(Protocol):
    """A body that is steered to poses and comes there as well as it can.

    Times are those of the aircraft's own clock and never go back.
    """

    def steer(self, now_s: float, aim: Pose, *, motors: bool) -> None:
        """Have it fly to a pose from now on, or let it fall with its motors off."""
        ...

    @property
    def pose(self) -> Pose:
        """Where it is: z above the place of its first take-off."""
        ...

    @property
    def velocity_m_s(self) -> tuple[float, float, float]:
        """How fast it is: forward, left and up (m/s)."""
        ...

    @property
    def is_wreck(self) -> bool:
        """Whether it has turned over and cannot fly any more."""
        ...
