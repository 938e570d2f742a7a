"""``lrtrace slo``: how well a fleet kept its times, day by day and class by class."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from lrtrace.slo import DayOfClass


def add_slo_command(commands: Any) -> None:
    """Add the command to the subparsers of ``lrtrace``."""
    parser = commands.add_parser(
        'slo',
        help='say how well times were kept, by day and class',
        description='For every day (UTC) and class of tasks say how many were answered in time, '
        'and the median and the 99th percentile of their response times. A class is a skill set '
        'and the response time that a task expects. A task without a response was not in time.',
    )
    parser.add_argument('trace', nargs='+', help='a trace folder or an MCAP file')
    parser.add_argument('--json', action='store_true', help='print one JSON object per line')
    parser.set_defaults(run=_slo)


def _slo(options: argparse.Namespace) -> int:
    from lrtrace.slo import days_of_classes, refused_by_day
    from lrtrace.storage import Trace
    from lrtrace.timeline import read_run

    runs = []
    for path in options.trace:
        run = read_run(Trace(path))
        if run.damage:
            print(f'warning: {run.damage}', file=sys.stderr)
        runs.append(run)
    found = days_of_classes(runs)
    if options.json:
        for one in found:
            values = asdict(one)
            # JSON has no NaN.
            unknown = (key for key in ('median_s', 'p99_s') if math.isnan(values[key]))
            print(json.dumps(values | dict.fromkeys(unknown)))
        return 0
    print('\n'.join(_lines(found)) if found else 'no task ended')
    for day, count in sorted(refused_by_day(runs).items()):
        print(f'{day}  {count} goals refused')
    return 0


def _lines(found: list[DayOfClass]) -> list[str]:
    width = max(len('skill set'), *(len(one.skill_set) for one in found))
    lines = [
        f'{"day":<10}  {"skill set":<{width}}  {"expects":>8}  {"tasks":>6}  {"in time":>7}  '
        f'{"done":>6}  {"p50":>8}  {"p99":>8}'
    ]
    lines += [
        f'{one.day:<10}  {one.skill_set:<{width}}  {one.expected_response_s:>6g} s  '
        f'{one.tasks:>6}  {one.in_time / one.tasks:>7.1%}  {one.succeeded / one.tasks:>6.1%}  '
        f'{_seconds(one.median_s)}  {_seconds(one.p99_s)}'
        for one in found
    ]
    return lines


def _seconds(value: float) -> str:
    return f'{"-" if math.isnan(value) else f"{value:.2f} s":>8}'
