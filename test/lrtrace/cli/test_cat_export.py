"""``lrtrace cat``, ``export`` and the tasks of ``ls``."""

from __future__ import annotations

import csv
import json
import math
import sys
from array import array
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from benchmarks.recorder.synthetic_trace import messages, workload, write_trace
from lrtrace.cli.export_command import COLUMNS, tables, write_tables
from lrtrace.cli.listing import task_lines
from lrtrace.cli.main import main
from lrtrace.run import RefusedTask
from lrtrace.storage.reader import Trace
from lrtrace.storage.to_json import SLICE, json_pieces
from lrtrace.timeline import read_run
from timely_llm_ros.errors import ConfigurationError, TraceError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope='module')
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('traces') / 'run'
    write_trace(folder)
    return folder


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[Any]:
    assert main(['cat', *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_message_is_a_line_of_json(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = messages(workload(1, 4), whole=False)
    found = printed([str(trace)], capsys)
    assert [line['topic'] for line in found] == [topic for _, topic, _ in sent]
    assert found[0]['type'] == 'timely_llm_ros/msg/TaskEvent'
    event, first = found[0]['message'], sent[0][2]
    assert event['robot'] == first.robot
    assert event['plan_id'] == {'uuid': first.plan_id.uuid.tolist()}
    assert event['utility']['slope_per_s'] == first.utility.slope_per_s


def test_topics_and_number_are_chosen(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed([str(trace), '/scheduler_state', '-n', '3'], capsys)
    assert [line['topic'] for line in found] == ['/scheduler_state'] * 3
    assert printed([str(trace), '-n', '0'], capsys) == []


def test_an_unknown_topic_is_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['cat', str(trace), '/nothing']) == 1
    err = capsys.readouterr().err
    assert "'/nothing'" in err
    assert '/task_events' in err
    assert main(['cat', str(trace), '-n', '-1']) == 1


def test_numbers_that_json_does_not_know_become_null() -> None:
    class Message:
        __slots__ = ('parts', 'raw', 'sums', 'value')

        def __init__(self) -> None:
            self.value, self.parts, self.raw = math.nan, [1.5, -math.inf], b'\1\2' * SLICE
            self.sums = array('d', [0.5, math.nan])

    found = json.loads(''.join(json_pieces(Message())))
    assert (found['value'], found['parts'], found['sums']) == (None, [1.5, None], [0.5, None])
    assert found['raw'] == [1, 2] * SLICE


def test_tables_hold_the_run(trace: Path, tmp_path: Path) -> None:
    run = read_run(Trace(trace))
    assert main(['export', str(trace), '-o', str(tmp_path / 'new' / 'folder')]) == 0
    read = {
        path.stem: list(csv.DictReader(path.open(newline='')))
        for path in (tmp_path / 'new' / 'folder').iterdir()
    }
    assert set(read) == {'tasks', 'segments', 'engine'}
    assert len(read['tasks']) == len(run.tasks)
    assert len(read['segments']) == sum(len(task.segments) for task in run.tasks)
    assert len(read['engine']) == len(run.samples)
    first, row = run.tasks[0], read['tasks'][0]
    assert (row['plan_id'], row['instruction']) == (first.plan_id, first.instruction)
    assert float(row['response_s']) == first.response_s
    assert row['time_budget_s'] == ''


def test_files_are_replaced_only_when_told(trace: Path, tmp_path: Path) -> None:
    (tmp_path / 'segments.csv').write_text('mine')
    assert main(['export', str(trace), '-o', str(tmp_path)]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ['segments.csv']
    assert (tmp_path / 'segments.csv').read_text() == 'mine'
    assert main(['export', str(trace), '-o', str(tmp_path), '--force']) == 0
    assert (tmp_path / 'segments.csv').read_text() != 'mine'


def test_without_pyarrow_parquet_is_refused(
    trace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    monkeypatch.setitem(sys.modules, 'pyarrow.parquet', None)
    assert main(['export', str(trace), '--format', 'parquet', '-o', str(tmp_path)]) == 1
    assert 'pyarrow, which is not installed' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_parquet_holds_the_same(trace: Path, tmp_path: Path) -> None:
    run = read_run(Trace(trace))
    write_tables(tables(run), tmp_path, kind='parquet')
    for name, rows in tables(run).items():
        expected = [dict(zip(COLUMNS[name], row, strict=True)) for row in rows]
        assert expected
        assert parquet.read_table(tmp_path / f'{name}.parquet').to_pylist() == expected


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'xls'"):
        write_tables({}, tmp_path, kind='xls')


def test_a_file_in_the_way_is_named(trace: Path, tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    with pytest.raises(TraceError, match='cannot be written'):
        write_tables(tables(read_run(Trace(trace))), tmp_path / 'file')


def test_ls_lists_the_tasks_of_a_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['ls', str(trace)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(read_run(Trace(trace)).tasks)
    assert 'succeeded' in lines[1]
    assert main(['ls', str(trace / 'run_0.mcap')]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_how_a_task_ended_is_said(trace: Path) -> None:
    run = read_run(Trace(trace))
    one, two, three = run.tasks[:3]
    one.status, one.error_code, one.error = 6, 3, 'another \x1b[2J took over'
    two.status, two.error_code = 5, 4
    three.ended_s, three.response_s = None, None
    run.refused.append(RefusedTask('drone_9', 'too late'))
    lines = task_lines(run)
    assert 'aborted (3)' in lines[1]
    assert '\x1b' not in lines[1]
    assert 'canceled' in lines[2]
    assert 'not ended' in lines[3]
    assert lines[-1] == 'refused    drone_9: too late'


def test_info_says_whether_a_trace_was_closed(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['info', str(trace)]) == 0
    assert 'closed     yes' in capsys.readouterr().out
    write_trace(tmp_path / 'cut', close=False).flush()
    assert main(['info', str(tmp_path / 'cut')]) == 0
    assert (
        'closed     no, it is still recorded, or its recorder was killed' in capsys.readouterr().out
    )
