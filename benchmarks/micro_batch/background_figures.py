"""What the parts of the background's benchmark add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.common import QUIET_CORES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a round."""

    name: str
    round: int
    seconds: float
    urgent_s: list[float]
    busy_s: float
    tokens: int
    plans: int
    interrupted: int
    """Steps of the background that a robot interrupted."""
    others_cores: float
    """How many cores other programs kept busy meanwhile."""


def quiet_rounds(parts: list[Part]) -> list[int]:
    """Return the numbers of the rounds in which other programs left the machine alone."""
    disturbed = {part.round for part in parts if part.others_cores >= QUIET_CORES}
    return sorted({part.round for part in parts} - disturbed)


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out, over some of the rounds."""

    urgent_s: dict[str, FloatArray]
    delay_s: float
    idle_share: float
    alone_per_s: float
    beside_per_s: float
    interrupted_per_s: float

    @property
    def rise(self) -> float:
        """By how much the urgent p99 is higher with the background."""
        return self.percentile_s('both', 99) / self.percentile_s('robots', 99) - 1

    @property
    def share(self) -> float:
        """The background's throughput over the idle capacity."""
        return self.beside_per_s / (self.alone_per_s * self.idle_share)

    def percentile_s(self, name: str, percent: float) -> float:
        return float(np.percentile(self.urgent_s[name], percent))


def figures_of(parts: list[Part], rounds: Sequence[int]) -> Figures:
    """Add up the parts of these rounds, of which one may be there several times."""
    by_name = {
        name: {part.round: part for part in parts if part.name == name}
        for name in ('robots', 'both', 'background')
    }
    chosen = {name: [by_name[name][number] for number in rounds] for name in ('robots', 'both')}
    urgent_s = {
        name: np.concatenate([part.urgent_s for part in found]) for name, found in chosen.items()
    }

    def rate(found: Iterable[Part], value: str) -> float:
        found = list(found)
        return float(sum(getattr(p, value) for p in found) / sum(p.seconds for p in found))

    return Figures(
        urgent_s,
        float(np.mean(urgent_s['both'] - urgent_s['robots'])),
        1.0 - rate(chosen['robots'], 'busy_s'),
        rate(by_name['background'].values(), 'tokens'),
        rate(chosen['both'], 'tokens'),
        rate(chosen['both'], 'interrupted'),
    )
