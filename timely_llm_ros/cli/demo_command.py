"""``timely-llm demo``: a simulated fleet, planned segment by segment and then whole-plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.cli.serve_command import vllm_obstacle
from timely_llm_ros.cli.shared import add_fields, read_fields
from timely_llm_ros.demo import FLEETS, PACE_S, DemoOptions, run_demo
from timely_llm_ros.engines.openai import ServerOptions
from timely_llm_ros.engines.tokens import (
    SHIPPED_MODEL,
    find_adapter,
    find_model,
    require_model_files,
)
from timely_llm_ros.errors import ConfigurationError, ModelLoadError

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """\
Start a planner, an executor per simulated robot and a recorder as real ROS 2 processes, and have a
seeded mix of tasks planned twice: segment by segment with utility scheduling, then the same tasks
whole-plan, first come first served. Shows the fleet live, here and on a page whose address it
prints, then a table, the paths of the two traces and an HTML report.

The shipped model is small, so by default the engines torch and simulated are paced to the step time
of a large one; --fast takes that away.
"""

_EXAMPLES = """\
examples:
  timely-llm demo
  timely-llm demo --robots 4 --tasks 8 --seed 7
  timely-llm demo --drivers world
  timely-llm demo --drivers mock
  timely-llm demo --drivers ros
  timely-llm demo --fast --headless --output /tmp/demo
  timely-llm demo --model smollm2
  timely-llm demo --engine openai
  timely-llm demo --engine openai --server http://gpu-1:8000
  timely-llm demo --pace 0.05 --batch 4
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    add_fields(parser, DemoOptions)
    parser.add_argument(
        '--server',
        action='append',
        default=[],
        metavar='URL',
        help='with --engine openai: a server of the shipped model, instead of one started for the '
        'demo; may be given several times',
    )
    parser.add_argument(
        '--drivers',
        choices=tuple(FLEETS),
        default='simulated',
        help='mock flies mock robots through the real drivers: 4 Tellos and 1 arm by default; ros '
        'does with mocks of what Aerostack2, Nav2 and MoveIt offer: 2 drones, 2 rovers, 2 arms; '
        'world has 6 drones and 2 arms in a room with physics, which judges whether they succeed',
    )
    parser.add_argument(
        '--robots',
        type=int,
        help='size of the fleet (default: 8; 5 with --drivers mock, 6 with ros)',
    )
    parser.add_argument(
        '--tasks', type=int, help='tasks per run (default: 24; 16 with --drivers world)'
    )
    parser.add_argument(
        '--pace',
        type=float,
        metavar='SECONDS',
        help='least duration of an engine step (default: 0.0217, an 8B model on an RTX 4090)',
    )
    parser.add_argument('--fast', action='store_true', help='as fast as the model goes: --pace 0')
    parser.add_argument(
        '--headless',
        action='store_true',
        help='print lines instead of the live view; so it is without a terminal',
    )
    parser.add_argument(
        '--output',
        type=Path,
        metavar='FOLDER',
        help='where traces, logs and the report go (default: ./demo_output/<time>)',
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from rich.console import Console

    paced = options.engine in ('torch', 'simulated')
    if options.pace is not None and not paced:
        raise ConfigurationError(
            f'--pace with --engine {options.engine}: expected engine torch or simulated, vLLM goes '
            'as fast as it can'
        )
    if options.server and options.engine != 'openai':
        raise ConfigurationError(
            f'--server with --engine {options.engine}: expected --engine openai'
        )
    if options.model:
        _check_model(options)
    if not paced and not options.server:
        obstacle = vllm_obstacle(find_model(options.model or SHIPPED_MODEL), 1)
        if obstacle:
            raise ConfigurationError(obstacle)
    pace_s = options.pace if options.pace is not None else PACE_S
    if options.fast or not paced:
        pace_s = 0.0
    if not 0 <= pace_s <= 10:
        raise ConfigurationError(f'--pace {pace_s!r}: expected 0 to 10 seconds')
    robots, tasks = FLEETS[options.drivers]
    console = Console(highlight=False)
    demo = read_fields(
        options,
        DemoOptions,
        model=str(Path(find_model(options.model)).resolve()) if options.model else '',
        robots=robots if options.robots is None else options.robots,
        tasks=tasks if options.tasks is None else options.tasks,
        servers=ServerOptions(tuple(options.server)).urls if options.server else (),
        pace_s=pace_s,
        output=options.output,
        drivers=options.drivers,
        live=console.is_terminal and sys.stdout.isatty() and not options.headless,
    )
    return run_demo(demo, console)


def _check_model(options: argparse.Namespace) -> None:
    """Check that there is a model to fly on, which processes would only find out one by one.

    Raises:
        ConfigurationError: There is none, or the engine has none.
    """
    if options.engine == 'simulated':
        raise ConfigurationError('--model with --engine simulated: expected an engine with a model')
    try:
        path = find_model(options.model)
        require_model_files(path)
        find_adapter(path)
    except ModelLoadError as err:
        hint = '; `make model-smollm2` makes it' if 'smollm2' in options.model else ''
        raise ConfigurationError(f'{err}{hint}') from err
