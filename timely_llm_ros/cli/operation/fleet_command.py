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
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from timely_llm_ros.cli.operation.fleet_file import FleetFile
    from timely_llm_ros.demo import Child

LOOK_PERIOD_S = 0.1
"""How often logs and programs are looked at (s)."""

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
        'fleet. Ctrl-C ends every task with its robot safe, then the programs. The end of the '
        'planner ends all.'
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
    fleet = read_fleet_file(Path(options.file))
    folder = Path(options.logs or f'fleet_logs/{time.strftime("%Y%m%d_%H%M%S")}')
    folder.mkdir(parents=True, exist_ok=True)

    def show(name: str, line: str) -> None:
        text = json_line(line, name) if options.log_format == 'json' else f'[{name}] {line}'
        print(text, flush=True)

    return asyncio.run(_serve(fleet, folder, show))


class _Follower:
    """Hands on what programs wrote into their logs: no program waits for whoever reads."""

    def __init__(self, child: Child, show: Callable[[str, str], None]) -> None:
        self._child, self._show = child, show
        self._file = child.log.open(encoding='utf-8', errors='replace')
        self._rest = ''

    def follow(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split('\n')
        for line in lines:
            self._show(self._child.name, line)

    def close(self) -> None:
        self.follow()
        if self._rest:
            self._show(self._child.name, self._rest)
        self._file.close()


async def _serve(fleet: FleetFile, folder: Path, show: Callable[[str, str], None]) -> int:
    """Start everything, watch over it, and end it; return the exit code."""
    from timely_llm_ros.cli.operation.fleet_file import programs_of
    from timely_llm_ros.demo import Children, node_command

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    children = Children(folder)
    running: dict[str, list[Child]] = {}
    followers: list[_Follower] = []
    exit_code = 0

    def follow() -> None:
        for follower in followers:
            follower.follow()

    async def end(*programs: str) -> None:
        ending = [child for program in programs for child in running.get(program, [])]
        stopping = asyncio.ensure_future(children.stop(*ending))
        while not stopping.done():
            follow()
            await asyncio.wait([stopping], timeout=LOOK_PERIOD_S)
        await stopping

    try:
        for one in programs_of(fleet):
            command = [*node_command(one.program, one.parameters), '-r', f'__node:={one.name}']
            if fleet.namespace:
                command += ['-r', f'__ns:=/{fleet.namespace.strip("/")}']
            child = children.start(one.name, command)
            running.setdefault(one.program, []).append(child)
            followers.append(_Follower(child, show))
        while not stop.is_set():
            follow()
            for program, started in running.items():
                for child in started:
                    code = child.process.poll()
                    if code is None or child.expected_to_end:
                        continue
                    child.expected_to_end, exit_code = True, 1
                    print(f'{child.name} ended with exit code {code}', file=sys.stderr, flush=True)
                    # Robots that nobody plans for are made safe and released; the others go on
                    # without a recorder, a window, or the robots of one executor.
                    if program == 'planner':
                        stop.set()
            await asyncio.sleep(LOOK_PERIOD_S)
    finally:
        # The planner makes robots safe with its tasks' ends, which the recorder is to hear of.
        await end('planner')
        await end('executor', 'window')
        await end('recorder')
        for follower in followers:
            follower.close()
        codes = [child.process.returncode for started in running.values() for child in started]
    return exit_code or int(any(codes))
