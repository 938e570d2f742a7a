"""The joints of a mock arm, and the controller that moves them along trajectories."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from scipy.interpolate import CubicHermiteSpline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Record = Callable[[dict[str, object]], None]


class JointBody:
    """Joints that follow trajectories as ros2_control's joint trajectory controller does.

    Every method may be called from any thread.

    Args:
        positions: Where each joint is at first (rad or m), by name.
        record: Told each event as a record of plain values.
        clock: Tells the time (s).
    """

    def __init__(
        self,
        positions: Mapping[str, float],
        record: Record,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = tuple(positions)
        self._positions = dict(positions)
        self._speeds = dict.fromkeys(self._names, 0.0)
        self._record, self._clock = record, clock
        self._lock = threading.Lock()
        self._motion: CubicHermiteSpline | None = None
        self._began_s = 0.0
        self._deaf = self._jammed = False
        self._note('still')

    def follow(self, names: Sequence[str], positions: Sequence[float], duration_s: float) -> bool:
        """Begin a motion to rest at these positions, in place of the one under way.

        Returns:
            Whether it was taken: like the real controller, the mock silently drops a trajectory
            that does not name every joint once.
        """
        with self._lock:
            now_s = self._advance()
            if (
                self._deaf
                or sorted(names) != sorted(self._names)
                or len(positions) != len(names)
                or not duration_s > 0
            ):
                self._note('dropped', names=list(names))
                return False
            if self._jammed:
                self._note('jammed')
                return True
            goal = dict(zip(names, positions, strict=True))
            self._motion = CubicHermiteSpline(
                (0.0, duration_s),
                (list(self._positions.values()), [goal[name] for name in self._names]),
                (list(self._speeds.values()), [0.0] * len(goal)),
            )
            self._began_s = now_s
            self._note('move', goal=goal, duration_s=duration_s)
            return True

    def joints(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return positions and speeds by joint, now."""
        with self._lock:
            self._advance()
            return dict(self._positions), dict(self._speeds)

    def drop_all(self, drop: bool) -> None:
        """Drop every trajectory from now on, or take them again."""
        with self._lock:
            self._deaf = drop

    def jam(self, jammed: bool) -> None:
        """Brake at once and stay, as after an emergency stop; or be free again."""
        with self._lock:
            self._advance()
            self._jammed = jammed
            if jammed:
                self._motion = None
                self._speeds = dict.fromkeys(self._names, 0.0)
                self._note('still')

    def _advance(self) -> float:
        now_s = self._clock()
        if self._motion is not None:
            duration_s = float(self._motion.x[-1])
            elapsed_s = min(now_s - self._began_s, duration_s)
            self._positions = self._by_name(self._motion(elapsed_s))
            self._speeds = self._by_name(self._motion(elapsed_s, 1))
            if elapsed_s == duration_s:
                self._motion, self._speeds = None, dict.fromkeys(self._names, 0.0)
                self._note('still')
        return now_s

    def _by_name(self, values: Any) -> dict[str, float]:
        return dict(zip(self._names, values.tolist(), strict=True))

    def _note(self, event: str, **more: object) -> None:
        positions = {name: round(value, 6) for name, value in self._positions.items()}
        self._record({'t': self._clock(), 'event': event, 'positions': positions, **more})
