"""What is done to the fleet, and when: everything follows from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SETTLE_S = 15.0
"""How long after its end a fault may still explain that a task fails (s)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault.

    Attributes:
        targets: What it may hit; programs by name, or "" where there is no choice.
        lasts_s: The least and greatest time until it is over, or mended by a start (s).
        harms: Whether tasks of the robots that it hits may fail.
        alone: Whether no other fault that is alone comes at the same time.
    """

    targets: Sequence[str] = ('',)
    lasts_s: tuple[float, float] = (0.5, 4.0)
    harms: bool = True
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: from ``at_s`` (s since the start of the attack) for ``lasts_s``."""

    at_s: float
    kind: str
    target: str
    lasts_s: float
    seed: int
    alone: bool = True

    def __str__(self) -> str:
        what = f'{self.kind} {self.target}'.rstrip()
        return f'{what} at {self.at_s:.1f} s for {self.lasts_s:.1f} s'


def kinds(executors: Sequence[str], clients: Sequence[str]) -> dict[str, Kind]:
    """Return all kinds of faults of a fleet with these programs."""
    return {
        'planner killed': Kind(),
        'planner stopped': Kind(lasts_s=(1.0, 5.0)),
        'planner interrupted': Kind(),
        'worker killed': Kind(executors),
        'worker hung': Kind(executors),
        'guard killed': Kind(executors),
        'worker and guard killed': Kind(executors),
        'executor interrupted': Kind(executors),
        'client killed': Kind(clients),
        'link cut': Kind(lasts_s=(1.0, 6.0)),
        'second planner': Kind(harms=False),
        'second executor': Kind(executors, harms=False),
        'recorder killed': Kind(harms=False),
        'recorder interrupted': Kind(harms=False),
        'disk full': Kind(lasts_s=(2.0, 5.0), harms=False),
        'bad link': Kind(lasts_s=(8.0, 20.0), alone=False),
        'stranger': Kind(lasts_s=(5.0, 10.0), harms=False, alone=False),
        'hostile goals': Kind(lasts_s=(2.0, 4.0), harms=False, alone=False),
        'clock steps': Kind(lasts_s=(3.0, 8.0), harms=False, alone=False),
        'damaged traces': Kind(lasts_s=(1.0, 1.0), harms=False, alone=False),
    }


def schedule(known: Mapping[str, Kind], *, seed: int, length_s: float) -> list[Fault]:
    """Return the faults in the order in which they come.

    Those that are alone follow one another with time to recover; the others come at the same time.
    Each kind comes once before any comes twice.

    Args:
        known: The kinds of faults by name.
        seed: Equal seeds give equal faults.
        length_s: The last fault is over at this time (s).
    """
    faults = []
    for alone, pause_s in ((True, (7.0, 12.0)), (False, (4.0, 8.0))):
        rng = random.Random(f'{seed} {alone}')
        names = [name for name, kind in known.items() if kind.alone == alone]
        at_s, bag = rng.uniform(2.0, 6.0), list[str]()
        while True:
            if not bag:
                bag = rng.sample(names, len(names))
            kind = known[name := bag.pop()]
            lasts_s = rng.uniform(*kind.lasts_s)
            if at_s + lasts_s > length_s:
                break
            faults.append(
                Fault(at_s, name, rng.choice(kind.targets), lasts_s, rng.getrandbits(32), alone)
            )
            at_s += lasts_s + rng.uniform(*pause_s)
    return sorted(faults, key=lambda fault: fault.at_s)
