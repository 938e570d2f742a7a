"""The joints of an arm that is not there, and the controller that moves them along trajectories."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Record = Callable[[dict[str, object]], None]


@dataclass(frozen=True, slots=True)
class _Cubic:
    """One joint's motion: from a position and speed to rest elsewhere, after so long (s)."""

    start: float
    start_speed: float
    end: float
    duration_s: float

    def at(self, elapsed_s: float) -> tuple[float, float]:
        """Return position and speed."""
        if elapsed_s >= self.duration_s:
            return self.end, 0.0
        way, whole_s = self.end - self.start, self.duration_s
        share = elapsed_s / whole_s
        eased = share**2 * (3 - 2 * share)
        drift = self.start_speed * whole_s * share * (1 - share) ** 2
        speed = 6 * way / whole_s * share * (1 - share)
        speed += self.start_speed * (1 - share) * (1 - 3 * share)
        return self.start + way * eased + drift, speed


class JointBody:
    """Joints that follow trajectories as ros2_control's joint trajectory controller does.

    Every method may be called from any thread.

    Args:
        positions: Where each joint is at first (rad or m), by name.
        record: Told each event as a record of plain values.
        clock: Seconds; the machine's by default.
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
        self._motion: dict[str, _Cubic] = {}
        self._began_s = 0.0
        self._deaf = self._jammed = False
        self._note('still')

    def follow(self, names: Sequence[str], positions: Sequence[float], duration_s: float) -> bool:
        """Begin a motion to rest at these positions, in place of what is under way.

        Returns:
            Whether it was taken: as the real controller, it drops what does not name every joint
            once, and says nothing.
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
            self._motion = {
                name: _Cubic(self._positions[name], self._speeds[name], end, duration_s)
                for name, end in zip(names, positions, strict=True)
            }
            self._began_s = now_s
            goal = dict(zip(names, positions, strict=True))
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
        """Brake at once and stay, as behind an emergency stop; or be free again."""
        with self._lock:
            self._advance()
            self._jammed = jammed
            if jammed:
                self._motion.clear()
                self._speeds = dict.fromkeys(self._names, 0.0)
                self._note('still')

    def _advance(self) -> float:
        now_s = self._clock()
        if self._motion:
            elapsed_s = now_s - self._began_s
            for name, motion in self._motion.items():
                self._positions[name], self._speeds[name] = motion.at(elapsed_s)
            if all(elapsed_s >= motion.duration_s for motion in self._motion.values()):
                self._motion.clear()
                self._note('still')
        return now_s

    def _note(self, event: str, **more: object) -> None:
        positions = {name: round(value, 6) for name, value in self._positions.items()}
        self._record({'t': self._clock(), 'event': event, 'positions': positions, **more})
