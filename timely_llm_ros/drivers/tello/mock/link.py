"""The radio link of a mock Tello: which datagrams arrive, how often and how late."""

from __future__ import annotations

import random

from timely_llm_ros.errors import ConfigurationError

LATE_COPY_S = 1.0
"""The second copy of a datagram that arrives twice comes up to this much later (s)."""


class Link:
    """Loses, doubles and delays datagrams. Delays differ, so datagrams overtake one another.

    Args:
        seed: Equal seeds treat equal datagrams equally.
        loss: Share of datagrams that get lost, each way.
        double: Share of those from the aircraft that arrive twice.
        delay_s: Those from the aircraft arrive up to this late (s).

    Raises:
        ConfigurationError: A share is not one, or a delay not 0 to 10 s.
    """

    def __init__(
        self, seed: str, *, loss: float = 0.0, double: float = 0.0, delay_s: float = 0.0
    ) -> None:
        self._random = random.Random(seed)
        self.set(loss=loss, double=double, delay_s=delay_s)

    def set(self, *, loss: float = 0.0, double: float = 0.0, delay_s: float = 0.0) -> None:
        """Become better or worse; raises as for the constructor."""
        given = (('loss', loss, 1.0), ('double', double, 1.0), ('delay', delay_s, 10.0))
        for name, value, greatest in given:
            if not 0 <= value <= greatest:
                raise ConfigurationError(f'{name} {value!r}: expected 0 to {greatest:g}')
        self.loss, self.double, self.delay_s = loss, double, delay_s

    def loses(self) -> bool:
        """Return whether the next datagram is lost."""
        return self.loss > 0 and self._random.random() < self.loss

    def delays_s(self) -> list[float]:
        """Return how late the next datagram of the aircraft arrives (s), each time it does."""
        if self.loses():
            return []
        delays_s = [self._random.uniform(0, self.delay_s)]
        if self._random.random() < self.double:
            delays_s.append(delays_s[0] + self._random.uniform(0, LATE_COPY_S))
        return delays_s
