"""The command line and the launch system of ROS 2, with the programs of this tree.

They come with an installed ROS 2, whose set-up has been sourced. Where ROS 2 comes as wheels, which
lack them, a folder of Python packages that has them can be named in ``ROS2_TOOLS``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from support import process_table
from support.ros.programs import LIMIT_S, ROOT, wait_for

from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from collections.abc import Iterable

TOOLS = os.environ.get('ROS2_TOOLS', '')
PACKAGES = ('launch_ros', 'ros2launch', 'ros2node', 'ros2action', 'ros2lifecycle', 'ros2param')
ROS2 = [sys.executable, '-c', 'import sys; from ros2cli.cli import main; sys.exit(main())']


def missing_tools() -> list[str]:
    """Return which packages of the command line and of launch are not there."""
    path = [*([TOOLS] if TOOLS else []), *sys.path]
    return [name for name in ('ros2cli', *PACKAGES) if PathFinder.find_spec(name, path) is None]


class Ros2:
    """``ros2`` on a ROS domain of its own, for which this tree's package is installed.

    Args:
        folder: Where the package, logs, journals and parameter files go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._install()
        paths = {
            'PYTHONPATH': [str(ROOT), TOOLS],
            'AMENT_PREFIX_PATH': [str(folder / 'install'), TOOLS, sys.prefix],
            'PATH': [str(Path(sys.executable).parent)],
        }
        self.environment = {
            **os.environ,
            **{name: _joined([*first, os.environ.get(name, '')]) for name, first in paths.items()},
            'HOME': str(folder),
            'ROS_LOG_DIR': str(folder / 'log'),
            'ROS_DOMAIN_ID': str(free_domain()),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            'ROS_VERSION': '2',
            'ROS_PYTHON_VERSION': '3',
        }
        self.environment.setdefault('ROS_DISTRO', 'kilted')
        self._launched: list[Launched] = []

    def _install(self) -> None:
        """Lay the package out as an installation has it: share, the programs, the index."""
        prefix = self.folder / 'install'
        index = prefix / 'share' / 'ament_index' / 'resource_index' / 'packages'
        index.mkdir(parents=True)
        (index / 'timely_llm_ros').touch()
        share = prefix / 'share' / 'timely_llm_ros'
        for name in ('launch', 'config'):
            shutil.copytree(ROOT / name, share / name, ignore=shutil.ignore_patterns('__pycache__'))
        shutil.copy(ROOT / 'package.xml', share)
        programs = prefix / 'lib' / 'timely_llm_ros'
        programs.mkdir(parents=True)
        for name in ('planner', 'executor', 'recorder', 'replay'):
            _, text = (ROOT / 'scripts' / name).read_text(encoding='utf-8').split('\n', 1)
            (programs / name).write_text(f'#!{sys.executable}\n{text}', encoding='utf-8')
            (programs / name).chmod(0o755)

    def run(self, *arguments: str, errors: bool = False, limit_s: float = LIMIT_S) -> str:
        """Run a command to its end; return what it printed, with ``errors`` its errors too.

        It looks for nodes for half a second. One that found none is run again.

        Raises:
            AssertionError: It failed.
        """

        def found() -> subprocess.CompletedProcess[str] | None:
            done = subprocess.run(
                [*ROS2, *arguments],
                env=self.environment,
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
            return None if 'Node not found' in done.stdout + done.stderr else done

        done: subprocess.CompletedProcess[str] = wait_for(
            found, f'node for ros2 {" ".join(arguments)}'
        )
        assert done.returncode == 0, f'ros2 {" ".join(arguments)}:\n{done.stdout}\n{done.stderr}'
        return done.stdout + done.stderr if errors else done.stdout

    def program(self, code: str) -> subprocess.Popen[bytes]:
        """Start a program in Python beside it."""
        return subprocess.Popen([sys.executable, '-c', code], env=self.environment)

    def start(self, *arguments: str) -> Launched:
        """Start a command that goes on."""
        self._launched.append(Launched(self, list(arguments), number=len(self._launched)))
        return self._launched[-1]

    def launch(self, file: str, **arguments: object) -> Launched:
        """Start one of the launch files."""
        given = [f'{name}:={value}' for name, value in arguments.items()]
        return self.start('launch', 'timely_llm_ros', f'{file}.launch.py', *given)

    def close(self) -> None:
        """End everything that still runs, the command line's daemon too."""
        for launched in self._launched:
            launched.close()
        with suppress(subprocess.TimeoutExpired):
            self.run('daemon', 'stop')


class Launched:
    """A command of ``ros2`` that goes on, as in a terminal: with a process group of its own."""

    def __init__(self, ros2: Ros2, arguments: list[str], *, number: int) -> None:
        self.log = ros2.folder / f'ros2-{number}-{arguments[0]}.log'
        with self.log.open('wb') as log:
            self.process = subprocess.Popen(
                [*ROS2, *arguments],
                env=ros2.environment | {'PYTHONUNBUFFERED': '1'},
                cwd=ros2.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(encoding='utf-8', errors='replace')

    def wait_for(self, *texts: str, limit_s: float = LIMIT_S) -> None:
        """Wait until it has printed some texts."""

        def said() -> bool:
            missing = [text for text in texts if text not in self.output]
            assert not missing or self.process.poll() is None, f'{missing}:\n{self.output}'
            return not missing

        try:
            wait_for(said, f'{texts}', limit_s)
        except AssertionError as err:
            raise AssertionError(f'{err}\n{self.output}') from None

    def programs(self) -> list[int]:
        """Process ids of everything that it has started."""
        return process_table.tree(self.process.pid)[1:]

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal tells every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """Wait for its end; return its exit status."""
        return self.process.wait(limit_s)

    def end(self) -> None:
        """Press Ctrl-C and wait until it is gone, with all that it started.

        Raises:
            AssertionError: It or what it started failed, or told of an error.
        """
        programs = self.programs()
        self.interrupt()
        assert self.wait() == 0, self.output
        process_table.wait_gone(programs)
        self.assert_clean()

    def assert_clean(self) -> None:
        """Assert that nothing failed so far."""
        for sign in ('Traceback', '[ERROR]', '[FATAL]', 'process has died'):
            assert sign not in self.output, self.output

    def close(self) -> None:
        """End whatever of it is left."""
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LIMIT_S)


def _joined(parts: Iterable[str]) -> str:
    return os.pathsep.join(part for part in parts if part)
