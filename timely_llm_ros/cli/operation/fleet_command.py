"""``timely-llm fleet``: a whole fleet from one file, without ``ros2 launch``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.cli.operation.log_lines import json_line
from timely_llm_ros.command_line import EXIT_INTERRUPTED, require_ros
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.processes import Backoff

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from timely_llm_ros.cli.operation.fleet_file import FleetFile, FleetProgram
    from timely_llm_ros.demo import Children

LOOK_PERIOD_S = 0.1
"""How often logs and programs are looked at (s)."""

STARTED_S = 10.0
"""A planner that fails sooner (s) cannot start; one that is killed is started again in any case."""

FIRST_RESTART_S, LAST_RESTART_S = 0.25, 15.0
"""Pause before a planner that died is started again; it doubles up to the last."""

_EXAMPLES = """\
examples:
  timely-llm fleet fleet.yaml
  timely-llm fleet fleet.yaml --log-format json | tee fleet.jsonl
  timely-llm fleet --schema > fleet.schema.json
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Start the planner, the executors and, where the file has them, recorder and window of a '
        'fleet. Ctrl-C ends every task with its robot safe, then the programs. A planner that '
        'dies is started again; one that ends by itself, or cannot start, ends all.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('file', nargs='?', default='', help='YAML file of the fleet')
    parser.add_argument(
        '--logs', default='', metavar='DIR', help='folder of the logs (default: fleet_logs/TIME)'
    )
    parser.add_argument(
        '--log-format', choices=('text', 'json'), default='text', help='of what is printed'
    )
    parser.add_argument(
        '--schema', action='store_true', help='print the JSON schema of such files and end'
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from timely_llm_ros.cli.operation.fleet_file import fleet_schema, read_fleet_file

    if options.schema:
        print(json.dumps(fleet_schema(), indent=1))
        return 0
    if not options.file:
        raise ConfigurationError('fleet: expected the YAML file of a fleet')
    require_ros()
    fleet = read_fleet_file(Path(options.file))
    folder = Path(options.logs or f'fleet_logs/{time.strftime("%Y%m%d_%H%M%S")}')
    folder.mkdir(parents=True, exist_ok=True)

    def show(name: str, line: str) -> None:
        text = json_line(line, name) if options.log_format == 'json' else f'[{name}] {line}'
        print(text, flush=True)

    return asyncio.run(_serve(fleet, folder, show))


class _Follower:
    """Hands on what a program writes into its log from now on: it waits for nobody who reads."""

    def __init__(self, name: str, log: Path, show: Callable[[str, str], None]) -> None:
        self._name, self._show = name, show
        # An earlier run may have left its lines there.
        self._file = log.open('a+', encoding='utf-8', errors='replace')
        self._rest = ''

    def follow(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split('\n')
        for line in lines:
            self._show(self._name, line)

    def close(self) -> None:
        self.follow()
        if self._rest:
            self._show(self._name, self._rest)
        self._file.close()


class _Running:
    """A program of the fleet, which is started again if it is a planner that died."""

    def __init__(self, program: FleetProgram, children: Children) -> None:
        self.program = program
        self._backoff = Backoff(FIRST_RESTART_S, LAST_RESTART_S)
        self.again_s = 0.0
        """When it is started again; 0 where it is not to be."""
        self.start(children)

    def start(self, children: Children) -> None:
        """Start it, with its log behind that of the one before."""
        from timely_llm_ros.demo import node_command

        one, self.again_s, self._started_s = self.program, 0.0, time.monotonic()
        command = [*node_command(one.program, one.parameters), '-r', f'__node:={one.name}']
        if one.namespace.strip('/'):
            command += ['-r', f'__ns:=/{one.namespace.strip("/")}']
        self.child = children.start(one.title, command)

    def may_live_again(self, code: int) -> bool:
        """Return whether it is started again after this end, and note when."""
        now_s = time.monotonic()
        served = now_s > self._started_s + STARTED_S
        # With 2 ends what cannot start, however long it took to find out.
        lives = code < 0 or (served and code not in (0, 2))
        if self.program.program != 'planner' or not lives:
            return False
        if now_s > self._started_s + LAST_RESTART_S:
            self._backoff.reset()
        self.again_s = now_s + self._backoff.next_s()
        return True

    def is_due(self) -> bool:
        """Return whether it is to be started now."""
        return bool(self.again_s) and time.monotonic() >= self.again_s


async def _serve(fleet: FleetFile, folder: Path, show: Callable[[str, str], None]) -> int:
    """Start everything, watch over it, and end it; return the exit code."""
    from timely_llm_ros.cli.operation.fleet_file import programs_of
    from timely_llm_ros.demo import Children

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    children = Children(folder)
    running: list[_Running] = []
    followers: list[_Follower] = []
    exit_code = 0

    def follow() -> None:
        for follower in followers:
            follower.follow()

    async def end(*programs: str) -> None:
        ending = [one.child for one in running if one.program.program in programs]
        stopping = asyncio.ensure_future(children.stop(*ending))
        while not stopping.done():
            follow()
            await asyncio.wait([stopping], timeout=LOOK_PERIOD_S)
        await stopping

    try:
        for program in programs_of(fleet):
            followers.append(_Follower(program.title, folder / f'{program.title}.log', show))
            running.append(_Running(program, children))
        while not stop.is_set():
            follow()
            for one in running:
                code = one.child.process.poll()
                if code is None:
                    continue
                if not one.child.expected_to_end:
                    one.child.expected_to_end = True
                    again = 'it is started again' if one.may_live_again(code) else ''
                    told = ': '.join(filter(None, (f'ended with exit code {code}', again)))
                    print(f'{one.program.title} {told}', file=sys.stderr, flush=True)
                    # Robots that nobody plans for are made safe and released; the others go on
                    # without a recorder, a window, or the robots of one executor.
                    if not again:
                        exit_code = 1
                        if one.program.program == 'planner':
                            stop.set()
                elif one.is_due():
                    one.start(children)
            await asyncio.sleep(LOOK_PERIOD_S)
    finally:
        # The planner makes robots safe with its tasks' ends, which the recorder is to hear of.
        await end('planner')
        await end('executor', 'window')
        await end('recorder')
        for follower in followers:
            follower.close()
        codes = [one.child.process.returncode for one in running if not one.again_s]
    # A program that was interrupted before it had begun has not failed.
    return exit_code or int(any(code not in (0, EXIT_INTERRUPTED) for code in codes))
