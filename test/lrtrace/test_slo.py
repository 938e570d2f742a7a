"""How well times were kept, by day and class."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace.cli.main import main
from lrtrace.run import RecordedTask, RefusedTask, Run
from lrtrace.slo import days_of_classes, refused_by_day

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DAY_S = 86_400.0


def task(
    at_s: float, response_s: float | None, expected_s: float = 1.0, **more: Any
) -> RecordedTask:
    given: dict[str, Any] = {'ended_s': at_s + 5.0, 'status': 4, 'skill_set': 'tello'} | more
    return RecordedTask(
        'a', 'r', 'other', 'go', at_s, at_s, expected_s, -2.0, 1.0, response_s=response_s, **given
    )


def test_days_and_classes_are_told_apart_and_no_response_is_late() -> None:
    run = Run('x', start_ns=int(10.5 * DAY_S) * 10**9)
    run.tasks = [
        task(0.0, 0.5),
        task(1.0, 1.5),
        task(2.0, None, status=6),
        task(3.0, 0.5, expected_s=5.0),
        task(DAY_S, 0.9),
        # It has not ended: nothing is known of it.
        task(4.0, None, ended_s=None),
    ]
    run.refused = [RefusedTask('r', 'full', at_s=DAY_S), RefusedTask('r', 'full', at_s=DAY_S)]
    first, second, third = days_of_classes([run])
    assert (first.day, first.expected_response_s) == ('1970-01-11', 1.0)
    assert (first.tasks, first.in_time, first.succeeded) == (3, 1, 2)
    assert (first.median_s, first.p99_s) == (1.0, 0.5 + 0.99)
    assert (second.expected_response_s, second.in_time) == (5.0, 1)
    assert (third.day, third.tasks) == ('1970-01-12', 1)
    assert refused_by_day([run]) == {'1970-01-12': 2}


def test_several_traces_make_one_table() -> None:
    runs = [Run('x', tasks=[task(0.0, 0.5)]), Run('y', tasks=[task(0.0, None)])]
    (only,) = days_of_classes(runs)
    assert (only.tasks, only.in_time) == (2, 1)
    (silent,) = days_of_classes(runs[1:])
    assert math.isnan(silent.p99_s)


def test_the_command_prints_a_table_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / 'run')
    assert main(['slo', str(tmp_path / 'run')]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ['day', 'skill', 'set']
    assert main(['slo', '--json', str(tmp_path / 'run')]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    classes = [line for line in lines if 'refused' not in line]
    assert len(found) == len(classes) > 0
    assert all(0 <= one['in_time'] <= one['tasks'] for one in found)
