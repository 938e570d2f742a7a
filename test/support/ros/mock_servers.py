"""The program that mocks what a robot offers, in the namespace of a fleet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.ros.programs import LIMIT_S, ROOT, wait_for

from timely_llm_ros.drivers import read_journal

if TYPE_CHECKING:
    from pathlib import Path


class MockServers:
    """Mocks of everything that a calls file names."""

    def __init__(
        self, folder: Path, namespace: str, robot: str, *, skill_set: str, calls: str
    ) -> None:
        self._record = folder / f'{robot}.servers.jsonl'
        self._arguments = [
            '--skill-set', skill_set, '--calls', calls, '--robot', robot,
            '--namespace', namespace, '--record', str(self._record),
        ]  # fmt: skip
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, '-m', 'timely_llm_ros.nodes.tools.mock_servers', *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._expect(process, 'ready')
        return process

    def command(self, line: str) -> None:
        """Have something happen, see ``--help`` of the program."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        self._expect(self.process, 'ok')

    @property
    def events(self) -> list[dict[str, Any]]:
        return read_journal(self._record)

    def names(self, since: int = 0) -> list[tuple[str, str]]:
        """Return what happened to what, without the robot's name."""
        return [(e['event'], e['name'].rpartition('/')[2]) for e in self.events[since:]]

    def wait_event(self, event: str, name: str, since: int = 0) -> dict[str, Any]:
        """Wait until something has happened; return the latest such event."""

        def found() -> list[dict[str, Any]]:
            return [
                one
                for one in self.events[since:]
                if one['event'] == event and one['name'].endswith(name)
            ]

        last: dict[str, Any] = wait_for(found, f'{event} {name}')[-1]
        return last

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it as a crash does."""
        self.signal(signal.SIGKILL)
        self.process.wait(LIMIT_S)

    def restart(self) -> None:
        """Start it anew, after its end."""
        self._close_pipes()
        self.process = self._start()

    def close(self) -> None:
        if self.process.poll() is None and self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(LIMIT_S)
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    @staticmethod
    def _expect(process: subprocess.Popen[str], word: str) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(word), line
