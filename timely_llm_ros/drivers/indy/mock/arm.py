"""A mock Indy7: the controller's gRPC services over an arm that is not there.

It runs in the SDK's environment, because it is built on the SDK's own stubs.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.command_line import make_parser, run_command
from timely_llm_ros.drivers.indy.environment import sdk_command
from timely_llm_ros.drivers.journal import read_journal
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

SERVER = 'timely_llm_ros.drivers.indy.mock.server'

_EXAMPLES = """\
The SDK's ports are fixed, so every arm has an address of its own: all of 127.x.y.z is this machine.

examples:
  python -m timely_llm_ros.drivers.indy.mock.arm
  python -m timely_llm_ros.drivers.indy.mock.arm --host 127.0.0.2 --speed 4 --record arm_2.jsonl

While it runs, type what befalls the arm:
  refuse TEXT      refuse the next motion
  violate TEXT     break a limit and brake
  collide          hit something and brake
  estop, release   press the emergency stop, pull it out again
  silence, answer  take requests and answer none; answer again
  unplug, plug     cut the network; the arm goes on with what it does
  reset            stand at home, unharmed
  quit
"""


def make_options(
    *,
    host: str = '127.0.0.1',
    index: int = 0,
    speed: float = 1.0,
    jitter: float = 0.0,
    seed: int = 0,
    record: str | Path = '',
    until_eof: bool = False,
) -> str:
    """Return a server's options as its one argument.

    Raises:
        ConfigurationError: One is out of range.
    """
    if index not in (0, 1):
        raise ConfigurationError(f'index {index!r}: expected 0 or 1')
    if not 0 < speed <= 1000:
        raise ConfigurationError(f'speed {speed!r}: expected a number above 0, at most 1000')
    if not 0 <= jitter <= 0.3:
        raise ConfigurationError(f'jitter {jitter!r}: expected a number from 0 to 0.3')
    return json.dumps(
        {
            'host': host,
            'index': index,
            'speed': speed,
            'jitter': jitter,
            'seed': seed,
            'record': str(record),
            'until_eof': until_eof,
        }
    )


class MockIndy:
    """A mock arm in a process of its own, for tests and demos; it ends with its owner.

    Args:
        folder: Where its record goes.
        host: Its address; a random one of this machine by default, so that many can be at once.
        index: Which of the SDK's two sets of ports.
        speed: It is this many times as fast as a real one.
        jitter: Relative standard deviation of the durations of its motions.
        seed: Equal seeds draw equal deviations.

    Raises:
        ConfigurationError: The SDK is missing, an option is out of range or a port is taken.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        host: str | None = None,
        index: int = 0,
        speed: float = 1.0,
        jitter: float = 0.0,
        seed: int = 0,
    ) -> None:
        draw = random.SystemRandom()
        self.host = host or '.'.join(('127', *(str(draw.randint(1, 254)) for _ in range(3))))
        self.record_path = Path(folder) / f'indy_{self.host}_{index}.jsonl'
        options = make_options(
            host=self.host,
            index=index,
            speed=speed,
            jitter=jitter,
            seed=seed,
            record=self.record_path,
            until_eof=True,
        )
        self.process = subprocess.Popen(
            sdk_command(SERVER, options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._expect('ready')

    def command(self, line: str) -> None:
        """Have something befall the arm; returns once it has.

        Raises:
            ConfigurationError: There is no such thing, or the mock is gone.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        self._expect('ok')

    @property
    def record(self) -> list[dict[str, object]]:
        """What happened to the arm so far, the oldest first."""
        return read_journal(self.record_path)

    @property
    def stands_still(self) -> bool:
        """Whether no motion has begun since the arm last stood still, by its own record."""
        for event in reversed(self.record):
            if event['event'] in ('move', 'still'):
                return event['event'] == 'still'
        return True

    def close(self) -> None:
        """End it; idempotent."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _expect(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if line.partition(' ')[0] != word:
            if not line:
                self.close()
            raise ConfigurationError(f'mock Indy: {line or "it is gone"}: expected {word}')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mock in place of this process; return an exit code if that cannot be."""
    parser = make_parser(
        'python -m timely_llm_ros.drivers.indy.mock.arm',
        description='A mock Indy7: the gRPC services of its controller, on loopback.',
        examples=_EXAMPLES,
    )
    parser.add_argument('--host', default='127.0.0.1', help='its address (default: %(default)s)')
    parser.add_argument(
        '--index', type=int, default=0, help="which of the SDK's port sets, 0 or 1 (default: 0)"
    )
    parser.add_argument(
        '--speed', type=float, default=1.0, help='times as fast as a real one (default: 1)'
    )
    parser.add_argument(
        '--jitter', type=float, default=0.0, help="how much motions' durations vary (default: 0)"
    )
    parser.add_argument('--seed', type=int, default=0, help='of that variation (default: 0)')
    parser.add_argument('--record', default='', help='file for what the arm does, as JSON lines')
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(options: argparse.Namespace) -> int:
    command = sdk_command(
        SERVER,
        make_options(
            host=options.host,
            index=options.index,
            speed=options.speed,
            jitter=options.jitter,
            seed=options.seed,
            record=options.record,
        ),
    )
    sys.stdout.flush()
    os.execv(command[0], command)


if __name__ == '__main__':
    sys.exit(main())
