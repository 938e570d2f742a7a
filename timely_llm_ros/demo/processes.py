"""The demo's child processes: each in a session of its own, none outlives the demo."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.installation import checkout, prefixes
from timely_llm_ros.processes import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class ProcessEndedError(TimelyError):
    """A process that should go on ended. ``log_tail`` has its last words."""

    def __init__(self, name: str, code: int, log_tail: str) -> None:
        self.log_tail = log_tail
        how = f'was killed by signal {-code}' if code < 0 else f'ended with exit code {code}'
        super().__init__(f'process {name!r} {how}')


def find_program(name: str) -> list[str]:
    """Return the command of one of the package's programs: of the checkout, or installed.

    Raises:
        ConfigurationError: It is not there.
    """
    root = checkout()
    folders = [] if root is None else [root / 'scripts']
    folders += [prefix / 'lib' / 'timely_llm_ros' for prefix in prefixes()]
    for folder in folders:
        if (folder / name).is_file():
            return [sys.executable, str(folder / name)]
    raise ConfigurationError(
        f'program {name!r}: expected it in one of {", ".join(map(str, folders))}'
    )


def node_command(program: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return the command of a node's program with its ROS parameters."""
    command = [*find_program(program), '--ros-args']
    for name, value in parameters.items():
        # JSON is YAML, and its quotes keep the colons in names apart from YAML's own.
        command += ['-p', f'{name}:={json.dumps(value)}']
    return command


@dataclass(slots=True)
class Child:
    """One process with the file that its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    expected_to_end: bool = False
    """Whether its end is no fault."""

    def tell(self, command: Mapping[str, Any]) -> None:
        """Write a command to its input, as a line of JSON; it has to have pipes."""
        stdin = self.process.stdin
        if stdin is None:
            raise RuntimeError(f'{self.name}: expected pipes')
        try:
            stdin.write(json.dumps(command).encode() + b'\n')
            stdin.flush()
        except BrokenPipeError:
            # The check of the processes says who ended.
            return

    def log_tail(self, lines: int = 15) -> str:
        """Return the end of its output."""
        text = self.log.read_text(encoding='utf-8', errors='replace')
        return '\n'.join(text.splitlines()[-lines:])


class Children:
    """Starts, watches and ends processes, each with a log of its own in a folder."""

    def __init__(self, log_folder: Path) -> None:
        self._log_folder = log_folder
        self._children: list[Child] = []

    def start(self, name: str, command: Sequence[str], *, pipes: bool = False) -> Child:
        """Start a process in a session of its own, so that Ctrl-C reaches only the demo.

        With ``pipes`` its input and output are pipes to the demo, and only errors are logged.
        """
        log = self._log_folder / f'{name}.log'
        with log.open('ab') as stream:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else stream,
                stderr=stream,
                start_new_session=True,
                preexec_fn=partial(end_with_parent, signal.SIGINT, parent_pid=os.getpid()),
                env=os.environ | {'PYTHONUNBUFFERED': '1'},
            )
        child = Child(name, process, log)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Look after every process.

        Raises:
            ProcessEndedError: One ended that should not have.
        """
        for child in self._children:
            code = child.process.poll()
            if code is not None and not child.expected_to_end:
                raise ProcessEndedError(child.name, code, child.log_tail())

    async def stop(self, *children: Child, limit_s: float = 8.0) -> None:
        """Interrupt processes; those that have not ended after ``limit_s`` (s) are killed."""
        for child in children:
            child.expected_to_end = True
            if child.process.stdin is not None:
                # Whoever has died already reads no more of what was written to it.
                with suppress(BrokenPipeError):
                    child.process.stdin.close()
        for number, wait_s in (
            (signal.SIGINT, limit_s),
            (signal.SIGTERM, 2.0),
            (signal.SIGKILL, 2.0),
        ):
            alive = [child for child in children if child.process.poll() is None]
            for child in alive:
                child.process.send_signal(number)
            end_s = asyncio.get_running_loop().time() + wait_s
            while any(child.process.poll() is None for child in alive):
                if asyncio.get_running_loop().time() > end_s:
                    break
                await asyncio.sleep(0.02)
        for child in children:
            if child.process.stdout is not None:
                child.process.stdout.close()
        self._children = [child for child in self._children if child not in children]

    async def stop_all(self) -> None:
        """End every process, in the order in which they were started."""
        for child in tuple(self._children):
            await self.stop(child)
