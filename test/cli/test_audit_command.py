"""``timely-llm audit verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.audit import AuditLog
from timely_llm_ros.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def test_a_log_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / 'audit.jsonl'
    log = AuditLog(path)
    for number in range(3):
        log.note('asked', number=number)
    log.close()
    whole = path.read_bytes()
    assert main(['audit', 'verify', str(path)]) == 0
    text = capsys.readouterr().out
    assert '3 lines, each as it was written; head ' in text
    head = text.split('head ')[1].strip()
    path.write_bytes(whole.replace(b'"number": 1', b'"number": 7'))
    assert main(['audit', 'verify', str(path)]) == 1
    assert 'TAMPERED, line 2: ' in capsys.readouterr().out
    path.write_bytes(whole[:-20])
    assert main(['audit', 'verify', str(path)]) == 4
    assert 'torn off' in capsys.readouterr().out
    assert main(['audit', 'verify', '--head', head, str(path)]) == 1
    assert main(['audit', 'verify', str(tmp_path / 'none')]) == 3


def test_what_is_no_hash_is_refused_and_no_log_called_tampered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / 'audit.jsonl'
    AuditLog(path).close()
    with pytest.raises(SystemExit):
        main(['audit', 'verify', str(path), '--head', 'abc'])
    assert "--head: 'abc': expected a hash as verify prints it" in capsys.readouterr().err
