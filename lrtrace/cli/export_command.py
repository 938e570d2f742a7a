"""``lrtrace export``: writes tasks, segments and engine states as CSV or Parquet."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError, TraceError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from lrtrace.run import Run

Table = Iterable[Sequence[Any]]
"""Rows with the values of the table's columns; None stands for what the trace does not hold."""

GROUP_BYTES = 2_000_000
"""Rows that take this much memory are a group of a Parquet file."""

_TASK = (
    'plan_id', 'robot', 'kind', 'skill_set', 'instruction', 'received_s', 'free_s',
    'expected_response_s', 'slope_per_s', 'peak', 'time_budget_s', 'ended_s', 'status',
    'error_code', 'error', 'response_s', 'waiting_s', 'execution_s', 'completion_s', 'utility',
    'tokens', 'late',
)  # fmt: skip
_SEGMENT = (
    'index', 'text', 'tokens', 'generated_s', 'generation_s', 'expected_execution_s', 'started_s',
    'ended_s', 'execution_s', 'awaits_value', 'error',
)  # fmt: skip
_SAMPLE = ('at_s', 'running', 'suspended', 'held', 'queued', 'kv_tokens', 'step_s')


def add_export_command(commands: Any) -> None:
    """Add the command to the subparsers of ``lrtrace``."""
    parser = commands.add_parser(
        'export',
        help='write tables of tasks, segments and engine states',
        description='Write the tables tasks, segments and engine, a file each. Times are seconds '
        'since the run began; a cell is empty where the trace holds no value.',
    )
    parser.add_argument('trace', help='a trace folder or an MCAP file')
    parser.add_argument(
        '-o', '--output', default='.', help='folder for the files, made if needed (default: here)'
    )
    parser.add_argument(
        '--format',
        choices=('csv', 'parquet'),
        default='csv',
        help='parquet needs the Python package pyarrow (default: %(default)s)',
    )
    parser.add_argument('--force', action='store_true', help='replace files that exist')
    parser.set_defaults(run=_export)


def tables(run: Run) -> dict[str, Table]:
    """Return a run as tables by name, ``tasks``, ``segments`` and ``engine``, to be read once."""
    task_row, segment_row = attrgetter(*_TASK), attrgetter(*_SEGMENT)
    return {
        'tasks': ((*task_row(task), len(task.segments)) for task in run.tasks),
        'segments': (
            (task.plan_id, task.robot, *segment_row(segment))
            for task in run.tasks
            for segment in task.ordered_segments
        ),
        'engine': map(attrgetter(*_SAMPLE), run.samples),
    }


def write_tables(
    found: Mapping[str, Table], folder: str | Path, *, kind: str = 'csv', overwrite: bool = False
) -> list[Path]:
    """Write each table into a file of ``folder``, as ``csv`` or ``parquet``; return the paths.

    Raises:
        ConfigurationError: pyarrow is not installed, or there is no such kind.
        TraceError: A file exists, and then nothing is written, or one cannot be written.
    """
    write = {'csv': _write_csv, 'parquet': _write_parquet}.get(kind)
    if write is None:
        raise ConfigurationError(f'format {kind!r}: expected csv or parquet')
    if kind == 'parquet':
        _require_pyarrow()
    paths = {name: Path(folder) / f'{name}.{kind}' for name in found}
    for path in paths.values():
        if path.exists() and not overwrite:
            raise TraceError(f'{str(path)!r}: exists: expected a new file, or --force')
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, path in paths.items():
            write(path, found[name], COLUMNS[name])
    except OSError as err:
        raise TraceError(f'{str(folder)!r}: cannot be written: {err.strerror}') from err
    return list(paths.values())


COLUMNS: dict[str, tuple[str, ...]] = {
    'tasks': (*_TASK, 'segments'),
    'segments': ('plan_id', 'robot', *_SEGMENT),
    'engine': _SAMPLE,
}
"""The columns of each table."""

_TEXTS = {'plan_id', 'robot', 'kind', 'skill_set', 'instruction', 'error', 'text'}


def _write_csv(path: Path, rows: Table, columns: Sequence[str]) -> None:
    # RFC 4180 ends lines with CR LF, but every reader takes the shorter form too.
    with path.open('w', encoding='utf-8', newline='') as stream:
        writer = csv.writer(stream, lineterminator='\n')
        writer.writerow(columns)
        writer.writerows(rows)


def _require_pyarrow() -> None:
    try:
        importlib.import_module('pyarrow.parquet')
    except ImportError as err:
        raise ConfigurationError(
            'format parquet needs the Python package pyarrow, which is not installed: expected it, '
            'or --format csv'
        ) from err


def _write_parquet(path: Path, rows: Table, columns: Sequence[str]) -> None:
    # By name, since neither programs nor type checkers may need an optional package.
    arrow, parquet = importlib.import_module('pyarrow'), importlib.import_module('pyarrow.parquet')
    schema = arrow.schema([(name, getattr(arrow, _arrow_type(name))()) for name in columns])
    # The pool of the system gives memory back, arrow's own ones keep it.
    arrow.set_memory_pool(arrow.system_memory_pool())
    with parquet.ParquetWriter(path, schema) as writer:
        for group in _groups(rows):
            try:
                values = list(map(arrow.array, zip(*group, strict=True), schema.types))
            except (OverflowError, TypeError, ValueError) as err:
                raise TraceError(f'{str(path)!r}: a value has no place in it: {err}') from err
            writer.write_table(arrow.Table.from_arrays(values, schema=schema))


def _groups(rows: Table) -> Iterator[list[Sequence[Any]]]:
    group: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(map(sys.getsizeof, row))
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _arrow_type(column: str) -> str:
    if column in ('late', 'awaits_value'):
        return 'bool_'
    if column.endswith('_s') or column in ('slope_per_s', 'peak', 'utility'):
        return 'float64'
    if column in _TEXTS:
        return 'string'
    return 'uint64' if column == 'kv_tokens' else 'int64'


def _export(options: argparse.Namespace) -> int:
    from lrtrace.storage import Trace
    from lrtrace.timeline import read_run

    run = read_run(Trace(options.trace))
    if not run.tasks:
        raise TraceError(f'trace {options.trace!r}: no task in it: expected at least one')
    if run.damage:
        print(f'warning: {run.damage}', file=sys.stderr)
    for path in write_tables(
        tables(run), options.output, kind=options.format, overwrite=options.force
    ):
        print(path)
    return 0
