"""What a simulated world said of a run's tasks is in its records and its report."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from support.traces.small_trace import write_small_trace

from lrtrace.report import write_report
from lrtrace.statistics import figures
from lrtrace.storage import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.world import EventLog

if TYPE_CHECKING:
    from pathlib import Path

ROBOTS = ('drone_1', 'drone_2', 'drone_3')


def events() -> list[str]:
    log = EventLog()
    log.note(1.0, 'task', 'drone_1', 't1', 'look_for')
    for number, detail in enumerate(('succeeded: cat_1 in view', 'failed: <b>cat_1</b> was not')):
        plan = uuid.UUID(int=number + 1).hex
        log.note(2.0, 'verdict', ROBOTS[number], f't{number}', detail, plan)
    # Nobody said which plan this was.
    log.note(3.0, 'verdict', 'drone_3', 't9', 'succeeded: cat_1 in view')
    return log.text.splitlines()


def test_tasks_know_how_the_world_judged_them(tmp_path: Path) -> None:
    lines = [*events(), 'nonsense', '[]', json.dumps({'event': 'verdict'})]
    trace = Trace(write_small_trace(tmp_path / 'trace', ROBOTS, world_events=lines))
    run = read_run(trace)
    verdicts = [task.world_verdict for task in run.tasks]
    assert [one and one.succeeded for one in verdicts] == [True, False, None]
    found = figures(run.tasks)
    assert (found.judged, found.by_world) == (2, 1)


def test_a_report_says_what_succeeded_by_the_world(tmp_path: Path) -> None:
    trace = write_small_trace(tmp_path / 'trace', ROBOTS, world_events=events())
    text = write_report([read_run(Trace(trace))], tmp_path / 'report.html').read_text()
    assert 'succeeded by the world' in text
    assert '1 of 2' in text
    assert 'by the world failed: &lt;b&gt;cat_1&lt;/b&gt; was not' in text


def test_a_report_of_a_run_without_a_world_does_not_mention_one(tmp_path: Path) -> None:
    trace = write_small_trace(tmp_path / 'trace', ROBOTS)
    text = write_report([read_run(Trace(trace))], tmp_path / 'report.html').read_text()
    assert 'by the world' not in text
