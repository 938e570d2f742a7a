"""Mock Tellos as a process of their own, and what their record says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.loopback import free_addresses
from support.ros.programs import LIMIT_S, ROOT, wait_for

if TYPE_CHECKING:
    from pathlib import Path

PATIENT = {'link_timeout_s': 5.0, 'halt_limit_s': 1.5}
"""On a busy machine everybody may be silent for a while."""


class MockTellos:
    """Aircraft by the names of their robots, each on an address of its own."""

    def __init__(self, folder: Path, robots: list[str], *, speed: float = 4.0) -> None:
        self._journal = folder / 'mocks.jsonl'
        local, *hosts = free_addresses(1 + len(robots))
        self.hosts = dict(zip(robots, hosts, strict=True))
        self.drivers: dict[str, dict[str, Any]] = {
            robot: {
                'driver': 'tello',
                'address': host,
                'local_address': local,
                'perception': 'simulated',
                # So that a long move outlasts whatever a test does to it.
                'speed_m_s': 0.1,
                **PATIENT,
            }
            for robot, host in self.hosts.items()
        }
        """Their entries of a drivers file."""
        command = [sys.executable, '-m', 'timely_llm_ros.drivers.tello.mock', '--control']
        command += ['--journal', str(self._journal), '--speed', str(speed)]
        for host in hosts:
            command += ['--host', host]
        with (folder / 'mocks.log').open('wb') as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {'PYTHONPATH': str(ROOT)},
            )
        wait_for(lambda: b'mock Tellos at' in (folder / 'mocks.log').read_bytes(), 'mocks')

    def fault(self, robot: str, text: str) -> None:
        """Have something go wrong, and wait until it has."""
        before = len(self._what(robot, 'fault'))
        assert self._process.stdin is not None
        self._process.stdin.write(f'{self.hosts[robot]} {text}\n'.encode())
        self._process.stdin.flush()
        wait_for(lambda: len(self._what(robot, 'fault')) > before, f'fault {text}')

    def commands(self, robot: str) -> list[str]:
        """Return what it was told, what keeps it hovering left out."""
        return [what for what in self._what(robot, 'command') if what != 'rc 0 0 0 0']

    def phases(self, robot: str) -> list[str]:
        """Return the phases that it entered."""
        return self._what(robot, 'phase')

    def wait_phase(self, robot: str, *phases: str) -> None:
        """Wait until it is in one of these phases."""
        wait_for(lambda: self.phases(robot)[-1:] in [[phase] for phase in phases], f'{phases}')

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(LIMIT_S)

    def _what(self, robot: str, event: str) -> list[str]:
        if not self._journal.exists():
            return []
        lines = self._journal.read_text(encoding='utf-8').splitlines(keepends=True)
        entries = [json.loads(line) for line in lines if line.endswith('\n')]
        host = self.hosts[robot]
        return [e['what'] for e in entries if (e['host'], e['event']) == (host, event)]
