"""The state that a Tello sends ten times a second: battery, height, heading, whether it moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Telemetry:
    """The last state that was heard of one aircraft; a field that was never heard is None.

    Attributes:
        heard_s: When the last state came, on the monotonic clock (s).
        still_states: How many states in a row were without motion.
    """

    def __init__(self) -> None:
        self.heard_s = float('-inf')
        self.still_states = 0
        self._fields: Mapping[str, object] = {}
        self._stance: tuple[object, ...] = ()

    def note(self, fields: Mapping[str, object], heard_s: float) -> None:
        """Take a state, whose fields have the SDK's names."""
        self.heard_s, self._fields = heard_s, fields
        stance = tuple(fields.get(key) for key in ('vgx', 'vgy', 'vgz', 'yaw', 'h'))
        moves = any(stance[:3]) or (self._stance and stance[3:] != self._stance[3:])
        self.still_states = 0 if moves else self.still_states + 1
        self._stance = stance

    def forget(self) -> None:
        """Forget all but when the aircraft was heard."""
        self._fields = {}

    @property
    def silence_s(self) -> float:
        """Time since the last state (s)."""
        return time.monotonic() - self.heard_s

    @property
    def battery_percent(self) -> int | None:
        """Charge left."""
        return self._integer('bat')

    @property
    def height_m(self) -> float | None:
        """Height above where it took off."""
        height_cm = self._integer('h')
        return None if height_cm is None else height_cm / 100

    @property
    def yaw_deg(self) -> int | None:
        """Heading, clockwise."""
        return self._integer('yaw')

    def _integer(self, name: str) -> int | None:
        value = self._fields.get(name)
        return value if isinstance(value, int) else None
