"""The command line of the world: ``python -m timely_llm_ros.world``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.command_line import add_namespace, make_parser, run_command
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.bodies import serve_bodies
from timely_llm_ros.processes import take_precedence
from timely_llm_ros.world.bays_file import read_bays
from timely_llm_ros.world.options import WorldOptions
from timely_llm_ros.world.program import WorldProgram

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_DESCRIPTION = """\
A room with physics in real time. Each drone in it is a mock Tello on an address of this machine,
each arm one under MoveIt, with its actions; ROS topics tell where they are and what they see. Tasks
to judge come on the input, as lines of JSON.
"""

_EXAMPLES = """\
examples:
  python -m timely_llm_ros.world --bays bays.json --row 127.0.9 --events world.jsonl
    and then, line by line:
      {"begin": {"key": "t1", "robot": "drone_1", "kind": "look_for", "targets": ["cat_2"]}}
      {"end": "t1"}

The first drone of the file has the address ROW.2, the next one ROW.3, and so on.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the world until SIGINT, SIGTERM or the end of the input; return the exit code."""
    parser = make_parser(
        'python -m timely_llm_ros.world', description=_DESCRIPTION, examples=_EXAMPLES
    )
    add = parser.add_argument
    add('--bays', type=Path, required=True, metavar='FILE', help='JSON: body and objects by robot')
    add('--row', default='127.0.9', help='first three bytes of addresses (default: %(default)s)')
    add('--events', type=Path, metavar='FILE', help='append what happens, as JSON lines')
    add('--seed', type=int, default=0, help='of wind, walks and eyesight (default: 0)')
    add('--noise', type=float, default=0.0, help='share of misses and of mistakes (default: 0)')
    add('--clock', action='store_true', help='publish /clock, for nodes with use_sim_time')
    add_namespace(parser)
    parser.set_defaults(run=_run)
    return run_command(parser, arguments)


def _run(given: argparse.Namespace) -> int:
    take_precedence()
    bays = read_bays(given.bays)
    drones = [bay.robot for bay in bays if bay.body == 'drone']
    addresses = {robot: f'{given.row}.{number}' for number, robot in enumerate(drones, 2)}
    options = WorldOptions(seed=given.seed, noise=given.noise)
    try:
        file = given.events.open('a', encoding='utf-8') if given.events else None
    except OSError as err:
        raise ConfigurationError(f'events {str(given.events)!r}: {err.strerror}') from err
    program = WorldProgram(bays, options, addresses, file)
    world = program.world
    return serve_bodies(
        world.robots,
        program.picture,
        program.serve,
        program.arms,
        given.namespace,
        clock=given.clock,
    )


if __name__ == '__main__':
    sys.exit(main())
