"""Times of single calls are found in segments of one and of many, or the segment is left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.traces.recorded_calls import EXECUTION_FAILED, Executed, write_calls

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace.call_samples import (
    FAILED,
    NO_TIME,
    NOT_A_PLAN,
    NOT_SEEN,
    TOO_MANY_WAYS,
    measured_calls,
)
from lrtrace.executed_segments import ExecutedSegment, read_executed
from lrtrace.storage.reader import Trace
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from lrtrace.call_samples import RecordedCalls

TELLO = find_skill_set('tello')
LOOP = 'repeat(3){move_up(50);hover;};land;'
IF = 'if(is_visible(cup_1)){take_picture;}else{scan;land;};'
CUP = {'cup_1': (3.0, 4.0, 0.0)}


def read(folder: Path, *segments: Executed) -> RecordedCalls:
    return measured_calls(read_executed(Trace(write_calls(folder, segments))), TELLO)


def times(found: RecordedCalls) -> list[tuple[str, float]]:
    return sorted(
        (sample.call.text, round(sample.duration_s, 6))
        for samples in found.samples.values()
        for sample in samples
    )


@pytest.mark.parametrize(
    ('segment', 'expected'),
    [
        # One call: known exactly, whether its state was seen or not.
        (Executed('takeoff;', [('takeoff', 3.9)]), [('takeoff', 3.9)]),
        (Executed('log("a");', [('log("a")', 0.1)], unseen=('log("a")',)), [('log("a")', 0.1)]),
        # Several.
        (
            Executed(
                'takeoff; move_up(100); land;',
                [('takeoff', 4), ('move_up(100)', 3.5), ('land', 3)],
            ),
            [('land', 3.0), ('move_up(100)', 3.5), ('takeoff', 4.0)],
        ),
        # Equal ones in a row are seen as one and give their mean.
        (Executed('repeat(4){hover;};', [('hover', 1.0), ('hover', 2.0)] * 2), [('hover', 1.5)]),
        (
            Executed(LOOP, [('move_up(50)', 2.0), ('hover', 1.0)] * 3 + [('land', 3.0)]),
            [('hover', 1.0)] * 3 + [('land', 3.0)] + [('move_up(50)', 2.0)] * 3,
        ),
        # Either branch of a conditional; its condition is a call.
        (
            Executed(IF, [('is_visible(cup_1)', 0.5), ('take_picture', 1.1)], CUP),
            [('is_visible(cup_1)', 0.5), ('take_picture', 1.1)],
        ),
        (
            Executed(IF, [('is_visible(cup_1)', 0.5), ('scan', 7), ('land', 3)], CUP),
            [('is_visible(cup_1)', 0.5), ('land', 3.0), ('scan', 7.0)],
        ),
    ],
)  # fmt: skip
def test_calls_are_measured(
    tmp_path: Path, segment: Executed, expected: list[tuple[str, float]]
) -> None:
    found = read(tmp_path / 'run', segment)
    assert times(found) == expected
    assert found.count == len(expected)
    assert not found.left_out


def test_a_segment_that_tells_of_its_calls_needs_nothing_else(tmp_path: Path) -> None:
    hovers = [('hover', 1.0), ('hover', 2.0), ('land', 3.0)]
    text = 'repeat(2){hover;};land;'
    told = Executed(text, hovers, unseen=('hover', 'land'), told=True)
    found = read(tmp_path / 'told', told)
    # One by one, and not their mean.
    assert times(found) == [('hover', 1.0), ('hover', 2.0), ('land', 3.0)]
    branch = Executed(IF, [('is_visible(cup_1)', 0.5), ('take_picture', 1.1)], CUP, told=True)
    assert times(read(tmp_path / 'if', branch)) == [
        ('is_visible(cup_1)', 0.5),
        ('take_picture', 1.1),
    ]


@pytest.mark.parametrize(
    ('segment', 'reason'),
    [
        (Executed('hover;', [('land', 1.0)], told=True), NOT_SEEN),
        (Executed('hover;land;', [('hover', 0.0), ('land', 1.0)], told=True), NO_TIME),
    ],
)
def test_what_a_segment_tells_is_checked(tmp_path: Path, segment: Executed, reason: str) -> None:
    assert read(tmp_path / 'run', segment).left_out == {reason: 1}


def test_traces_whose_task_events_have_no_call_durations_are_read() -> None:
    trace = Trace(Path(__file__).parent / 'data' / 'without_call_durations')
    segments = read_executed(trace)
    assert [segment.measured for segment in segments] == [(), ()]
    assert times(measured_calls(segments, TELLO)) == [
        ('hover', 1.5),
        ('land', 3.0),
        ('move_up(100)', 3.5),
        ('takeoff', 4.0),
    ]


@pytest.mark.parametrize(
    ('segment', 'reason'),
    [
        (Executed('takeoff;', [('takeoff', 2)], error_code=EXECUTION_FAILED), FAILED),
        (Executed('takeoff;land;', [('takeoff', 2), ('land', 3)], unseen=('land',)), NOT_SEEN),
        (Executed('takeoff;land;', [('takeoff', 2), ('scan', 3)]), NOT_SEEN),
        (Executed('move_up(9999);', [('move_up(9999)', 3)]), NOT_A_PLAN),
        (Executed('goto(cup_1);', [('goto(cup_1)', 3)]), NOT_A_PLAN),
        (Executed('hover;', [('hover', 0.0)]), NO_TIME),
        (Executed(f'repeat(9){{{IF}}};', [('is_visible(cup_1)', 1)], CUP), TOO_MANY_WAYS),
    ],
)
def test_what_gives_no_times_is_left_out_and_counted(
    tmp_path: Path, segment: Executed, reason: str
) -> None:
    found = read(tmp_path / 'run', segment, Executed('land;', [('land', 3.0)]))
    assert found.left_out == {reason: 1}
    assert times(found) == [('land', 3.0)]


def test_a_loop_of_loops_is_not_unrolled_without_end() -> None:
    text = 'repeat(10){repeat(10){repeat(10){hover;land;};};};' * 6
    segment = ExecutedSegment('tello', text, execution_s=1.0)
    assert measured_calls([segment], TELLO).left_out == {TOO_MANY_WAYS: 1}


def test_what_explains_a_time_is_in_si_units_and_an_object_counts_with_its_distance(
    tmp_path: Path,
) -> None:
    found = read(
        tmp_path / 'run',
        Executed('goto(cup_1);', [('goto(cup_1)', 9.0)], CUP),
        Executed('move_up(150);', [('move_up(150)', 4.0)]),
    )
    amounts = [found.samples[name][0].amounts for name in ('goto', 'move_up')]
    assert amounts == [{'target': 5.0}, {'distance': 1.5}]


def test_other_skill_sets_do_not_count_and_unknown_skills_are_named(tmp_path: Path) -> None:
    other = Executed('home;', [('home', 2.0)], skill_set='arm')
    assert read(tmp_path / 'a', other).count == 0
    with pytest.raises(ConfigurationError, match=r"skill set 'tello': .*'fly_home'"):
        read(tmp_path / 'b', Executed('fly_home;', [('fly_home', 2.0)]))


def test_a_killed_trace_gives_what_it_holds(tmp_path: Path) -> None:
    writer = write_trace(tmp_path / 'killed', close=False)
    writer.flush()
    segments = read_executed(Trace(tmp_path / 'killed'))
    assert segments
    assert all(segment.text for segment in segments)
