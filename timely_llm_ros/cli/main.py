"""``timely-llm``: parses the command line and hands over to the command."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from timely_llm_ros import __version__
from timely_llm_ros.cli import demo_command, doctor_command, plan_command, skills_command
from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLES = """\
examples:
  timely-llm demo                              fly a simulated fleet and compare two ways to plan
  timely-llm doctor                            check this machine
  timely-llm skills                            list what robots can do
  timely-llm skills check my_robot.yaml        check a skill-set file
  timely-llm plan drone_1 "look for the cat" --scene scene.yaml
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog='timely-llm',
        description='Plan for a fleet of robots with a language model, segment by segment.',
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    commands = parser.add_subparsers(required=True, metavar='COMMAND', title='commands')
    for command in (demo_command, plan_command, skills_command, doctor_command):
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except TimelyError as err:
        print(f'error: {err}', file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output went away, for example `head`.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
