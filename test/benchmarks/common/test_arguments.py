"""What the programs of benchmarks refuse before they begin."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.common import COUNT, FROM_ZERO, POSITIVE, Number, arguments
from benchmarks.timebill import timebill
from benchmarks.timelyllm import thousands, timelyllm

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.mark.parametrize(
    ('kind', 'text', 'expected'),
    [
        (COUNT, '0', 'a whole number of at least 1'),
        (COUNT, '2.5', 'a whole number of at least 1'),
        (COUNT, 'many', 'a whole number of at least 1'),
        (FROM_ZERO, '-1', 'a whole number of at least 0'),
        (POSITIVE, '0', 'a number above 0'),
        (POSITIVE, 'nan', 'a number above 0'),
        (POSITIVE, 'inf', 'a number above 0'),
        (Number(0.05, 60, whole=False), '61', 'a number from 0.05 to 60'),
    ],
)
def test_a_number_that_no_program_could_use_is_named(
    capsys: pytest.CaptureFixture[str], kind: Number, text: str, expected: str
) -> None:
    parser = arguments('A program.')
    parser.add_argument('--robots', type=kind)
    with pytest.raises(SystemExit):
        parser.parse_args([f'--robots={text}'])
    assert f'argument --robots: {text!r}: expected {expected}\n' in capsys.readouterr().err


def test_good_numbers_are_taken() -> None:
    assert [COUNT('3'), FROM_ZERO('0'), POSITIVE('1e-3'), Number(2, 4)('4')] == [3, 0, 0.001, 4]
    assert isinstance(COUNT('3'), int)


def test_a_program_refuses_a_fleet_without_robots(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, 'argv', ['thousands', '--robots', '0'])
    with pytest.raises(SystemExit):
        thousands.main()
    assert "argument --robots: '0': expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ('program', 'option', 'place', 'expected'),
    [
        (timelyllm, '--results', 'file', "file': is no folder: expected a folder"),
        (timelyllm, '--images', 'file/figures', "file': is no folder: expected a folder"),
        (timebill, '--json', '', 'is a folder: expected a file'),
        (timebill, '--json', 'file/figures.json', "file': is no folder: expected a folder"),
    ],
)
def test_a_program_refuses_a_place_that_it_could_not_write_to(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    program: ModuleType,
    option: str,
    place: str,
    expected: str,
) -> None:
    (tmp_path / 'file').touch()
    monkeypatch.setattr(sys, 'argv', ['program', option, str(tmp_path / place)])
    with pytest.raises(SystemExit):
        program.main()
    told = capsys.readouterr().err
    assert f'argument {option}: ' in told
    assert expected in told


def test_places_that_are_not_there_yet_are_taken(tmp_path: Path) -> None:
    (tmp_path / 'there.json').touch()
    for name in ('there.json', 'new/figures.json'):
        text = str(tmp_path / name)
        assert arguments('A program.').parse_args(['--json', text]).json == text
    assert not (tmp_path / 'new').exists()
