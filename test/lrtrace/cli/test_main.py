"""The command line of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.command_reference import undocumented

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace.cli.main import build_parser, main

if TYPE_CHECKING:
    from pathlib import Path


def test_report_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path / 'a')
    write_trace(tmp_path / 'b', whole=True)
    output = tmp_path / 'report.html'
    arguments = [str(tmp_path / 'a'), str(tmp_path / 'b'), '-o', str(output), '-l', 'mine']
    assert main(['report', *arguments, '--title', 'My run']) == 0
    assert capsys.readouterr().out.strip() == str(output)
    text = output.read_text()
    assert '<h1>My run</h1>' in text
    assert 'mine' in text
    assert 'whole plan, fcfs' in text


def test_a_killed_trace_is_reported_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = write_trace(tmp_path / 'a', close=False)
    writer.flush()
    assert main(['report', str(tmp_path / 'a'), '-o', str(tmp_path / 'report.html')]) == 0
    assert 'it is still recorded, or its recorder was killed' in capsys.readouterr().err
    assert 'its recorder was killed' in (tmp_path / 'report.html').read_text()


def test_info_says_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path / 'a')
    assert main(['info', str(tmp_path / 'a')]) == 0
    out = capsys.readouterr().out
    assert 'state      whole' in out
    assert '/task_events' in out
    assert 'segmented, utility' in out


def test_ls_lists_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path / 'a')
    write_trace(tmp_path / 'b', close=False).flush()
    (tmp_path / 'c').mkdir()
    (tmp_path / 'c' / 'c_0.mcap').write_bytes(b'nonsense')
    assert main(['ls', str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(maxsplit=1)[1] for line in lines[:2]] == ['whole', 'damaged']
    assert 'expected an MCAP file' in lines[2]


def test_every_command_and_option_is_in_the_reference() -> None:
    assert undocumented(build_parser()) == []


@pytest.mark.parametrize('command', ['info', 'report', 'ls', 'cat', 'export', 'repair'])
def test_what_is_not_there_is_an_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / 'nothing')]) == 1
    assert 'nothing' in capsys.readouterr().err


@pytest.mark.parametrize('command', ['info', 'report', 'ls', 'cat', 'export', 'repair'])
def test_help_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match='0'):
        main([command, '--help'])
    assert 'usage: lrtrace' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['info', '{folder}/' + 'x' * 300], "xxx': File name too long"),
        (
            ['report', '{trace}', '-l', 'a', '-l', 'b'],
            '2 labels: expected no more',
        ),
        (['report', '{trace}', '-o', '{file}/x'], 'cannot be written: Not a directory'),
        (['export', '{trace}', '-o', '{file}/x'], 'cannot be written: Not a directory'),
        (['info', '{binary}'], 'expected an MCAP file'),
        (['cat', '{trace}', '-n', '-1'], '--number -1: expected at least 0'),
    ],
    ids=lambda value: ' '.join(value)[:30] if isinstance(value, list) else '',
)
def test_what_cannot_be_used_is_said_in_a_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / 'run')
    (tmp_path / 'file').write_text('hello')
    (tmp_path / 'binary').write_bytes(bytes(range(128, 256)))
    names = {'folder': tmp_path, 'trace': tmp_path / 'run'}
    names |= {name: tmp_path / name for name in ('file', 'binary')}
    assert main([argument.format(**names) for argument in arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith('error: ')
    assert said in err
    assert err.count('\n') == 1
