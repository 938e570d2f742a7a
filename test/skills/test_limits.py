"""A short text may ask for days: what is too much is refused, and adding it up costs little."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.skills.plan_texts import ARM, LAB, SCENE, TELLO

from timely_llm_ros.errors import ConfigurationError, PlanError
from timely_llm_ros.skills import expected_execution_s, plan_meter, segmenter_for
from timely_llm_ros.skills.durations import LinearDuration
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.limits import PlanLimits
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set
from timely_llm_ros.skills.plan_meter import PlanMeter, most_of
from timely_llm_ros.skills.scene import Scene, SceneObject

if TYPE_CHECKING:
    from timely_llm_ros.skills import SkillSet

NESTED = 'repeat(10){repeat(10){repeat(10){delay(10000);};};};'
SMALL = {'segment_calls': 4, 'segment_s': 40.0, 'plan_calls': 6, 'plan_s': 60.0}


def small(**limits: Any) -> SkillSet:
    return replace(TELLO, limits=PlanLimits(**{**SMALL, **limits}))


def write(plan: str, skill_set: SkillSet, *, whole_plan: bool = False) -> list[str]:
    """Have a plan written character by character; return its segments."""
    segmenter = segmenter_for(skill_set, SCENE, whole_plan=whole_plan)
    segments = []
    for character in plan:
        segments += segmenter.push(character)
    return [segment.text for segment in segments + segmenter.finish()]


def test_a_bomb_of_nested_loops_is_no_plan() -> None:
    with pytest.raises(PlanError, match=r'segment of 1000 calls: expected at most \d+, segment_ca'):
        write(NESTED, TELLO)
    # As many as fit into the longest plan.
    with pytest.raises(PlanError):
        write((NESTED * 320)[:16_000], TELLO)


@pytest.mark.parametrize(
    ('plan', 'problem'),
    [
        ('scan;' * 4, ''),
        ('repeat(4){scan;};', ''),
        ('repeat(5){land;};', 'segment of 5 calls: expected at most 4, segment_calls of skill set'),
        ('repeat(2){repeat(2){delay(10000);};};', ''),
        ('repeat(4){delay(10000);};land;land;', ''),
        ('repeat(4){delay(10000);};land;land;land;', 'plan of 7 calls: expected at most 6, plan_c'),
        ('repeat(3){goto(cup_10);move_up(100);};', 'segment of 6 calls'),
        ('repeat(4){goto(cup_10);};', 'segment that takes 44 s: expected at most 40, segment_s of'),
        ('repeat(4){delay(10000);};' + 'delay(9999);' * 2, ''),
        ('delay(10000);' * 6, ''),
        ('delay(10000);' * 5 + 'goto(cup_10);', 'plan that takes 61 s: expected at most 60, plan'),
    ],
)  # fmt: skip
def test_each_limit_is_kept_and_named(plan: str, problem: str) -> None:
    if not problem:
        assert ''.join(write(plan, small())) == plan
        return
    with pytest.raises(PlanError) as caught:
        write(plan, small())
    assert problem in str(caught.value)
    assert '\n' not in str(caught.value)
    assert caught.value.code == 5


def test_a_whole_plan_is_one_segment() -> None:
    assert write('land;' * 4, small(), whole_plan=True) == ['land;' * 4]
    with pytest.raises(PlanError, match='segment of 5 calls') as caught:
        write('land;' * 5, small(), whole_plan=True)
    assert caught.value.offset == 20


def test_the_text_of_a_segment_is_limited() -> None:
    short = small(segment_length=20)
    assert write('land;' * 5, short) == ['land;'] * 5
    assert write('repeat(2){hover;};', short) == ['repeat(2){hover;};']
    with pytest.raises(PlanError, match='segment of 22 characters: expected at most 20'):
        write('repeat(2){hover;  \n };', small(segment_length=20))
    with pytest.raises(PlanError, match='segment of 25 characters: expected at most 20'):
        write('land;' * 5, small(segment_length=20, segment_calls=9), whole_plan=True)


def test_a_chat_is_limited_too() -> None:
    chatbot = find_skill_set('chatbot')
    segmenter = segmenter_for(replace(chatbot, limits=PlanLimits(plan_calls=2)), ())
    assert len(segmenter.push('One. Two. Three. Fo')) == 2
    with pytest.raises(PlanError, match='plan of 3 calls: expected at most 2'):
        segmenter.finish()
    last = segmenter_for(replace(chatbot, limits=PlanLimits(plan_calls=1)), ())
    assert len(last.push('One. Two.')) == 1
    with pytest.raises(PlanError, match='plan of 2 calls'):
        last.finish()
    with pytest.raises(PlanError, match='plan of 2 calls'):
        last.push('')


def test_a_conditional_counts_with_its_longer_branch() -> None:
    def most(text: str) -> tuple[int, float]:
        return most_of(parse(text, TELLO, SCENE), TELLO, SCENE)

    assert most('if(is_visible(cat_3)){delay(1000);}else{hover;hover;};') == (3, 2.5)
    assert most('if(!is_visible(cat_3)){delay(5000);}else{hover;hover;};') == (3, 5.5)
    assert most('repeat(3){if(is_visible(cat_3)){hover;};};') == (6, 4.5)
    assert most('') == (0, 0.0)


FAR = Scene((SceneObject('far_1', 'rock', x_m=1.7e308, y_m=1.7e308),))


@pytest.mark.parametrize('per', [0.0, 1.0])
def test_an_object_that_is_infinitely_far_away_is_out_of_reach(per: float) -> None:
    """Nothing times its distance is not a number, which no comparison would stop."""
    goto = replace(TELLO.skills['goto'], duration=LinearDuration(1.0, {'target': per}))
    endless = replace(TELLO, skills={**TELLO.skills, 'goto': goto})
    with pytest.raises(PlanError, match=r'segment that takes (inf|nan) s: expected at most 780'):
        segmenter_for(endless, FAR).push('goto(far_1);')


@given(
    st.recursive(
        st.sampled_from(('land;', 'goto(cat_3);', 'delay(700);', 'scan;')),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(''.join),
            st.builds(lambda count, body: f'repeat({count}){{{body}}};', st.integers(1, 9), inner),
        ),
        max_leaves=8,
    ).filter(lambda text: len(re.findall(r'repeat', text)) <= 3)
)  # fmt: skip
def test_without_choices_the_most_is_what_is_expected(text: str) -> None:
    statements = parse(text, TELLO, SCENE)
    calls, seconds = most_of(statements, TELLO, SCENE)
    assert seconds == pytest.approx(expected_execution_s(statements, TELLO, SCENE))
    unrolled = text
    while 'repeat' in unrolled:
        unrolled = re.sub(
            r'repeat\((\d+)\)\{([^{}]*)\};', lambda m: int(m[1]) * m[2], unrolled
        )  # fmt: skip
    assert calls == unrolled.count(';')


def test_adding_up_takes_steps_for_the_text_and_not_for_what_it_multiplies_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[object] = []
    adds = plan_meter.most_of

    def counted(*given: Any) -> tuple[int, float]:
        steps.append(given)
        return adds(*given)

    monkeypatch.setattr(plan_meter, 'most_of', counted)
    often = replace(LAB, max_repeat=1000)
    for depth in (1, 2, 3):
        steps.clear()
        text = 'repeat(1000){' * depth + 'freeze;' + '};' * depth
        with pytest.raises(PlanError, match=f'segment of 1{"000" * depth} calls|segment of 1e'):
            PlanMeter(often).add(len(text), parse(text, often, ()), Scene())
        assert len(steps) == depth + 1


def test_nothing_is_added_by_what_was_refused() -> None:
    meter = PlanMeter(small())
    meter.add(10, parse('repeat(4){land;};', TELLO, ()), Scene())
    for _ in range(3):
        with pytest.raises(PlanError):
            meter.add(10, parse('land;land;land;', TELLO, ()), Scene())
    meter.add(10, parse('land;land;', TELLO, ()), Scene())


@pytest.mark.parametrize('name', ['segment_calls', 'segment_s', 'plan_calls', 'queued_segments'])
def test_a_limit_out_of_range_is_refused(name: str) -> None:
    nan: Any = math.nan
    with pytest.raises(ConfigurationError, match=f'{name} 0: expected'):
        PlanLimits(**{name: 0})
    with pytest.raises(ConfigurationError, match=f'{name} nan: expected'):
        PlanLimits(**{name: nan})


def test_a_file_may_declare_limits_and_the_others_stay() -> None:
    lines = 'limits: {segment_calls: 7, plan_s: 90.5}\nskills:'
    text = """
name: probe
description: a probe
safe_action: hold
skills:
  hold: {description: hold still, duration: {model: constant, seconds: 1.0}}
"""
    probe = parse_skill_set(text.replace('skills:', lines, 1))
    assert probe.limits == PlanLimits(segment_calls=7, plan_s=90.5)
    assert parse_skill_set(text).limits == PlanLimits() == ARM.limits
    assert probe.fingerprint() != parse_skill_set(text).fingerprint()
