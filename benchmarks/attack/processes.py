"""What processes take: memory, descriptors, threads."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.attack.rules import Breach
from benchmarks.common import family

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.common import Sample

PR_SET_CHILD_SUBREAPER = 36

SLOPES = {'memory_mb': 2.0, 'descriptors': 0.5, 'threads': 0.5}
"""Growth that is allowed in an hour without a fault."""

WARM_UP_S = 45.0
"""How long a program may grow after its start (s)."""

GROWTH = {'memory_mb': 24.0, 'descriptors': 32.0, 'threads': 8.0}
"""How much more a program may have at its end than when it had warmed up: other programs come and
go meanwhile, and what was new to it was loaded."""


def grown(name: str, samples: Sequence[Sample]) -> list[Breach]:
    """No program takes more and more."""
    if len(samples) < 2 or samples[-1].at_s - samples[0].at_s < 3 * WARM_UP_S:
        return []
    warm_s = samples[0].at_s + WARM_UP_S
    before = [item for item in samples if warm_s <= item.at_s < warm_s + WARM_UP_S]
    after = [item for item in samples if item.at_s > samples[-1].at_s - WARM_UP_S]
    breaches = []
    for what, bound in GROWTH.items():
        first, last = (median(getattr(item, what) for item in part) for part in (before, after))
        if last - first > bound:
            told = f'{name}: {what} from {first:.0f} to {last:.0f}'
            breaches.append(Breach(samples[-1].at_s, 'nothing grows', told))
    return breaches


def slope_per_hour(samples: Sequence[Sample], what: str) -> float:
    """Return by how much a line through the second half of the samples rises in an hour."""
    later = samples[len(samples) // 2 :]
    if len(later) < 3:
        return 0.0
    hours = [item.at_s / 3600.0 for item in later]
    return float(np.polyfit(hours, [getattr(item, what) for item in later], 1)[0])


def adopt_orphans() -> None:
    """Have whoever loses its parent below this process become its child."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def left_over() -> list[str]:
    """Return the command lines of what this process, which adopts orphans, has as children."""
    commands = []
    for member in family(os.getpid())[1:]:
        try:
            command = Path(f'/proc/{member}/cmdline').read_bytes().replace(b'\0', b' ').decode()
        except OSError:
            continue
        if command:
            commands.append(f'{member} {command[:80]}')
    return commands
