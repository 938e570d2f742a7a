"""Wall clocks of programs, which can be set off while they run."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SHIFT = struct.Struct('q')
"""How far a clock is off (ns), as its file has it."""


class SteppingClocks:
    """The clocks of the programs that are started with its settings.

    Without a compiler there are none, and nothing happens.

    Args:
        folder: For the library, and a file for each clock.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._library = folder, ''
        compiler, library = shutil.which('cc'), folder / 'stepping_clock.so'
        if compiler is not None:
            source = Path(__file__).with_name('stepping_clock.c')
            options = ['-shared', '-fPIC', '-O2', '-o', str(library), str(source), '-ldl']
            subprocess.run([compiler, *options], check=True)
            self._library = str(library)

    def settings(self, name: str) -> dict[str, str]:
        """Return the environment of a program whose clock can step."""
        if not self._library:
            return {}
        shift = self._folder / f'{name}.clock'
        if not shift.exists():
            shift.write_bytes(_SHIFT.pack(0))
        return {'LD_PRELOAD': self._library, 'STEPPING_CLOCK': str(shift)}

    def step(self, name: str, shift_s: int) -> None:
        """Set a program's clock off by that much (s), at once."""
        if self._library:
            with (self._folder / f'{name}.clock').open('r+b') as file:
                file.write(_SHIFT.pack(shift_s * 10**9))
