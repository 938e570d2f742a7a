"""``timely-llm doctor`` sees what is missing and names the command that mends it."""

from __future__ import annotations

import ast
import json
import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.cli import doctor_command
from timely_llm_ros.cli.main import main
from timely_llm_ros.engines.vllm.plugin import contract

if TYPE_CHECKING:
    from timely_llm_ros.cli.doctor_command import Finding

ROOT = Path(__file__).resolve().parents[2]


def finding_of_vllm(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, object] | None, error: str = ''
) -> Finding:
    """Return what the doctor says of an installed vLLM whose probe answers this."""
    monkeypatch.setattr(doctor_command, '_probe', lambda _: (found, error))
    monkeypatch.setattr(metadata, 'version', lambda _: '0.32.0')
    (finding,) = doctor_command.check_vllm()
    return finding


def test_the_doctor_finds_a_working_machine() -> None:
    for check in (
        doctor_command.check_python,
        doctor_command.check_ros,
        doctor_command.check_packages,
        doctor_command.check_programs,
        doctor_command.check_skill_sets,
        doctor_command.check_disk,
    ):
        for finding in check():
            assert finding.level == 'ok', finding
            assert finding.mend == ''


def test_the_doctor_looks_at_every_program_and_skill_set_that_ships() -> None:
    (programs,) = doctor_command.check_programs()
    assert programs.text.startswith('executor, planner, recorder, replay, window in ')
    (skill_sets,) = doctor_command.check_skill_sets()
    assert (
        skill_sets.text
        == 'arm, behavior, chatbot, libero, nav2, ros2_control, rover, tello, virtualhome'
    )


@pytest.mark.parametrize(('allowed', 'level'), [(True, 'ok'), (False, 'note')])
def test_the_doctor_says_whether_executors_may_go_first(
    monkeypatch: pytest.MonkeyPatch, allowed: bool, level: str
) -> None:
    before = os.sched_getscheduler(0)
    monkeypatch.setattr(doctor_command, 'take_precedence', lambda: allowed)
    (finding,) = doctor_command.check_precedence()
    assert finding.level == level
    assert bool(finding.mend) is not allowed
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize(('allowed', 'level'), [(4194304, 'ok'), (212992, 'note')])
def test_the_doctor_says_whether_sockets_may_have_room(
    tmp_path: Path, allowed: int, level: str
) -> None:
    (tmp_path / 'rmem_max').write_text(f'{allowed}\n')
    (finding,) = doctor_command.check_sockets(tmp_path / 'rmem_max')
    assert finding.level == level
    assert ('net.core.rmem_max=2000000' in finding.mend) is (level == 'note')


def test_the_doctor_says_what_mends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor_command, '_probe', lambda _: (None, 'No module named rclpy'))
    monkeypatch.setattr(doctor_command, '_version', lambda _: '')
    assert main(['doctor', '--json']) == 1
    findings = {f['item']: f for f in json.loads(capsys.readouterr().out)}
    assert findings['ROS 2']['level'] == 'fail'
    assert 'rclpy' in findings['ROS 2']['text']
    for item in ('ROS 2', 'torch engine', 'traces', 'terminal'):
        assert 'setup' in findings[item]['mend']


def test_a_vllm_that_cannot_be_imported_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = finding_of_vllm(monkeypatch, None, "No module named 'PIL'")
    assert finding.level == 'fail'
    assert "is installed but cannot be imported: No module named 'PIL'" in finding.text
    assert finding.mend.endswith('setup ENGINE=vllm')


def test_a_vllm_that_our_scheduler_does_not_fit_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = finding_of_vllm(monkeypatch, {'problems': ['schedule: takes other arguments']})
    assert finding.level == 'note'
    assert 'serves without our scheduler: schedule' in finding.text


def test_without_vllm_the_doctor_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, 'DISTRIBUTIONS', ('no-such-distribution',))
    (finding,) = doctor_command.check_vllm()
    assert finding.level == 'note'
    assert finding.mend.endswith('setup ENGINE=vllm')


def test_the_doctor_tries_every_import_of_the_vllm_engine() -> None:
    """The plug-in's own imports are checked against vLLM's version by the contract."""
    tried = {
        alias.name
        for node in ast.walk(ast.parse(doctor_command._VLLM_PROBE))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    folder = ROOT / 'timely_llm_ros' / 'engines' / 'vllm'
    used = {
        node.module
        for path in folder.glob('*.py')
        for node in ast.walk(ast.parse(path.read_text('utf-8')))
        if isinstance(node, ast.ImportFrom) and (node.module or '').split('.')[0] == 'vllm'
    }
    assert used
    assert used <= tried
