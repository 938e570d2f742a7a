"""An audit log tells whatever was changed in it, and what was only torn off."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.audit import AuditLog, Verdict, verify_log
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

WRITES = """
import itertools, sys
from timely_llm_ros.audit import AuditLog
log = AuditLog(sys.argv[1])
for number in itertools.count():
    log.note('asked', number=number, text='x' * (number % 500))
    if number == 20:
        print('writing', flush=True)
"""


def written(path: Path, count: int = 5) -> bytes:
    log = AuditLog(path)
    for number in range(count):
        log.note('asked', robot='drone_1', number=number, text='grüß "dich"\n')
    log.close()
    return path.read_bytes()


@pytest.fixture(scope='module')
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('audit') / 'log.jsonl'


def verdict_of(file: Path, content: bytes) -> Verdict:
    file.write_bytes(content)
    return verify_log(file)


def test_what_was_written_is_there_and_verifies(tmp_path: Path) -> None:
    path = tmp_path / 'audit.jsonl'
    lines = [json.loads(line) for line in written(path).splitlines()]
    assert [line['line'] for line in lines] == list(range(5))
    assert lines[3]['text'] == 'grüß "dich"\n'
    assert all(line['at'].endswith('+00:00') for line in lines)
    assert verify_log(path) == Verdict(5, lines[-1]['hash'])
    assert path.stat().st_mode & 0o007 == 0


def test_a_log_goes_on_where_the_last_program_ended(tmp_path: Path) -> None:
    path = tmp_path / 'audit.jsonl'
    written(path)
    written(path)
    assert verify_log(path).lines == 10
    assert verify_log(path).tampered == ''


def test_a_file_is_written_by_one_program(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / 'audit.jsonl')
    with pytest.raises(ConfigurationError, match='another process writes it'):
        AuditLog(tmp_path / 'audit.jsonl')
    log.close()
    log.note('nothing')
    assert verify_log(tmp_path / 'audit.jsonl').lines == 0
    with pytest.raises(ConfigurationError, match='expected a file to append to'):
        AuditLog(tmp_path)


@given(st.data())
def test_one_changed_byte_is_found(file: Path, data: st.DataObject) -> None:
    file.unlink(missing_ok=True)
    content = bytearray(written(file))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    verdict = verdict_of(file, bytes(content))
    if place == len(content) - 1:
        # What is gone with the last line end may have been torn off.
        assert verdict.tampered or verdict.torn_bytes
    else:
        assert verdict.tampered.startswith(f'line {bytes(content[:place]).count(10) + 1}')


@given(st.integers(0, 3))
def test_a_removed_line_is_found(file: Path, gone: int) -> None:
    file.unlink(missing_ok=True)
    lines = written(file).splitlines(keepends=True)
    del lines[gone]
    verdict = verdict_of(file, b''.join(lines))
    assert verdict.tampered == f'line {gone + 1}: it says that it is number {gone + 1}: ' + (
        f'expected {gone}'
    )
    assert verdict.lines == gone


@given(st.permutations(range(5)))
def test_lines_in_another_order_are_found(file: Path, order: list[int]) -> None:
    file.unlink(missing_ok=True)
    lines = written(file).splitlines(keepends=True)
    verdict = verdict_of(file, b''.join(lines[number] for number in order))
    assert bool(verdict.tampered) == (list(order) != sorted(order))


def test_a_line_of_another_log_is_found(tmp_path: Path) -> None:
    first = written(tmp_path / 'one').splitlines(keepends=True)
    second = written(tmp_path / 'two').splitlines(keepends=True)
    verdict = verdict_of(tmp_path / 'one', b''.join((*first[:2], second[2], *first[3:])))
    assert verdict.tampered == 'line 3: it follows another line than the one before it'


def test_lines_that_are_gone_at_the_end_show_by_the_hash_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / 'log'
    lines = written(path).splitlines(keepends=True)
    head = verify_log(path).head
    written(path, 2)
    assert verify_log(path, expected_head=head).tampered == ''
    path.write_bytes(b''.join(lines[:4]))
    assert verify_log(path).tampered == ''
    assert verify_log(path, expected_head=head).tampered.startswith('the end: ')


@given(st.integers(1, 150))
def test_a_torn_last_line_is_told_as_such_and_the_log_goes_on(file: Path, cut: int) -> None:
    file.unlink(missing_ok=True)
    content = written(file)[:-cut]
    torn = len(content) - content.rfind(b'\n') - 1
    verdict = verdict_of(file, content)
    assert (verdict.lines, verdict.tampered, verdict.torn_bytes) == (4, '', torn)
    written(file, 1)
    verdict = verify_log(file)
    # Where only the line end was gone the line counts; else a line says what was torn.
    assert (verdict.lines, verdict.tampered) == (6, '')
    if cut > 1:
        explanation = json.loads(file.read_bytes().splitlines()[-2])
        assert (explanation['what'], explanation['bytes']) == ('torn', torn)
        changed = bytearray(file.read_bytes())
        changed[len(content) - 1] ^= 1
        assert verdict_of(file, bytes(changed)).tampered.startswith('line 5')


def test_a_log_whose_last_line_was_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / 'log'
    path.write_bytes(written(path).replace(b'"number": 4', b'"number": 5'))
    with pytest.raises(ConfigurationError, match='its hash is another: it was changed'):
        AuditLog(path)


def test_kill_9_leaves_a_log_that_verifies(tmp_path: Path) -> None:
    path = tmp_path / 'log'
    lines = 0
    for _ in range(3):
        program = subprocess.Popen([sys.executable, '-c', WRITES, path], stdout=subprocess.PIPE)
        assert program.stdout is not None
        assert program.stdout.readline() == b'writing\n'
        program.send_signal(signal.SIGKILL)
        program.wait()
        program.stdout.close()
        verdict = verify_log(path)
        assert verdict.tampered == ''
        assert verdict.lines >= lines + 20
        lines = verdict.lines


def test_what_does_not_fit_on_the_disk_is_told_and_leaves_no_half_line(tmp_path: Path) -> None:
    # A limit on the size of files stands in for a disk that is full.
    path, before = tmp_path / 'log', resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = AuditLog(path)
    log.note('first')
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, before[1]))
        log.note('second')
        assert 'expected room on the disk' in log.trouble
        log.note('third')
        assert log.trouble != ''
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    log.note('fourth')
    assert log.trouble == ''
    log.note('long', text='x' * 70_000)
    assert 'expected at most 65536' in log.trouble
    log.close()
    assert [json.loads(line)['what'] for line in path.read_bytes().splitlines()] == [
        'first', 'fourth',
    ]  # fmt: skip
    assert verify_log(path).tampered == ''


def test_a_log_may_be_read_while_it_is_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / 'log')
    log.note('first')
    assert verify_log(tmp_path / 'log').lines == 1
    log.sync()
    log.close()
    log.close()
    assert verify_log(tmp_path / 'log').lines == 1
