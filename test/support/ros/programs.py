"""The programs as processes, and waiting: what every test of the nodes stands on."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import process_table

from timely_llm_ros.processes import LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[3]
PYTHONPATH = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get('PYTHONPATH')])])
"""This tree before what an installed ROS 2 has put there."""

LIMIT_S = 120.0
"""How long anything may take (s). Far more than it does: a busy machine is no failure."""

_numbers = itertools.count(1)


def wait_for(
    condition: Callable[[], Any], what: str = 'condition', limit_s: float = LIMIT_S
) -> Any:
    """Return the condition's first true value; poll it until then."""
    end_s = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end_s, f'{what}: not within {limit_s:g} s'
        time.sleep(0.01)


class Program:
    """One of the scripts, running."""

    def __init__(
        self, name: str, folder: Path, parameters: dict[str, Any], *arguments: str, namespace: str
    ) -> None:
        self.log = folder / f'{name}-{next(_numbers)}.log'
        given = [
            text
            for key, value in parameters.items()
            for text in ('-p', f'{key}:={json.dumps(value)}')
        ]
        with self.log.open('wb') as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    str(ROOT / 'scripts' / name),
                    *arguments,
                    '--ros-args',
                    '-r',
                    f'__ns:=/{namespace}',
                    *given,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=folder,
                # It ends with this process, also where that crashes.
                env=os.environ | {'PYTHONPATH': PYTHONPATH, LAUNCHER: f'true {os.getpid()}'},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def children(self) -> list[int]:
        """Process ids of its direct children, oldest first."""
        return process_table.children(self.pid)

    @property
    def output(self) -> str:
        return self.log.read_text(encoding='utf-8', errors='replace')

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        return self.process.wait(limit_s)

    def close(self) -> None:
        """End it, kindly at first."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                # Its log says then where each of its threads was.
                orphans = self.children
                for number in (signal.SIGABRT, signal.SIGKILL):
                    self.process.send_signal(number)
                    with suppress(subprocess.TimeoutExpired):
                        self.process.wait(10.0)
                for child in orphans:
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                text = f'{self.log.name}: not ended within {LIMIT_S:g} s:\n{self.output[-8000:]}'
                warnings.warn(text, stacklevel=2)
