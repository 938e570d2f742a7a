"""``timely-llm resume``: what a crash left open is found, and sent as it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.traces.small_trace import HISTORY, INSTRUCTION, write_small_trace

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.cli.main import main
from timely_llm_ros.cli.resume_command import open_tasks, task_json
from timely_llm_ros.errors import ShutdownError
from timely_llm_ros.ros.conversions.task_json import goal_of

if TYPE_CHECKING:
    from pathlib import Path

ROBOTS = ('drone_1', 'drone_2', 'drone_3')


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    return write_small_trace(tmp_path / 'run', ROBOTS, unended=('drone_1', 'drone_3'))


def test_open_tasks_are_listed_and_nothing_is_sent(
    crashed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['resume', '--dry-run', str(crashed)]) == 0
    found = capsys.readouterr()
    assert found.out.splitlines() == [
        '2 of 3 tasks had not ended',
        f'  drone_1  1 segments done  {INSTRUCTION}',
        f'  drone_3  1 segments done  {INSTRUCTION}',
    ]
    assert 'recorder was killed' in found.err
    assert main(['resume', '--dry-run', '--robot', 'drone_3', str(crashed)]) == 0
    assert 'drone_1' not in capsys.readouterr().out


def test_a_task_is_sent_as_it_was_asked(crashed: Path) -> None:
    task = open_tasks(read_run(Trace(crashed)))[0]
    goal = goal_of(task_json(task))
    assert (goal.robot, goal.skill_set, goal.instruction) == ('drone_1', 'tello', INSTRUCTION)
    assert [(item.name, item.attribute, item.position.x) for item in goal.scene] == [
        ('cat_1', 'black', 2.0)
    ]
    assert (goal.utility.slope_per_s, goal.utility.expected_response.sec) == (-2.0, 1)
    assert goal.time_budget.sec == 30
    assert list(goal.history) == list(HISTORY)
    # Tasks of one robot wait for each other.
    assert goal.when_busy == goal.BUSY_QUEUE


def test_what_ended_with_planner_or_engine_counts_where_it_is_asked_for(tmp_path: Path) -> None:
    run = read_run(Trace(write_small_trace(tmp_path / 'run', ROBOTS)))
    assert open_tasks(run) == []
    run.tasks[1].error_code = ShutdownError.code
    assert open_tasks(run) == []
    assert open_tasks(run, interrupted=True) == [run.tasks[1]]
    assert open_tasks(run, interrupted=True, robots=['drone_1']) == []


def test_a_whole_trace_has_nothing_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / 'run')
    assert main(['resume', str(tmp_path / 'run')]) == 0
    assert capsys.readouterr().out.startswith('0 of ')


def test_an_unknown_robot_is_named(crashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['resume', '--dry-run', '--robot', 'arm_9', str(crashed)]) == 1
    assert "robot 'arm_9': expected one of the trace: drone_1, " in capsys.readouterr().err
