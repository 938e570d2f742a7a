"""Messages and records: there and back without loss, and nothing invalid comes through."""

from __future__ import annotations

import math
import uuid
from typing import Any

import pytest
from builtin_interfaces.msg import Duration
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import SceneObject as SceneObjectMessage
from timely_llm_ros.msg import SkillSegment
from timely_llm_ros.msg import TimeUtility as TimeUtilityMessage

from timely_llm_ros.errors import Ending, InvalidTaskError, PlanError, TimelyError
from timely_llm_ros.execution.robot_link import (
    SegmentCode,
    SegmentOutcome,
    SegmentProgress,
    TimedSegment,
)
from timely_llm_ros.planner import Expectation, Task, TaskFeedback, TaskPhase
from timely_llm_ros.ros.conversions import feedback_json
from timely_llm_ros.ros.conversions import segments as sc
from timely_llm_ros.ros.conversions import tasks as c
from timely_llm_ros.skills import Message, Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import RELATIONS, Scene, SceneObject
from timely_llm_ros.utility import NORMAL, TimeUtility

pytestmark = pytest.mark.distro

few = examples(40)
TELLO = find_skill_set('tello')
finite = st.floats(-1e6, 1e6)
seconds = st.floats(0, 1e6)
words = st.from_regex(r'[a-z][a-z0-9]{0,8}(_[a-z0-9]{1,4}){0,2}', fullmatch=True)
objects = st.builds(
    SceneObject,
    words,
    words,
    words,
    st.sampled_from(RELATIONS),
    words,
    finite,
    finite,
    finite,
    st.sampled_from(['', 'map', 'drone_1/camera']),
    st.integers(0, 10**9).map(float),
)
scenes = st.lists(objects, max_size=8, unique_by=lambda item: item.name).map(
    lambda items: Scene(tuple(items))
)


@few
@given(st.floats(-(2**31) + 1, 2**31 - 1))
def test_duration(value: float) -> None:
    assert c.seconds(c.duration(value)) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize('value', [math.inf, -math.inf, 1e300])
def test_duration_that_does_not_fit_is_clamped(value: float) -> None:
    assert abs(c.seconds(c.duration(value))) == 2**31 - 1


def test_no_duration_is_zero() -> None:
    assert c.duration(None) == c.duration(math.nan) == Duration()


@few
@given(st.uuids())
def test_id(value: uuid.UUID) -> None:
    assert c.uuid_text(c.uuid_message(str(value))) == str(value)


@few
@given(scenes)
def test_scene(scene: Scene) -> None:
    assert c.scene_record(c.scene_messages(scene)) == scene


def test_too_large_scene_is_refused() -> None:
    messages = [SceneObjectMessage(name=f'cup_{i}', kind='cup') for i in range(c.MAX_OBJECTS + 1)]
    with pytest.raises(InvalidTaskError, match=str(c.MAX_OBJECTS)):
        c.scene_record(messages)


@few
@given(seconds, st.floats(-1e6, 0), st.floats(1e-6, 1e6), st.sampled_from([0.0, -7.5, -math.inf]))
def test_utility(expected_s: float, slope: float, peak: float, floor: float) -> None:
    utility = TimeUtility(expected_s, slope, peak, floor)
    back = c.utility_record(c.utility_message(utility), NORMAL)
    assert back.expected_response_s == pytest.approx(expected_s, abs=1e-6)
    assert (back.slope_per_s, back.peak, back.floor) == (slope, peak, floor)


def test_feedback_says_what_a_task_could_expect() -> None:
    expected = Expectation(1.5, 2.5, 9.0, -0.25, 0.5, 0.75)
    message = c.task_feedback_message(TaskFeedback(TaskPhase.QUEUED, 0, 0.0, '', expected, 3.0))
    told = feedback_json(message)
    assert told['expected_response_s'] == 1.5
    assert told['promised_response_s'] == 2.5
    assert told['expected_completion_s'] == 9.0
    assert (told['expected_utility'], told['demand']) == (-0.25, 3.0)
    nothing = c.task_feedback_message(TaskFeedback(TaskPhase.QUEUED, 0, 0.0))
    assert feedback_json(nothing)['promised_response_s'] == 0.0


def test_no_utility_takes_the_default() -> None:
    assert c.utility_record(TimeUtilityMessage(), NORMAL) is NORMAL


@few
@given(
    st.builds(
        SegmentOutcome,
        st.just(3),
        st.builds(
            Ending,
            st.sampled_from(SegmentCode).map(int),
            st.text(st.characters(codec='utf-8', exclude_characters='\0'), max_size=30),
        ),
        st.lists(st.sampled_from(['scan', 'goto(cat_3)']), min_size=2, max_size=2).map(tuple),
        st.lists(st.integers(0, 10**6).map(float), min_size=2, max_size=2).map(tuple),
        st.integers(0, 10**6).map(float),
        st.sampled_from([None, 'true', 'false']),
    )
)
def test_outcome(outcome: SegmentOutcome) -> None:
    message = sc.outcome_message(outcome)
    back = sc.outcome_record(3, message, awaits_value=outcome.value is not None)
    assert back == outcome


def test_progress() -> None:
    progress = SegmentProgress(3, 'scan', 1.5, 2.25, 4)
    assert sc.progress_record(3, sc.progress_message(progress)) == progress


@pytest.mark.parametrize(
    'text',
    [
        'takeoff;',
        'goto(cat_3);take_picture;',
        'repeat(3){move_forward(150);turn_cw(90);};',
        'if(is_visible(cat_3)){goto(cat_3);}else{scan;};',
        'is_visible(dog_1);',
        'log("all clear");',
    ],
)
def test_segment(text: str) -> None:
    scene = Scene(tuple(SceneObject(name, name[:3]) for name in ('cat_3', 'dog_1', 'cup_9')))
    segment = Segment(2, text, parse(text, TELLO, scene), 7, awaits_value=text.startswith('is_'))
    timed = TimedSegment(
        str(uuid.uuid4()),
        segment,
        scene,
        token_at_s=1.0,
        generation_s=0.25,
        expected_execution_s=3.0,
    )
    message = sc.segment_message(timed, robot='drone_1', skill_set=TELLO)
    assert (c.seconds(message.generation_time), message.robot) == (0.25, 'drone_1')
    back, named = sc.segment_record(message, TELLO)
    assert back == segment
    # Only what the calls name travels along.
    assert all(name in text for name in named.names)
    assert [call.skill for call in message.calls] == [call.skill for call in segment.calls]
    for call, sent in zip(segment.calls, message.calls, strict=True):
        for argument, value in zip(call.arguments, sent.argument_values, strict=True):
            assert math.isnan(value) if isinstance(argument.value, str) else value == argument.value


@few
@given(st.text(max_size=60), st.lists(st.text(max_size=12), max_size=3))
def test_any_text_is_a_segment_or_an_error_of_ours(text: str, names: list[str]) -> None:
    message = SkillSegment(index=0)
    try:
        message.text = text
        message.objects = [SceneObjectMessage(name=name, kind='cup') for name in names]
    except (AssertionError, UnicodeEncodeError):
        return
    try:
        segment, _ = sc.segment_record(message, TELLO)
    except (PlanError, InvalidTaskError):
        return
    assert segment.calls


def test_task() -> None:
    goal = PlanTask.Goal(
        robot='drone_1',
        instruction='look around',
        overrun=PlanTask.Goal.OVERRUN_SKIP_NEXT,
        when_busy=PlanTask.Goal.BUSY_QUEUE,
        time_budget=Duration(sec=2, nanosec=500_000_000),
        scene=[SceneObjectMessage(name='cup_1', kind='cup')],
    )
    task = c.task_record(goal, 'id', skill_set_of={'drone_1': 'tello'}, default_utility=NORMAL)
    assert (task.task_id, task.skill_set, task.utility) == ('id', 'tello', NORMAL)
    assert (task.overrun, task.when_busy, task.time_budget_s) == ('skip_next', 'queue', 2.5)
    assert task.scene.names == ('cup_1',)
    with pytest.raises(TimelyError, match='drone_1'):
        c.task_record(goal, 'id', skill_set_of={}, default_utility=NORMAL)


def test_what_was_said_before_comes_with_a_goal() -> None:
    def task(history: list[str]) -> Task:
        goal = PlanTask.Goal(robot='screen', instruction='And why?', history=history)
        return c.task_record(goal, 'id', skill_set_of={'screen': 'chatbot'}, default_utility=NORMAL)

    said = [Message('user', 'How high?'), Message('assistant', 'Two metres.')]
    assert task([message.content for message in said]).history == tuple(said)
    with pytest.raises(InvalidTaskError, match='history of 1 messages: expected an even number'):
        task(['How high?'])


def test_a_client_is_never_cut_to_the_name_of_another() -> None:
    def client(name: str) -> str:
        goal = PlanTask.Goal(robot='drone_1', instruction='look', client=name)
        return c.task_record(
            goal, 'id', skill_set_of={'drone_1': 'tello'}, default_utility=NORMAL
        ).client

    assert client('x' * 64) == 'x' * 64
    with pytest.raises(InvalidTaskError, match='65 characters: expected at most 64'):
        client('x' * 65)


def test_a_goal_may_leave_the_robot_to_the_planner() -> None:
    sets = {name: find_skill_set(name) for name in ('tello', 'rover', 'arm')}
    skill_set_of = {'drone_1': 'tello', 'rover_1': 'rover', 'drone_2': 'tello', 'arm_1': 'arm'}

    def robots(**fields: Any) -> list[str]:
        goal = PlanTask.Goal(instruction='look', **fields)
        task = c.task_record(
            goal, 'id', skill_set_of=skill_set_of, default_utility=NORMAL, skill_sets=sets
        )
        assert task.when_busy == ('abort' if len(task.alternatives) == 0 else 'queue')
        pairs = [(task.robot, task.skill_set), *task.alternatives]
        assert all(skill_set_of[robot] == skill_set for robot, skill_set in pairs)
        return [robot for robot, _ in pairs]

    assert robots(skill_set='tello') == ['drone_1', 'drone_2']
    assert robots(skill_set='take_picture') == ['drone_1', 'rover_1', 'drone_2']
    assert robots(robot='drone_2') == ['drone_2']
    assert robots(robot='drone_2', when_busy=PlanTask.Goal.BUSY_ANY) == ['drone_2', 'drone_1']
    for wrong in ('', 'fly', 'chatbot'):
        with pytest.raises(InvalidTaskError, match='expected one of'):
            robots(skill_set=wrong)
    with pytest.raises(InvalidTaskError, match='expected one of'):
        robots(robot='nobody', skill_set='tello')
