"""``timely-llm compose``: makes a workload of recorded tasks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import add_force
from timely_llm_ros.command_line import require_new, write_new
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  timely-llm compose runs/monday --output workload.json
  timely-llm compose runs/monday --arrivals recorded --output again.json
  timely-llm compose runs/* --robots 100 --rate 4 --duration 300 --seed 7 --output fleet.json
  timely-llm compose runs/* --mix look_for=3 --mix evade_animal=1 --output mixed.json --force
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Make a workload whose tasks cost what recorded ones did: tokens, segments, '
        'execution times. When they come, their mix and the size of the fleet are free.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('trace', nargs='+', help='a trace folder or an MCAP file')
    parser.add_argument('-o', '--output', required=True, help='the workload: a JSON file')
    parser.add_argument(
        '--arrivals',
        choices=('poisson', 'recorded'),
        default='poisson',
        help='a Poisson process, or the recorded moments (default: %(default)s)',
    )
    parser.add_argument(
        '--rate', type=float, help='events per s (default: as many tasks per robot as recorded)'
    )
    parser.add_argument(
        '--tasks-per-event',
        type=int,
        default=1,
        help='an event brings 1 to this many tasks (default: %(default)s)',
    )
    parser.add_argument(
        '--duration', type=float, help='tasks come within this time in s (default: as recorded)'
    )
    parser.add_argument('--robots', type=int, help='size of the fleet (default: as recorded)')
    parser.add_argument(
        '--mix',
        action='append',
        metavar='KIND=WEIGHT',
        help='only these kinds of tasks, by weight; may be given again (default: as recorded)',
    )
    parser.add_argument('--seed', type=int, default=0, help='default: %(default)s')
    parser.add_argument('--name', default='recorded', help='name in tables (default: %(default)s)')
    add_force(parser)
    parser.set_defaults(run=_compose)


def _compose(options: argparse.Namespace) -> int:
    from lrtrace.storage import Trace
    from lrtrace.timeline import read_run
    from timely_llm_ros.evaluation import RecordedSpec, compose_recorded, dumps, task_pool

    require_new(options.output, force=options.force)
    if not options.name:
        raise ConfigurationError("--name '': expected some text")
    spec = RecordedSpec(
        options.arrivals,
        options.robots,
        options.duration,
        options.rate,
        options.tasks_per_event,
        None if options.mix is None else _mix(options.mix),
    )
    runs = [read_run(Trace(path)) for path in options.trace]
    for run in runs:
        if run.damage:
            print(f'warning: {run.path}: {run.damage}', file=sys.stderr)
    recorded = task_pool(runs)
    for reason, number in recorded.left_out.items():
        print(f'note: {number} recorded tasks are not used: {reason}')
    workload = compose_recorded(recorded, spec, seed=options.seed, name=options.name)
    write_new(options.output, dumps(workload), force=options.force)
    kinds = ', '.join(f'{kind} {number}' for kind, number in recorded.kinds.items())
    print(f'taken from {len(recorded.tasks)} recorded tasks: {kinds}')
    print(
        f'{options.output}: {len(workload.tasks)} tasks for {workload.robots} robots, '
        f'the last after {workload.tasks[-1].at_s:.1f} s'
    )
    return 0


def _mix(items: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for item in items:
        kind, equals, weight = item.rpartition('=')
        try:
            number = float(weight)
        except ValueError:
            number = None
        if not equals or not kind or number is None:
            raise ConfigurationError(f'--mix {item!r}: expected KIND=WEIGHT')
        if kind in found:
            raise ConfigurationError(f'--mix {item!r}: expected each kind once')
        found[kind] = number
    return found
