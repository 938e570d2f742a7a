"""The command line ``lrtrace``, with its commands ``report``, ``info`` and ``ls``."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lrtrace.cli.cat_command import add_cat_command
from lrtrace.cli.export_command import add_export_command
from lrtrace.cli.repair_command import add_repair_command
from lrtrace.cli.slo_command import add_slo_command
from timely_llm_ros.command_line import make_parser, run_command
from timely_llm_ros.errors import ConfigurationError, TimelyError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_EXAMPLES = """\
examples:
  lrtrace info demo_output/*/segmented
  lrtrace ls demo_output
  lrtrace slo demo_output/*/segmented
  lrtrace report demo_output/*/segmented demo_output/*/whole_plan -o report.html
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    return run_command(build_parser(), arguments)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = make_parser(
        'lrtrace',
        description='Look into traces: rosbag2 folders (MCAP) of the runs of a robot fleet.',
        examples=_EXAMPLES,
    )
    commands = parser.add_subparsers(required=True, metavar='COMMAND')

    report = commands.add_parser(
        'report',
        help='write one HTML file about one or more runs',
        description='Write one HTML file that opens offline. The first trace is the one it is '
        'about; the others are compared to it.',
    )
    report.add_argument('trace', nargs='+', help='a trace folder or an MCAP file')
    report.add_argument(
        '-o', '--output', default='report.html', help='where to write (default: %(default)s)'
    )
    report.add_argument(
        '-l', '--label', action='append', default=[], help='name of a run, once per trace, in order'
    )
    report.add_argument('--title', default='', help='title of the report')
    report.set_defaults(run=_report)

    info = commands.add_parser(
        'info', help='say what a trace holds', description='Say what a trace holds.'
    )
    info.add_argument('trace', help='a trace folder or an MCAP file')
    info.set_defaults(run=_info)

    listing = commands.add_parser(
        'ls',
        help="list a trace's tasks, or the traces below a folder",
        description='List the tasks of a trace with how they ended, or the traces below a folder.',
    )
    listing.add_argument(
        'folder', nargs='?', default='.', help='a trace, or where to look (default: here)'
    )
    listing.set_defaults(run=_list)
    add_cat_command(commands)
    add_export_command(commands)
    add_repair_command(commands)
    add_slo_command(commands)
    return parser


def _report(options: argparse.Namespace) -> int:
    from lrtrace.report import write_report
    from lrtrace.run import tell_apart
    from lrtrace.storage import Trace
    from lrtrace.timeline import read_run

    if len(options.label) > len(options.trace):
        raise ConfigurationError(
            f'{len(options.label)} labels: expected no more than the {len(options.trace)} of traces'
        )
    runs = []
    for index, path in enumerate(options.trace):
        label = options.label[index] if index < len(options.label) else ''
        run = read_run(Trace(path), label=label)
        if run.damage:
            print(f'warning: {run.damage}', file=sys.stderr)
        runs.append(run)
    tell_apart(runs)
    print(write_report(runs, options.output, title=options.title))
    return 0


def _info(options: argparse.Namespace) -> int:
    from lrtrace.report import seconds
    from lrtrace.statistics import figures
    from lrtrace.storage import Trace
    from lrtrace.timeline import read_run

    trace = Trace(options.trace)
    summary = trace.summary()
    start = datetime.datetime.fromtimestamp(summary.start_ns / 1e9, tz=datetime.UTC)
    print(f'trace      {trace.path}')
    print(f'files      {", ".join(file.name for file in trace.files)} ({summary.size_bytes} bytes)')
    print(f'start      {start:%Y-%m-%d %H:%M:%S} UTC')
    print(f'duration   {summary.duration_s:.3f} s')
    print(f'messages   {summary.counts.total()}')
    print(f'state      {summary.damage or "whole"}')
    print(f'closed     {f"no, {trace.ending}" if trace.cut_off else "yes"}')
    for name, value in trace.custom_data.items():
        print(f'{name:<10} {value}')
    run = read_run(trace)
    if run.tasks:
        found = figures(run.tasks)
        print(f'run        {run.label}; engine {run.engine or "unknown"}; {len(run.robots)} robots')
        print(
            f'tasks      {found.tasks}, {found.succeeded} succeeded; median response '
            f'{seconds(found.median_response_s)}, waiting {seconds(found.median_waiting_s)}'
        )
    width = max((len(topic) for topic in summary.counts), default=0)
    for topic in sorted(summary.counts):
        print(f'  {topic:<{width}}  {summary.counts[topic]:>8}  {summary.types[topic]}')
    return 0


def _list(options: argparse.Namespace) -> int:
    from lrtrace.storage import Trace

    root = Path(options.folder)
    if root.is_file() or any(root.glob('*.mcap')):
        from lrtrace.cli.listing import task_lines
        from lrtrace.timeline import read_run

        run = read_run(Trace(root))
        print('\n'.join(task_lines(run)))
        if run.damage:
            print(f'warning: {run.damage}', file=sys.stderr)
        return 0
    if not root.is_dir():
        raise ConfigurationError(f'folder {options.folder!r}: expected one that exists')
    folders = sorted({path.parent for path in root.rglob('*.mcap')})
    for folder in folders:
        try:
            summary = Trace(folder).summary()
        except TimelyError as err:
            print(f'{folder}  {err}')
            continue
        state = 'damaged' if summary.damage else 'whole'
        print(f'{folder}  {summary.counts.total()} messages  {summary.duration_s:.1f} s  {state}')
    if not folders:
        print(f'no trace below {root}')
    return 0
