"""``timely-llm what-if`` as people call it."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.recorder.synthetic_trace import write_trace
from benchmarks.recorder.virtual_trace import apart, write_virtual_trace
from benchmarks.workloads import WORKLOADS, compose
from benchmarks.workloads.experiment import System
from lrtrace.storage import TraceWriter, repair_trace
from timely_llm_ros.cli import what_if_command
from timely_llm_ros.cli.main import main
from timely_llm_ros.engines import EngineConfig
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.ros.parameters import declarations
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope='module')
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    spec = replace(WORKLOADS['wid1'], duration_s=12.0, robots=8)
    folder = tmp_path_factory.mktemp('cli') / 'run'
    write_virtual_trace(folder, apart(compose(spec, 5)), System('utility', max_running=2))
    return str(folder)


def test_the_recorded_run_stands_beside_each_what_if(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ['what-if', '--policy', 'utility,edf', '--max-running', '2', trace]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    rows = [line.split('  ')[0] for line in out.splitlines()]
    assert [row for row in rows if row in ('recorded', 'replayed as it was', 'edf')] == [
        'recorded',
        'replayed as it was',
        'edf',
    ]
    assert 'model error' in out
    assert '(+0.' in out
    assert main(arguments) == 0
    assert capsys.readouterr().out == out


def test_figures_come_as_json(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ['--policy', 'fcfs', '--robots', '3,8', '--max-running', '2', '--json']
    assert main(['what-if', *arguments, trace]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [one['label'] for one in content['replays']] == [
        'replayed as it was',
        'fcfs, 3 robots',
        'fcfs, 8 robots',
    ]
    assert content['model_error']['tasks'] == content['compared'] == content['recorded']['tasks']
    assert content['model_error']['response_mean_s'] < 0.02


def test_a_real_looking_whole_plan_run_is_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / 'whole', whole=True)
    assert main(['what-if', '--mode', 'segmented,stream', str(tmp_path / 'whole')]) == 0
    out = capsys.readouterr().out
    assert 'tokens per segment are estimates' in out
    assert [line.split('  ')[0] for line in out.splitlines()].count('stream') == 1


def test_a_page_of_all_runs_is_written(trace: str, tmp_path: Path) -> None:
    page = tmp_path / 'what_if.html'
    assert main(['what-if', '--policy', 'edf', '--html', str(page), trace]) == 0
    text = page.read_text()
    assert 'replayed as it was' in text
    assert 'fitted to the trace' in text
    assert 'http' not in text.replace('http-equiv', '')


def test_a_figure_is_drawn(trace: str, tmp_path: Path) -> None:
    pytest.importorskip('matplotlib')
    for name in ('one.png', 'two.png'):
        assert main(['what-if', '--policy', 'edf', '--figure', str(tmp_path / name), trace]) == 0
    drawn = (tmp_path / 'one.png').read_bytes()
    assert drawn.startswith(b'\x89PNG')
    assert drawn == (tmp_path / 'two.png').read_bytes()


def test_without_matplotlib_a_figure_is_refused_at_once(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, 'matplotlib', None)
    assert main(['what-if', '--figure', 'what_if.png', trace]) == 1
    found = capsys.readouterr()
    assert 'matplotlib, which is not installed' in found.err
    assert 'pip install matplotlib' in found.err
    assert not found.out


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['--engine', 'steam'], "engine 'steam': expected one of"),
        (['--policy', 'best'], "policy 'best'"),
        (['--policy', 'edf,'], 'names joined by commas'),
        (['--mode', 'slow'], "mode 'slow'"),
        (['--hardware', 'abacus'], "hardware 'abacus'"),
        (['--robots', '3,x'], "--robots 'x'"),
        (['--robots', '0'], 'expected a whole number from 1 to 100000'),
        (['--robots', '1000000000'], 'expected a whole number from 1 to 100000'),
        (['--robots', '9' * 5000], 'expected a whole number from 1 to 100000'),
        (['--model', 'some'], "--model 'some': expected an engine that runs one"),
        (['--admission', 'free'], "admission 'free'"),
    ],
)
def test_what_cannot_be_used_is_named(
    arguments: list[str], said: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['what-if', *arguments, trace]) == 1
    err = capsys.readouterr().err
    assert said in err
    assert err.startswith('error: ')


def test_a_killed_trace_is_replayed_once_it_is_repaired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / 'run', close=False).flush()
    assert main(['what-if', str(tmp_path / 'run')]) == 1
    assert 'lrtrace repair' in capsys.readouterr().err
    repair_trace(tmp_path / 'run')
    assert main(['what-if', '--policy', 'edf', str(tmp_path / 'run_repaired')]) == 0
    assert 'model error' in capsys.readouterr().out


def test_a_foreign_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = TraceWriter(tmp_path / 'run')
    writer.add_topic('/words', 'std_msgs/msg/String')
    writer.write('/words', b'\0\1\0\0\2\0\0\0a\0', log_ns=10**18)
    writer.close()
    (tmp_path / 'noise.mcap').write_bytes(b'#ROSBAG V2.0\n')
    for name, said in (
        ('run', 'no task in it'),
        ('noise.mcap', 'MCAP'),
        ('none', 'expected a rosbag2'),
    ):
        assert main(['what-if', str(tmp_path / name)]) == 1
        assert said in capsys.readouterr().err


def test_a_what_if_and_the_planner_node_have_one_default() -> None:
    parser = argparse.ArgumentParser()
    what_if_command.add_options(parser)
    given = parser.parse_args(['some_trace'])
    node = declarations(PlannerParameters)
    assert given.admission == node['admission'].default == SchedulingOptions().admission
    assert given.policy.split(',')[0] == node['policy'].default == EngineConfig.policy
    assert declarations(SchedulingOptions) == {
        name: node[name] for name in declarations(SchedulingOptions)
    }


@pytest.mark.parametrize(
    ('option', 'expected'),
    [
        ('policy', 'edf, '),
        ('mode', 'segmented, '),
        ('hardware', 'rtx4090_llama3_8b, '),
    ],
)
def test_a_name_that_is_none_is_refused_before_the_trace_is_read(
    option: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['what-if', f'--{option}', 'x', 'no_trace']) == 1
    told = capsys.readouterr().err
    assert f"{option} 'x': expected one of " in told
    assert expected in told
    assert '[' not in told
    assert '(' not in told
