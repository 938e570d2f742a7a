"""The command line of a mock Indy7: ``python -m timely_llm_ros.drivers.indy.mock``.

The mock serves the controller's gRPC services with the SDK's own stubs, so it runs in the SDK's
environment.
"""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

from timely_llm_ros.command_line import make_parser, run_command
from timely_llm_ros.drivers.indy.environment import sdk_command
from timely_llm_ros.drivers.indy.mock.arm import SERVER
from timely_llm_ros.drivers.indy.mock.options import MockIndyOptions
from timely_llm_ros.options import Option, option_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_EXAMPLES = """\
The SDK's ports are fixed, so every arm has an address of its own: all of 127.x.y.z is this machine.

examples:
  python -m timely_llm_ros.drivers.indy.mock
  python -m timely_llm_ros.drivers.indy.mock --host 127.0.0.2 --speed 4 --record arm_2.jsonl

While it runs, type what shall happen to the arm:
  refuse TEXT      refuse the next motion
  violate TEXT     break a limit and brake
  collide          hit something and brake
  estop, release   press the emergency stop, pull it out again
  silence, answer  take requests and answer none; answer again
  unplug, plug     cut the network; the arm goes on with what it does
  reset            stand at home, unharmed
  quit
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mock in place of this process; return an exit code if that cannot be."""
    parser = make_parser(
        'python -m timely_llm_ros.drivers.indy.mock',
        description='A mock Indy7: the gRPC services of its controller, on loopback.',
        examples=_EXAMPLES,
    )
    for item in fields(MockIndyOptions):
        declared = option_of(item)
        if isinstance(declared, Option):
            parser.add_argument(
                f'--{item.name}',
                type=type(item.default),
                default=item.default,
                help=f'{declared.description} (default: %(default)s)',
            )
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(given: argparse.Namespace) -> int:
    options = MockIndyOptions(
        **{name: value for name, value in vars(given).items() if name != 'run'}
    )
    command = sdk_command(SERVER, options.to_json())
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 (no shell is wanted)


if __name__ == '__main__':
    sys.exit(main())
