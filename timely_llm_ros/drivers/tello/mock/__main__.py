"""The command line of the mock Tellos: ``python -m timely_llm_ros.drivers.tello.mock``."""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from timely_llm_ros.command_line import make_parser, run_command
from timely_llm_ros.drivers.tello.mock.server import Entry, MockTello
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.processes import take_precedence

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_DESCRIPTION = """\
Mock Tellos: each speaks the Tello SDK over UDP on an address of this machine, flies in real time,
and can be told to fail. What they receive and do is printed.
"""

_EXAMPLES = """\
examples:
  python -m timely_llm_ros.drivers.tello.mock --host 127.0.0.2
  python -m timely_llm_ros.drivers.tello.mock --host 127.0.0.2 --host 127.0.0.3 --speed 2
  python -m timely_llm_ros.drivers.tello.mock --host 127.0.0.2 --battery 15
  python -m timely_llm_ros.drivers.tello.mock --host 127.0.0.2 --loss 0.1 --double 0.3 --delay 0.2
  python -m timely_llm_ros.drivers.tello.mock --host 127.0.0.2 --control
    and then, line by line:
      127.0.0.2 battery 8
      127.0.0.2 refuse forward error Not joystick
      127.0.0.2 lost
      127.0.0.2 heal

The driver needs an address of its own beside them: its option local_address: 127.0.0.1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mocks until SIGINT or SIGTERM; return the exit code."""
    parser = make_parser(
        'python -m timely_llm_ros.drivers.tello.mock', description=_DESCRIPTION, examples=_EXAMPLES
    )
    add = parser.add_argument
    add('--host', action='append', required=True, metavar='ADDRESS', help='one for each aircraft')
    add('--speed', type=float, default=1.0, help='times as fast as a real one (default: 1)')
    add('--battery', type=float, default=87.0, metavar='PERCENT', help='charge (default: 87)')
    add('--loss', type=float, default=0.0, metavar='SHARE', help='lost datagrams (default: 0)')
    add('--double', type=float, default=0.0, metavar='SHARE', help='heard twice (default: 0)')
    add('--delay', type=float, default=0.0, metavar='S', help='greatest delay (s) (default: 0)')
    add('--seed', type=int, default=0, help='of losses and delays (default: 0)')
    add('--journal', default='', metavar='FILE', help='append what happens, as JSON lines')
    add('--control', action='store_true', help='read faults from the input: "ADDRESS FAULT" lines')
    parser.set_defaults(run=lambda options: asyncio.run(_serve(options)))
    return run_command(parser, arguments)


async def _serve(options: argparse.Namespace) -> int:
    # An aircraft has a processor of its own.
    take_precedence()
    mocks = {
        host: MockTello(
            host,
            speed=options.speed,
            loss=options.loss,
            double=options.double,
            delay_s=options.delay,
            seed=options.seed,
            battery_percent=options.battery,
            journal_path=options.journal,
            on_entry=partial(_print, host),
        )
        for host in options.host
    }
    stop, control = asyncio.Event(), None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        for mock in mocks.values():
            await mock.start()
        print(f'mock Tellos at {", ".join(mocks)}', flush=True)
        if options.control:
            control = asyncio.create_task(_control(mocks))
        await stop.wait()
    finally:
        if control is not None:
            control.cancel()
        for mock in mocks.values():
            await mock.close()
    return 0


def _print(host: str, entry: Entry) -> None:
    # What only keeps it hovering would drown the rest.
    if entry.what != 'rc 0 0 0 0':
        print(f'{entry.t:.2f} {host} {entry.event} {entry.what}', flush=True)


async def _control(mocks: dict[str, MockTello]) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := (await reader.readline()).decode(errors='replace').strip():
        host, _, fault = line.partition(' ')
        try:
            _set_fault(mocks, host, fault)
        except ConfigurationError as err:
            print(f'error: {err}', file=sys.stderr, flush=True)


def _set_fault(mocks: dict[str, MockTello], host: str, fault: str) -> None:
    if host not in mocks:
        raise ConfigurationError(f'address {host!r}: expected one of {", ".join(mocks)}')
    mocks[host].set_fault(fault)


if __name__ == '__main__':
    sys.exit(main())
