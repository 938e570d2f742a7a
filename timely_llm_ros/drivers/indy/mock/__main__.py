"""The command line of a mock Indy7: ``python -m timely_llm_ros.drivers.indy.mock``.

The mock is the controller's gRPC services over an arm that is not there. It runs in the SDK's
environment, because it is built on the SDK's own stubs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from timely_llm_ros.command_line import make_parser, run_command
from timely_llm_ros.drivers.indy.environment import sdk_command
from timely_llm_ros.drivers.indy.mock.arm import SERVER
from timely_llm_ros.drivers.indy.mock.options import MockIndyOptions

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
    defaults = MockIndyOptions()
    for name, help_ in (
        ('host', 'its address'),
        ('index', "which of the SDK's port sets, 0 or 1"),
        ('speed', 'times as fast as a real one'),
        ('jitter', "how much motions' durations vary"),
        ('seed', 'of that variation'),
        ('record', 'file for what the arm does, as JSON lines'),
    ):
        default = getattr(defaults, name)
        parser.add_argument(
            f'--{name}', type=type(default), default=default, help=f'{help_} (default: %(default)s)'
        )
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(given: argparse.Namespace) -> int:
    options = MockIndyOptions(
        host=given.host,
        index=given.index,
        speed=given.speed,
        jitter=given.jitter,
        seed=given.seed,
        record=given.record,
    )
    command = sdk_command(SERVER, options.to_json())
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 (no shell is wanted)


if __name__ == '__main__':
    sys.exit(main())
