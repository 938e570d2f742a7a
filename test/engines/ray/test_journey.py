"""Wherever replicas are lost, a planner gets each segment once and a replica each value once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from support.engines.ray_runs import TELLO, request

from timely_llm_ros.engines.commands import Cancel, Resume, RobotIdleAt, Submit, Suspend
from timely_llm_ros.engines.engine import GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.ray.journey import Journey
from timely_llm_ros.skills import Segment, segmenter_for

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.engine import EngineEvent


def segments(plan: str) -> list[Segment]:
    """The segments of a plan whose values are all true."""
    segmenter = segmenter_for(TELLO, request(0).scene)
    found: list[Segment] = []
    for piece in [*plan, None]:
        new = segmenter.finish() if piece is None else segmenter.push(piece)
        for segment in new:
            found.append(segment)
            if segment.awaits_value:
                segmenter.observe('true')
    return found


PLAN = segments('takeoff;is_visible(cat_1);scan;is_visible(cat_1);land;')


class Writer:
    """A replica that writes the plan, one segment at a time, and stops where it needs a value."""

    def __init__(self, plan: list[Segment]) -> None:
        self.plan, self.done, self.waits = plan, 0, False
        self.commands: list[Command] = []

    def take(self, command: Command) -> None:
        self.commands.append(command)
        if isinstance(command, Resume) and command.observation is not None:
            assert self.waits, 'a value that nobody asked for'
            self.waits = False

    def next(self) -> EngineEvent | None:
        if self.waits:
            return None
        if self.done == len(self.plan):
            return GenerationEnded('g0', 'stop', '', 9, 0.1)
        segment = self.plan[self.done]
        self.done += 1
        self.waits = segment.awaits_value
        return SegmentGenerated('g0', segment, 0.0, 0.1, 9)


def test_the_plan_is_worth_it() -> None:
    assert sum(segment.awaits_value for segment in PLAN) == 2
    assert len(PLAN) > 4


@given(st.lists(st.sampled_from(['write', 'write', 'answer', 'lose', 'idle']), max_size=40))
def test_each_segment_and_value_is_given_once(events: list[str]) -> None:
    journey = Journey(request(0))
    got: list[EngineEvent] = []
    owed = 0
    writer = Writer(PLAN)

    def restart() -> None:
        nonlocal writer
        writer = Writer(PLAN)
        for command in journey.begin('a replica'):
            writer.take(command)

    def write() -> None:
        nonlocal owed
        event = writer.next()
        for one in () if event is None else journey.event(event):
            if isinstance(one, Cancel | Resume | RobotIdleAt):
                writer.take(one)
            else:
                got.append(one)
                owed += isinstance(one, SegmentGenerated) and one.segment.awaits_value

    def answer() -> None:
        nonlocal owed
        owed -= 1
        for one in journey.command(Resume('g0', 'true')):
            writer.take(one)

    restart()
    for event in events:
        if any(isinstance(one, GenerationEnded) for one in got):
            break
        match event:
            case 'write':
                write()
            case 'answer' if owed:
                answer()
            case 'lose':
                restart()
            case 'idle':
                for one in journey.command(RobotIdleAt('g0', 5.0)):
                    writer.take(one)
    while not any(isinstance(one, GenerationEnded) for one in got):
        if owed:
            answer()
        write()
    assert [one.segment for one in got if isinstance(one, SegmentGenerated)] == PLAN
    assert [one.reason for one in got if isinstance(one, GenerationEnded)] == ['stop']


def test_another_plan_on_the_new_replica_ends_it_with_an_error() -> None:
    journey = Journey(request(0))
    list(journey.begin('first'))
    assert list(journey.event(SegmentGenerated('g0', PLAN[0], 0.0, 0.1, 9)))
    list(journey.begin('second'))
    cancel, ended = journey.event(SegmentGenerated('g0', PLAN[1], 0.0, 0.1, 9))
    assert cancel == Cancel('g0')
    assert isinstance(ended, GenerationEnded)
    assert ended.reason == 'error'
    assert 'temperature 0' in ended.error
    list(journey.begin('third'))
    (short,) = journey.event(GenerationEnded('g0', 'stop', '', 9, 0.1))
    assert isinstance(short, GenerationEnded)
    assert short.reason == 'error'


def test_what_was_held_is_held_there_and_no_longer_worthless() -> None:
    journey = Journey(request(0))
    list(journey.begin('first'))
    list(journey.event(SegmentGenerated('g0', PLAN[0], 0.0, 0.1, 9)))
    list(journey.command(Suspend('g0')))
    list(journey.command(RobotIdleAt('g0', 7.0)))
    submit, suspend, idle = journey.begin('second')
    assert isinstance(submit, Submit)
    assert submit.request.utility.floor == -float('inf')
    assert (suspend, idle) == (Suspend('g0'), RobotIdleAt('g0', 7.0))
    list(journey.command(Resume('g0')))
    assert len(list(journey.begin('third'))) == 2


def test_an_older_one_with_its_id_ends_unheard() -> None:
    old = Journey(request(0))
    list(old.begin('first'))
    new = old.repeat(request(0))
    assert not list(new.event(SegmentGenerated('g0', PLAN[0], 0.0, 0.1, 9)))
    assert not list(new.event(GenerationEnded('g0', 'stop', '', 9, 0.1)))
    assert list(new.event(SegmentGenerated('g0', PLAN[0], 0.0, 0.1, 9)))
