"""``timely-llm profile`` without a model: a stopwatch that knows the truth takes its place."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.cli import profile_command
from timely_llm_ros.cli.main import main
from timely_llm_ros.command_line import EXIT_INTERRUPTED
from timely_llm_ros.engines.simulated.step_time import StepWork, find_hardware
from timely_llm_ros.prediction.times.profiling import ProfilePlan, RequestOverhead, measure

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


class Truth:
    """A prompt takes 2 ms + 0.1 ms a token, a step 1 ms for each generation."""

    def prefill_s(self, tokens: int, cached: int) -> float:
        return 0.002 + 1e-4 * (tokens - cached)

    def steps_s(self, batch: int, kv_tokens: int) -> list[float]:
        return [0.001 * batch + 1e-6 * batch * kv_tokens] * 2


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(options: argparse.Namespace, _path: str, _screen: Any) -> Any:
        plan = ProfilePlan((16, 64, 256), (16, 256), (1, 2), options.repeats)
        return SimpleNamespace(info=SimpleNamespace(parameters=7)), plan, measure(plan, Truth())

    monkeypatch.setattr(profile_command, '_measure', fake)
    overhead = RequestOverhead(0.004, ((1, 0.003), (2, 0.005)))
    monkeypatch.setattr(profile_command, '_requests', lambda *_: overhead)
    # A load of this machine's own must not show.
    monkeypatch.setattr(os, 'getloadavg', lambda: (0.0, 0.0, 0.0))


@pytest.mark.usefixtures('measured')
def test_a_profile_is_written_shown_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / 'profile.json'
    options = ['--kv-tokens', '5000', '--repeats', '25']
    assert main(['profile', '-o', str(path), *options]) == 0
    captured = capsys.readouterr()
    for part in ('prompt', 'step of 2', '100', '0.0 %', '99% of single times', str(path)):
        assert part in captured.out, part
    assert captured.err == ''
    content = json.loads(path.read_text())
    assert content['model']['name'] == 'timely-planner'
    assert content['errors']['prefill']['held_out_mape_pct'] == pytest.approx(0, abs=1e-6)
    assert {row['held_out'] for row in content['measurements']['prefill']} == {True, False}
    assert all('/' not in str(value) for value in content['model'].values())

    hardware = find_hardware(str(path))
    assert hardware.kv_capacity_tokens == 5000
    work = StepWork(2, kv_tokens=300, prefills=((10, 60),), begun=1)
    assert hardware.step_time.step_s(work) == pytest.approx(
        0.002 + 3e-4 + 0.005 + 0.002 + 0.005 + 0.004
    )


@pytest.mark.usefixtures('measured')
def test_a_file_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / 'profile.json'
    path.write_text('mine')
    assert main(['profile', '-o', str(path)]) == 1
    assert '--force' in capsys.readouterr().err
    assert path.read_text() == 'mine'
    assert main(['profile', '-o', str(path), '--force', '--repeats', '2']) == 0
    assert json.loads(path.read_text())['repeats'] == 2


@pytest.mark.usefixtures('measured')
def test_a_busy_machine_is_mentioned(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, 'getloadavg', lambda: (900.0, 0.0, 0.0))
    assert main(['profile', '-o', str(tmp_path / 'profile.json'), '--repeats', '1']) == 0
    captured = capsys.readouterr()
    assert 'busy (load 900.0)' in captured.err
    assert 'Too few measurements for a margin' in captured.out


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile_command, '_measure', interrupted)
    assert main(['profile', '-o', str(tmp_path / 'profile.json')]) == EXIT_INTERRUPTED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('--threads', '0'), '--threads 0: expected 1 to 256'),
        (('--threads', '257'), '--threads 257: expected 1 to 256'),
        (('--kv-tokens', '0'), '--kv-tokens 0'),
        (('--prefill-chunk', '-1'), '--prefill-chunk -1'),
        (('--repeats', '0'), '0 repeats'),
        (('--prompts', '64', '64', '128'), 'prompt sizes [64, 64, 128]: expected at least 3'),
        (('--contexts', '0', '64'), 'context sizes [0, 64]'),
        (('--batches', '0'), 'batch sizes [0]'),
        (('--model', '/no/such/model'), '/no/such/model'),
        (('--output', '/no/such/folder/profile.json'), '/no/such/folder'),
    ],
)
def test_wrong_options_are_named(
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(profile_command, '_measure', lambda *_: pytest.fail('it was measured'))
    assert main(['profile', *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_number_format_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match='2'):
        main(['profile', '--dtype', 'int4'])
    assert 'float32' in capsys.readouterr().err
