"""Robots stand where their plans lead them, as far as anybody can say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from timely_llm_ros.window import ExpectedPlaces

Event = dict[str, Any]

SCENE = [['cat_2', 'cat', 'black', 'on', 'sofa', 3.0, 0.0, 0.0, '']]


def state(call: str, *, segment: int = 0, phase: str = 'executing', **more: Any) -> Event:
    told = {'event': 'robot', 'robot': 'r', 'skill_set': 'tello', 'plan': 'p', 'halted': False}
    return {**told, 'phase': phase, 'segment': segment, 'call': call, **more}


def accepted(scene: list[list[Any]]) -> Event:
    told = {'event': 'task', 'what': 'accepted', 'robot': 'r', 'plan': 'p', 'scene': scene}
    return {**told, 'skill_set': 'tello'}


def ended(*calls: str) -> Event:
    told = {'event': 'task', 'what': 'segment_ended', 'robot': 'r', 'plan': 'p', 'segment': 0}
    return {**told, 'skill_set': 'tello', 'calls': list(calls)}


def ways(events: list[Event]) -> list[Event]:
    return [event for event in events if event['event'] == 'way']


def test_a_call_leads_from_where_the_last_one_led() -> None:
    places = ExpectedPlaces()
    (up,) = ways(places.take(state('takeoff')))
    assert up['from'][:3] == [0, 0, 0]
    assert up['to'][2] == pytest.approx(0.85)
    assert up['lasts_s'] == pytest.approx(4.0)
    (forward,) = ways(places.take(state('move_forward(200)')))
    assert forward['from'] == up['to']
    assert forward['to'][:2] == [2.0, 0.0]
    (turn,) = ways(places.take(state('turn_ccw(90)')))
    assert turn['to'][3] == pytest.approx(math.pi / 2, abs=1e-3)
    (left,) = ways(places.take(state('move_left(100)')))
    assert left['to'][:2] == pytest.approx([1.0, 0.0])


def test_a_state_that_says_the_same_leads_nowhere() -> None:
    places = ExpectedPlaces()
    assert ways(places.take(state('takeoff')))
    assert not ways(places.take(state('takeoff', queued_segments=1)))
    assert not ways(places.take(state('', phase='idle')))


def test_equal_calls_in_a_row_are_made_up_for_at_the_end_of_their_segment() -> None:
    places = ExpectedPlaces()
    places.take(state('move_forward(100)'))
    (way,) = ways(places.take(ended('move_forward(100)', 'move_forward(100)')))
    assert way['to'][:2] == [2.0, 0.0]
    assert not ways(places.take(ended()))


def test_a_robot_stops_short_of_what_it_approaches() -> None:
    places = ExpectedPlaces()
    places.take(accepted(SCENE))
    (way,) = ways(places.take(state('goto(cat_2)')))
    assert way['to'][:2] == pytest.approx([2.3, 0.0])


def test_an_arm_reaches_for_the_last_object_that_a_call_names() -> None:
    places = ExpectedPlaces()
    places.take(accepted([*SCENE, ['bin_1', 'bin', 'red', 'on', 'table', 0.4, 0.2, 0.1, '']]))
    found = places.take(state('sort_into(cat_2,bin_1)', skill_set='arm', robot='r'))
    assert not ways(found)
    other = ExpectedPlaces()
    other.take({**accepted([*SCENE, ['bin_1', 'bin', 'red', 'on', 'table', 0.4, 0.2, 0.1, '']]),
                'skill_set': 'arm'})  # fmt: skip
    body_and_way = other.take(state('sort_into(cat_2,bin_1)', skill_set='arm'))
    (way,) = ways(body_and_way)
    assert way['reaches'] == [0.4, 0.2, 0.1]


@pytest.mark.parametrize(
    ('skill_set', 'body'),
    [('tello', 'flyer'), ('nav2', 'rover'), ('arm', 'arm'), ('chatbot', 'other'), ('no', 'other')],
)
def test_a_skill_set_tells_what_kind_of_thing_a_robot_is(skill_set: str, body: str) -> None:
    (event,) = ExpectedPlaces().take(state('', phase='idle', skill_set=skill_set))
    assert event == {'event': 'body', 'robot': 'r', 'is': body}


@pytest.mark.parametrize('call', ['no_such_skill', 'goto(nothing_7)', 'x' * 5000, '{', ''])
def test_a_call_that_cannot_be_read_leads_nowhere(call: str) -> None:
    assert not ways(ExpectedPlaces().take(state(call)))


def test_no_file_is_opened_by_the_name_of_a_skill_set(tmp_path: Any) -> None:
    file = tmp_path / 'secret.yaml'
    file.write_text('name: secret')
    (event,) = ExpectedPlaces().take(state('', phase='idle', skill_set=str(file)))
    assert event['is'] == 'other'


def test_a_planners_catalogue_brings_skill_sets_that_do_not_ship() -> None:
    mine = """
name: mine
description: a rover of my own
safe_action: stop
skills:
  stop: {description: stand, duration: {model: constant, seconds: 1}}
  ahead:
    description: go
    duration: {model: constant, seconds: 1}
    motion: {move: forward, by: 1.0}
"""
    places = ExpectedPlaces()
    places.learn(yaml.safe_dump({'robots': {'r': 'mine'}, 'skill_sets': {'mine': mine}}))
    (way,) = ways(places.take(state('ahead', skill_set='mine')))
    assert way['to'][:2] == [1.0, 0.0]
    for text in ('', '[1]', 'skill_sets: {a: 1}', 'skill_sets: {a: "x"}', '\x00'):
        places.learn(text)
