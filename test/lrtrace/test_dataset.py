"""The committed traces: whole, small, of every kind of task, and said to be of no real robot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rosbags.highlevel import AnyReader
from support.traces.metadata_layout import LAYOUT, load, problems

from lrtrace.cli.main import main
from lrtrace.fleet_events import read_fleet_events
from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.calibration.skill_profile import profile_skills
from timely_llm_ros.evaluation.what_if import WhatIf, own_way, recording_of, replay
from timely_llm_ros.sample_tasks.generator import KINDS
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from lrtrace.run import Run

FOLDER = Path(__file__).resolve().parents[2] / 'datasets' / 'mock_fleet'
TRACE = FOLDER / 'trace'
OLDER = Path(__file__).parent / 'data' / 'without_call_durations'


@pytest.fixture(scope='module')
def run() -> Run:
    return read_run(Trace(TRACE))


def test_it_is_small_whole_and_a_bag_for_others() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob('*')) < 3_000_000
    trace = Trace(TRACE)
    summary = trace.summary()
    assert (summary.damage, trace.cut_off) == ('', False)
    assert problems(load(TRACE), LAYOUT) == []
    with AnyReader([TRACE]) as reader:
        assert reader.message_count == summary.counts.total()


def test_every_kind_of_task_is_in_it(run: Run) -> None:
    kinds = Counter(task.kind for task in run.tasks)
    assert set(kinds) == {kind.name for kind in KINDS.values()}
    assert all(task.ended_s is not None for task in run.tasks)


def test_it_says_that_no_real_robot_was_there() -> None:
    card = (FOLDER / 'README.md').read_text(encoding='utf-8')
    assert 'No real robot' in card
    noted = Trace(TRACE).custom_data
    assert 'mocks behind the real drivers' in noted['robots_are']
    assert f'--seed {noted["seed"]}' in card
    assert (noted['dropped_messages'], noted['policy'], noted['mode']) == (
        '0',
        'utility',
        'segmented',
    )


def test_nothing_of_the_machine_is_in_it() -> None:
    for schema, channel, message in Trace(TRACE).raw():
        for word in (b'/tmp/', b'/home/', b'/root/', b'/usr/'):
            assert word not in message.data, (schema.name, channel.topic)


@pytest.mark.parametrize('trace', [TRACE, OLDER], ids=lambda path: path.name)
def test_the_window_plays_traces_of_before(trace: Path) -> None:
    events, damage = read_fleet_events(Trace(trace))
    assert not damage
    assert {'robot', 'segment', 'task'} <= {event['event'] for event in events}


def test_it_can_be_profiled_and_replayed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    profile = profile_skills([Trace(TRACE)], skill_set=find_skill_set('tello'), min_calls=5)
    assert profile.fits
    recording = recording_of(run)
    own = own_way(recording, WhatIf())
    assert own is not None
    again = replay(recording, own)
    assert len(again.tasks) == len(run.tasks)
    assert main(['ls', str(TRACE)]) == 0
    assert 'look_for' in capsys.readouterr().out
