"""``timely-llm tune`` says what it lacks, what it does, and where it goes on after Ctrl-C."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.cli.main import main
from timely_llm_ros.cli.models import tune_command
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model

if TYPE_CHECKING:
    from pathlib import Path


def command(out: Path, *more: str) -> list[str]:
    return ['tune', '--model', find_model(SHIPPED_MODEL), '--skill-set', 'arm', '--samples', '4',
            '--out', str(out), *more]  # fmt: skip


def test_a_missing_package_is_told_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        'importlib.util.find_spec', lambda name: None if name == 'peft' else find(name)
    )
    assert main(command(tmp_path / 'out')) == 1
    told = capsys.readouterr()
    assert 'the package peft' in told.err
    assert 'pip install "timely_llm_ros[torch,tune]"' in told.err
    assert not told.out
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    ('saved', 'told'),
    [
        ((), 'nothing was saved yet'),
        (('checkpoint-50', 'checkpoint-100'), 'the same command goes on from step 100'),
    ],
)
def test_after_an_interrupt_it_says_where_it_can_go_on(
    saved: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(base: str, out: Path, *_: Any, **__: Any) -> float:
        for name in saved:
            (out / 'checkpoints' / name).mkdir(parents=True)
            (out / 'checkpoints' / name / 'trainer_state.json').touch()
        # One that was being written.
        (out / 'checkpoints' / 'checkpoint-150').mkdir(parents=True)
        raise KeyboardInterrupt

    # What is missing here is of no account: nothing is tuned.
    monkeypatch.setattr(tune_command, 'require_packages', lambda: None)
    monkeypatch.setattr(tune_command, 'tune', interrupted)
    assert main(command(tmp_path / 'out')) == 130
    found = capsys.readouterr()
    assert found.out == 'drawing 4 tasks\n'
    assert found.err.strip() == f'{tmp_path / "out"}: broken off, {told}'
