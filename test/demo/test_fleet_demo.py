"""What the demo says at its end."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from timely_llm_ros.cli.main import main
from timely_llm_ros.demo.fleet_demo import next_command


def test_the_next_command_exists_and_takes_what_it_is_given(tmp_path: Path) -> None:
    trace = tmp_path / 'no trace'
    program, *arguments = shlex.split(next_command(trace))
    assert Path(program).resolve().parent == Path(sys.executable).parent.resolve()
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    # It is refused for the trace alone, which is not there.
    assert done.returncode == 1
    assert 'no trace' in done.stderr
    assert 'usage' not in done.stderr


def test_paths_are_told_from_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert next_command(tmp_path / 'demo_output' / 'segmented').endswith(' demo_output/segmented')


@pytest.mark.parametrize(
    ('arguments', 'problem'),
    [
        (['--model', 'smollm2', '--output', 'x'], '`make model-smollm2` makes it'),
        (['--model', './nowhere'], 'no config.json there'),
        (['--model', 'timely-planner', '--engine', 'simulated'], 'an engine with a model'),
    ],
)
def test_a_model_that_cannot_fly_is_refused_before_anything_starts(
    arguments: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('timely_llm_ros.engines.tokens.model_files.shipped_folders', lambda _: [])
    assert main(['demo', *arguments]) == 1
    assert problem in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
