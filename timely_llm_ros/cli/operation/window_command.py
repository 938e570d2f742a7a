"""``timely-llm window``: a page that shows a fleet as it works, or plays recorded runs again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
import webbrowser
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lrtrace.fleet_events import read_fleet_events
from lrtrace.run import tell_apart
from lrtrace.storage import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.command_line import add_namespace, require_ros
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.window import WindowOptions

if TYPE_CHECKING:
    import argparse

    from lrtrace.run import Run
    from timely_llm_ros.window import Event

_EXAMPLES = """\
examples:
  timely-llm window                                      the fleet of this ROS domain
  timely-llm window --namespace /site_a --port 8100
  timely-llm window --host 0.0.0.0                       for other machines, with a token
  timely-llm window demo_output/x/segmented demo_output/x/whole_plan
"""

MOST_TRACES = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Serve a page that shows a fleet in three dimensions, when its plans are generated and '
        'executed, the load of the engine, and each robot with its plan; from there tasks are '
        'sent and canceled, and robots stopped and released. With traces, play them again beside '
        'each other, without ROS.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('traces', nargs='*', metavar='TRACE', help='a recorded run to play')
    parser.add_argument('--host', default='127.0.0.1', help='address to serve on')
    parser.add_argument('--port', type=int, default=8095, help='0 for any that is free')
    add_namespace(parser)
    parser.add_argument(
        '--only-look', action='store_true', help='pages cannot send, cancel, stop or release'
    )
    parser.add_argument('--open', action='store_true', help='open it in a browser, with traces')
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if find_spec('websockets') is None:
        raise ConfigurationError(
            "window: expected websockets to be installed (pip install 'timely_llm_ros[window]')"
        )
    if options.traces:
        return asyncio.run(_play(options))
    require_ros()
    command = [sys.executable, '-m', 'timely_llm_ros.nodes.window.program', '--ros-args']
    if options.namespace:
        command += ['-r', f'__ns:={options.namespace}']
    for name, value in (
        ('host', options.host),
        ('port', options.port),
        ('commands', str(not options.only_look).lower()),
    ):
        command += ['-p', f'{name}:={value}']
    return _follow(command)


def _follow(command: list[str]) -> int:
    """Run a program to its end; Ctrl-C reaches it as well, and it ends well."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.run(
            command, check=False, preexec_fn=lambda: signal.signal(signal.SIGINT, before)
        ).returncode
    finally:
        signal.signal(signal.SIGINT, before)


async def _play(options: argparse.Namespace) -> int:
    from timely_llm_ros.window.serving import Recording, WindowServer

    if len(options.traces) > MOST_TRACES:
        raise ConfigurationError(
            f'{len(options.traces)} traces: expected at most {MOST_TRACES} beside each other'
        )
    runs: list[Run] = []
    recordings: list[tuple[list[Event], str]] = []
    for path in options.traces:
        trace = Trace(path)
        events, damage = read_fleet_events(trace)
        if damage:
            print(f'{path}: {damage}', file=sys.stderr)
        runs.append(read_run(trace))
        recordings.append((events, damage))
    tell_apart(runs)
    server = WindowServer(
        WindowOptions(host=options.host, port=options.port, commands=False),
        now_s=time.time,
        recordings=[
            Recording(run.label, *told) for run, told in zip(runs, recordings, strict=True)
        ],
    )
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await server.start()
    print(f'window: {server.address}   (Ctrl-C ends it)', flush=True)
    if options.open:
        webbrowser.open(server.address)
    await stop.wait()
    await server.close()
    return 0
