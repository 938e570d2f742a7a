"""The state that a Tello sends ten times a second, and what a few of them in a row say of it.

States have neither a number nor a time of their own, and a link may lose, double, delay and reorder
them. So nothing of weight rests on a single one: standing still and motors that are off are what
several in a row say, and what can be seen to be older than the last one is left out.
"""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MOTORS_OFF_S = 1.5
"""Motors are off if their seconds have not counted on for this long (s), and in so many states. It
is a second and what a late state may be late."""

MOTORS_OFF_STATES = 5

LOW_CM = 30
"""An aircraft that measures no more than this down to the ground (cm) may stand on it."""

_FURTHEST_CM = 1000
"""More than this down to the ground (cm) is no measurement: 6553 says that there was none."""

_HALF_STEP_DM_S = 0.5
"""A velocity is rounded by at most this (dm/s); that much is taken for flown too."""

_STEADY_DEG = 1
"""A heading that changes by no more from state to state (degrees) is steady."""

_GOES_DOWN_DM_S = 2
"""Least velocity down (dm/s) that is more than the unrest of hovering."""

_LONGEST_GAP_S = 1.0
"""What is flown between two states further apart (s) than this is not known."""

_FRESH_S = 0.5
"""A state that is older (s) does not say which way the aircraft goes now."""

_OLDER_STATES = 15
"""A copy of one of so many states, or so many in a row with fewer seconds, are told apart."""


class Telemetry:
    """The last state that was heard of one aircraft; a field that was never heard is None.

    Args:
        drift_dm_s: An aircraft that is no faster than this (dm/s) stands still.

    Attributes:
        heard_s: When the last state came, on the monotonic clock (s).
        still_states: How many states in a row were without motion, since the last :meth:`mark`.
        down_states: How many states in a row said that it goes straight down.
        still_since_s: When the first of them came (s).
        path_m: How far it has flown since the last mark, along its path, by its velocities.
    """

    def __init__(self, drift_dm_s: int = 0) -> None:
        self._drift_dm_s = drift_dm_s
        self.heard_s = float('-inf')
        self._fields: Mapping[str, object] = {}
        self._older: deque[Mapping[str, object]] = deque(maxlen=_OLDER_STATES)
        self.forget()
        self.mark()

    def mark(self) -> None:
        """Measure motion from now on."""
        self.still_states, self.still_since_s = 0, float('inf')
        self.path_m = self._turned_deg = 0.0
        self._marked_h_cm, self._marked_tof_cm = self._integer('h'), self._tof_cm

    def doubt_motors(self) -> None:
        """Take the motors for neither on nor off until later states have said which."""
        self._counts_on, self._same_since_s, self._same_states = False, time.monotonic(), 0

    def forget(self) -> None:
        """Forget all but when the aircraft was heard."""
        self._fields, self._motor_s, self._fewer_states = {}, -1, 0
        self.down_states = 0
        self._older.clear()
        self.doubt_motors()

    def note(self, fields: Mapping[str, object], heard_s: float) -> None:
        """Take a state, whose fields have the SDK's names."""
        gap_s, self.heard_s = heard_s - self.heard_s, heard_s
        if (fields != self._fields and fields in self._older) or self._has_fewer_seconds(fields):
            return
        before, self._fields = self._fields, fields
        self._older.append(fields)
        self.down_states = self.down_states + 1 if self.goes_down else 0
        self._note_motors(heard_s)
        self._note_motion(before, min(gap_s, _LONGEST_GAP_S), heard_s)

    @property
    def silence_s(self) -> float:
        """Time since the last state (s)."""
        return time.monotonic() - self.heard_s

    @property
    def motors_turn(self) -> bool | None:
        """Whether its motors turn, which is whether it flies; None while that is not known."""
        same_s, tof_cm = self.heard_s - self._same_since_s, self._tof_cm
        is_over_ground = tof_cm is not None and tof_cm > LOW_CM
        if same_s >= MOTORS_OFF_S and self._same_states >= MOTORS_OFF_STATES:
            return None if is_over_ground else False
        return True if self._counts_on else None

    @property
    def turned_deg(self) -> float:
        """By how much it has turned since the last mark (degrees)."""
        return abs(self._turned_deg)

    @property
    def risen_m(self) -> float:
        """By how much it has risen since the last mark (m), by whatever measures more."""
        pairs = (self._integer('h'), self._marked_h_cm), (self._tof_cm, self._marked_tof_cm)
        return max(
            (now - then) / 100 if now is not None and then is not None else 0.0
            for now, then in pairs
        )

    @property
    def has_moved(self) -> bool:
        """Whether it has flown or turned since the last mark."""
        return self.path_m > 0 or self.turned_deg > _STEADY_DEG

    @property
    def goes_down(self) -> bool:
        """Whether it goes straight down now."""
        ahead, aside, down = _velocity(self._fields)
        sideways = max(abs(ahead), abs(aside))
        return sideways < _GOES_DOWN_DM_S <= down and self.silence_s < _FRESH_S

    @property
    def is_low(self) -> bool:
        """Whether it may stand on the ground."""
        tof_cm = self._tof_cm
        return tof_cm is not None and tof_cm <= LOW_CM

    @property
    def is_up(self) -> bool:
        """Whether it measures that it is above the ground."""
        return max(self._integer('h') or 0, self._tof_cm or 0) > LOW_CM

    @property
    def battery_percent(self) -> int | None:
        """Charge left."""
        return self._integer('bat')

    @property
    def height_m(self) -> float | None:
        """Height above where it took off; some report it half a metre too low."""
        height_cm = self._integer('h')
        return None if height_cm is None else height_cm / 100

    @property
    def yaw_deg(self) -> int | None:
        """Heading, clockwise."""
        return self._integer('yaw')

    @property
    def _tof_cm(self) -> int | None:
        """How far it measures down to the ground (cm)."""
        tof_cm = self._integer('tof')
        return tof_cm if tof_cm is not None and tof_cm <= _FURTHEST_CM else None

    def _has_fewer_seconds(self, fields: Mapping[str, object]) -> bool:
        """Return whether a state is older than the last; many in a row are a new beginning."""
        seconds = fields.get('time')
        if not isinstance(seconds, int) or seconds >= self._motor_s:
            self._fewer_states = 0
            return False
        self._fewer_states += 1
        if self._fewer_states < _OLDER_STATES:
            return True
        self._motor_s = -1
        return False

    def _note_motors(self, heard_s: float) -> None:
        seconds = self._integer('time')
        if seconds is None:
            return
        if seconds == self._motor_s:
            self._same_states += 1
            return
        self._counts_on = self._motor_s >= 0
        self._motor_s, self._same_since_s, self._same_states = seconds, heard_s, 0

    def _note_motion(self, before: Mapping[str, object], gap_s: float, heard_s: float) -> None:
        velocity, earlier = _velocity(self._fields), _velocity(before)
        yaw_deg, yaw_before = self._fields.get('yaw'), before.get('yaw')
        turned_deg = 0.0
        if isinstance(yaw_deg, int) and isinstance(yaw_before, int):
            turned_deg = math.remainder(yaw_deg - yaw_before, 360)
        self._turned_deg += turned_deg
        slower_dm_s, faster_dm_s = sorted((math.hypot(*velocity), math.hypot(*earlier)))
        if faster_dm_s > self._drift_dm_s:
            self.path_m += (slower_dm_s + faster_dm_s) / 20 * gap_s
        if slower_dm_s > self._drift_dm_s:
            self.path_m += _HALF_STEP_DM_S / 10 * gap_s
        steady = max(map(abs, velocity)) <= self._drift_dm_s and abs(turned_deg) <= _STEADY_DEG
        if not steady:
            self.still_states, self.still_since_s = 0, float('inf')
            return
        self.still_states += 1
        self.still_since_s = min(self.still_since_s, heard_s)

    def _integer(self, name: str) -> int | None:
        value = self._fields.get(name)
        return value if isinstance(value, int) else None


def _velocity(fields: Mapping[str, object]) -> tuple[int, int, int]:
    """Return the velocity (dm/s) ahead, to the right and down."""
    ahead, aside, down = (fields.get(name) for name in ('vgx', 'vgy', 'vgz'))
    return (
        ahead if isinstance(ahead, int) else 0,
        aside if isinstance(aside, int) else 0,
        down if isinstance(down, int) else 0,
    )
