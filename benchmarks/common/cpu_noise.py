"""How much of the machine others take while a benchmark measures times, and others on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICK_S = 1.0 / os.sysconf('SC_CLK_TCK')

QUIET_CORES = 0.15
"""Others that take less than this much of a core leave a measurement alone."""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Have so many processes beside this one that never rest."""
    hogs = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


class Others:
    """Counts the CPU time that neither this process nor its workers take.

    Args:
        workers: Process ids of the workers.
    """

    def __init__(self, *workers: int | None) -> None:
        self._pids = [os.getpid(), *(pid for pid in workers if pid is not None)]
        self._since_s, self._at_s = self._cpu_s(), time.monotonic()

    def cores(self) -> float:
        """Return how many cores others have kept busy since the last call."""
        before_s, before_at_s = self._since_s, self._at_s
        self._since_s, self._at_s = self._cpu_s(), time.monotonic()
        return (self._since_s - before_s) / (self._at_s - before_at_s)

    def _cpu_s(self) -> float:
        names = Path('/proc/stat').read_text().split('\n', 1)[0].split()[1:9]
        user, nice, system, _, _, irq, softirq, steal = map(int, names)
        busy = user + nice + system + irq + softirq + steal
        for pid in self._pids:
            # The name, in brackets, may hold spaces.
            fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
            busy -= int(fields[11]) + int(fields[12])
        return busy * _TICK_S
