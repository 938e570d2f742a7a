from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.skills.plan_texts import ARM, LAB, SCENE, SKILL_SETS, TELLO, PlanWriter

from timely_llm_ros.errors import (
    ArgumentError,
    PlanError,
    PlanSyntaxError,
    UnknownSkillError,
)
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.limits import MAX_PLAN_LENGTH
from timely_llm_ros.skills.statements import Argument, Call, If, Repeat, calls_of, render

if TYPE_CHECKING:
    from timely_llm_ros.skills import SkillSet

EXAMPLE = 'takeoff;goto(cat_3);if(is_visible(cat_3)){take_picture;}else{scan;};land;'


def test_the_documented_example_parses_to_what_it_says() -> None:
    cat = Argument('target', 'cat_3', 'cat_3')
    assert parse(EXAMPLE, TELLO, SCENE) == (
        Call('takeoff'),
        Call('goto', (cat,)),
        If(Call('is_visible', (cat,)), (Call('take_picture'),), (Call('scan'),)),
        Call('land'),
    )
    assert [call.text for call in calls_of(parse(EXAMPLE, TELLO, SCENE))] == [
        'takeoff',
        'goto(cat_3)',
        'is_visible(cat_3)',
        'take_picture',
        'scan',
        'land',
    ]


def test_the_empty_plan_is_a_plan() -> None:
    assert parse('', TELLO, SCENE) == ()
    assert parse(' \n', TELLO, SCENE) == ()


def test_numbers_become_si_and_keep_their_text() -> None:
    (move, turn, wait) = parse('move_up(29);turn_cw(180);delay(250);', TELLO, SCENE)
    assert move == Call('move_up', (Argument('distance', '29', 0.29),))
    assert isinstance(turn, Call)
    assert turn.arguments[0].value == pytest.approx(math.pi)
    assert wait == Call('delay', (Argument('time', '250', 0.25),))
    (reach,) = parse('move_to(-80,0,7);', ARM, SCENE)
    assert isinstance(reach, Call)
    assert [argument.value for argument in reach.arguments] == [-0.8, 0.0, 0.07]
    (pour, tilt) = parse('pour(bottle_2,12.25,very_fast);tilt(-0.5,-3);', LAB, SCENE)
    assert isinstance(pour, Call)
    assert isinstance(tilt, Call)
    assert [argument.value for argument in pour.arguments] == ['bottle_2', 0.01225, 'very_fast']
    assert tilt.arguments[1].value == -3
    assert isinstance(tilt.arguments[1].value, int)


def test_a_string_keeps_its_quotes_in_the_text_only() -> None:
    (say,) = parse('say("a, b!");', LAB, SCENE)
    assert say == Call('say', (Argument('text', '"a, b!"', 'a, b!'),))
    assert render((say,)) == 'say("a, b!");'


def test_observations_are_skipped_after_a_blocking_statement() -> None:
    text = 'is_visible(cat_3);#true take_picture;is_visible(cup_1);#false '
    assert render(parse(text, TELLO, SCENE)) == 'is_visible(cat_3);take_picture;is_visible(cup_1);'
    text = 'read_label(box_4);#salt_and_pepper freeze;'
    assert render(parse(text, LAB, SCENE)) == 'read_label(box_4);freeze;'


@given(
    skill_set=st.sampled_from(SKILL_SETS),
    seed=st.integers(0, 2**32),
    statements=st.integers(0, 12),
    spaces=st.booleans(),
)
def test_rendering_what_was_parsed_is_the_shortest_form_of_the_same_plan(
    skill_set: SkillSet, seed: int, statements: int, spaces: bool
) -> None:
    text = PlanWriter(skill_set, random.Random(seed), spaces=spaces).plan(statements).text
    parsed = parse(text, skill_set, SCENE)
    shortest = render(parsed)
    assert len(parsed) == statements
    assert parse(shortest, skill_set, SCENE) == parsed
    if not spaces:
        assert shortest == text


@pytest.mark.parametrize(
    ('text', 'error', 'offset', 'message'),
    [
        ('land', PlanSyntaxError, 4, 'the end: expected ";"'),
        (';', PlanSyntaxError, 0, "';': expected a statement"),
        ('land;;', PlanSyntaxError, 5, "';': expected a statement"),
        ('20;', PlanSyntaxError, 0, 'expected a statement'),
        ('Land;', PlanSyntaxError, 0, "'Land;': expected a name, number, string or mark"),
        ('land\u00a0;', PlanSyntaxError, 4, 'expected a name'),
        ('land\x0b;', PlanSyntaxError, 4, 'expected a name'),
        ('take off;', UnknownSkillError, 0, "'take': expected a skill of 'tello'"),
        ('__import__("os");', PlanSyntaxError, 0, 'expected a name'),
        ('eval("1");', UnknownSkillError, 0, "'eval'"),
        ('land();', ArgumentError, 4, 'no arguments and no parentheses'),
        ('goto;', ArgumentError, 4, 'goto: expected 1 argument'),
        ('goto();', ArgumentError, 5, 'the name of an object of the scene'),
        ('goto(cat_3;', PlanSyntaxError, 10, 'expected "," or ")"'),
        ('goto(cat_3', PlanSyntaxError, 10, 'the end: expected "," or ")"'),
        ('goto(', PlanSyntaxError, 5, 'the end: expected the name of an object'),
        ('goto(cat_3,cat_3);', ArgumentError, 10, 'too many arguments'),
        ('goto(cat_4);', ArgumentError, 5, "goto: target 'cat_4': expected the name of an object"),
        ('goto("cat_3");', ArgumentError, 5, 'the name of an object'),
        ('goto(7);', ArgumentError, 5, 'the name of an object'),
        ('move_up(19);', ArgumentError, 8, "distance '19': expected an integer from 20 to 500 cm"),
        ('move_up(501);', ArgumentError, 8, 'from 20 to 500 cm'),
        ('move_up(-20);', ArgumentError, 8, 'from 20 to 500 cm'),
        ('move_up(020);', ArgumentError, 8, 'from 20 to 500 cm'),
        ('move_up(20.0);', ArgumentError, 8, 'from 20 to 500 cm'),
        ('move_up(30e2);', PlanSyntaxError, 10, 'expected "," or ")"'),
        ('move_up(99999999999999999999);', ArgumentError, 8, 'from 20 to 500 cm'),
        ('move_up(cat_3);', ArgumentError, 8, 'from 20 to 500 cm'),
        ('log("a;b");', PlanSyntaxError, 4, 'expected a name, number, string'),
        ('log("");', ArgumentError, 4, 'a string of 1 to 60 characters'),
        (f'log("{"a" * 61}");', ArgumentError, 4, 'a string of 1 to 60 characters'),
        ('log(hi);', ArgumentError, 4, 'a string of 1 to 60 characters'),
        (
            'repeat(0){land;};',
            ArgumentError,
            7,
            "repeat count '0': expected an integer from 1 to 10",
        ),
        ('repeat(11){land;};', ArgumentError, 7, 'from 1 to 10'),
        ('repeat(2.0){land;};', ArgumentError, 7, 'from 1 to 10'),
        ('repeat(cat_3){land;};', PlanSyntaxError, 7, 'a repeat count'),
        ('repeat{land;};', PlanSyntaxError, 6, 'expected "("'),
        ('repeat(2){};', PlanSyntaxError, 10, "'}': expected a statement"),
        ('repeat(2){land};', PlanSyntaxError, 14, 'expected ";"'),
        ('repeat(2){land;}', PlanSyntaxError, 16, 'the end: expected ";"'),
        ('repeat(2)land;', PlanSyntaxError, 9, 'expected "{"'),
        ('{land;};', PlanSyntaxError, 0, 'a statement'),
        (
            'if(scan){land;};',
            ArgumentError,
            3,
            "condition 'scan': expected a skill that returns bool",
        ),
        ('if(!!is_visible(cat_3)){land;};', PlanSyntaxError, 4, 'a skill that returns bool'),
        ('if(is_visible(cat_4)){land;};', ArgumentError, 14, 'the name of an object'),
        ('if(is_visible(cat_3)){land;}else{};', PlanSyntaxError, 33, 'a statement'),
        ('else{land;};', UnknownSkillError, 0, "'else'"),
        ('#true land;', PlanSyntaxError, 0, "'#'"),
        ('land;#true ', PlanSyntaxError, 5, 'an observation only straight after'),
        ('is_visible(cat_3);#true', PlanSyntaxError, 18, 'an observation only straight after'),
        ('is_visible(cat_3);#yes ', PlanSyntaxError, 18, 'an observation only straight after'),
        ('is_visible(cat_3); #true ', PlanSyntaxError, 19, "'#': expected a statement"),
        ('repeat(2){is_visible(cat_3);#true land;};', PlanSyntaxError, 28, "'#'"),
    ],
)
def test_what_is_not_in_the_language_is_refused_with_its_place(
    text: str, error: type[PlanError], offset: int, message: str
) -> None:
    with pytest.raises(PlanError) as caught:
        parse(text, TELLO, SCENE)
    assert type(caught.value) is error
    assert caught.value.offset == offset
    assert message in caught.value.problem


@pytest.mark.parametrize(
    'text',
    [
        'pour(cat_3,1,slow);',  # not a bottle
        'pour(bottle_2,0.499,slow);',
        'pour(bottle_2,12.251,slow);',
        'pour(bottle_2,1.0000,slow);',
        'pour(bottle_2,01.5,slow);',
        'pour(bottle_2,1,Slow);',
        'pour(bottle_2,1,"slow");',
        'pour(bottle_2,1);',
        'tilt(-0,1);',
        'tilt(-0.0,1);',
        'tilt(1,1.5);',
        'if(read_label(box_4)){freeze;};',  # its value is a text
    ],
)
def test_bounds_of_every_kind_hold(text: str) -> None:
    with pytest.raises(PlanError):
        parse(text, LAB, SCENE)


def test_kinds_are_checked_only_where_the_scene_tells_them() -> None:
    assert parse('pour(cat_3,1,slow);', LAB, {'cat_3'})
    with pytest.raises(ArgumentError, match='an object of kind bottle'):
        parse('pour(cat_3,1,slow);', LAB, SCENE)


def test_blocks_nest_three_deep_and_no_deeper() -> None:
    text = 'land;'
    for _ in range(3):
        text = f'repeat(2){{{text}}};'
    (outer,) = parse(text, TELLO, SCENE)
    assert isinstance(outer, Repeat)
    with pytest.raises(PlanSyntaxError, match='at most 3 deep'):
        parse(f'repeat(2){{{text}}};', TELLO, SCENE)
    with pytest.raises(PlanSyntaxError, match='at most 3 deep'):
        parse('repeat(2){' * 1000, TELLO, SCENE)


def test_a_plan_has_a_greatest_length() -> None:
    text = 'land;' * (MAX_PLAN_LENGTH // 5)
    assert len(parse(text, TELLO, SCENE)) == MAX_PLAN_LENGTH // 5
    with pytest.raises(PlanSyntaxError, match=f'expected at most {MAX_PLAN_LENGTH}'):
        parse(text + 'land;', TELLO, SCENE)


def test_errors_count_from_the_beginning_of_the_plan() -> None:
    with pytest.raises(ArgumentError) as caught:
        parse('goto(cat_4);', TELLO, SCENE, offset=100)
    assert caught.value.offset == 105


@given(st.text(max_size=60))
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    error = None
    try:
        parsed = parse(text, TELLO, SCENE)
    except PlanError as err:
        error = err
    if error is None:
        assert parse(render(parsed), TELLO, SCENE) == parsed
    else:
        assert 0 <= error.offset <= len(text)
