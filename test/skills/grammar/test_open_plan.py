"""Plans that are being written can end: within their limits, from wherever they are."""

from __future__ import annotations

import copy
import functools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.skills.plan_texts import ARM, LAB, SCENE, TELLO

from timely_llm_ros.errors import EngineError, PlanLimitError
from timely_llm_ros.skills import PlanLimits, Scene, SceneObject, SkillSet
from timely_llm_ros.skills.grammar import (
    OpenPlan,
    PlanRules,
    RemainingGrammar,
    decoding_grammar,
)
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter

CHARACTERS = [chr(code) for code in range(33, 127)] + [' ']
NARROW = PlanLimits(
    segment_calls=20, segment_s=90.0, segment_length=120, plan_calls=45, plan_s=200.0
)


@functools.cache
def rules_of(skill_set: SkillSet, whole_plan: bool) -> PlanRules:
    grammar = decoding_grammar(skill_set, SCENE, observations=not whole_plan)
    return PlanRules(grammar, skill_set, SCENE, whole_plan=whole_plan)


def rules_for(skill_set: SkillSet, *, whole_plan: bool = False) -> PlanRules:
    return rules_of(skill_set, whole_plan)


def require_valid(text: str, rules: PlanRules) -> None:
    """Read a plan as its engine does; observations are in it."""
    segmenter = PlanSegmenter(rules.skill_set, rules.scene, whole_plan=rules.whole_plan)
    for character in text:
        if segmenter.awaits_value:
            # The runtime says it, in its own form.
            assert character in '#truefalsABC0123 _,.!?-' or character.isalnum()
            if character == ' ':
                segmenter.observe('true')
            continue
        segmenter.push(character, 1)
        assert segmenter.error is None, (text, segmenter.error)
    segmenter.finish()


@pytest.mark.parametrize('whole_plan', [False, True])
@pytest.mark.parametrize('skill_set', [TELLO, ARM, LAB], ids=lambda s: s.name)
@examples(15)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 60), greedy=st.booleans())
def test_from_everywhere_on_a_way_that_keeps_an_end_open_it_ends_within_its_limits(
    skill_set: SkillSet, whole_plan: bool, seed: int, steps: int, greedy: bool
) -> None:
    rng = random.Random(seed)
    rules = rules_for(replace(skill_set, limits=NARROW), whole_plan=whole_plan)
    grammar, plan, text = RemainingGrammar(rules_grammar(rules)), OpenPlan(rules), ''
    for _ in range(steps):
        drawn = rng.sample(CHARACTERS, len(CHARACTERS))
        if greedy:
            drawn.sort(key=lambda character: character not in '{r9')
        found = (
            character
            for character in drawn
            if takes(grammar, character) and plan.ending(character) is not None
        )
        character = next(found, '')
        if not character:
            break
        grammar.take(character)
        plan.take(character)
        text += character
    ending = plan.ending()
    assert ending is not None
    assert len(ending) <= rules.longest_end
    if '#' in text.rpartition(';')[2] or text.endswith(awaited(rules)):
        return  # The robot has not said all of its value.
    require_valid(text + ending, rules)


def awaited(rules: PlanRules) -> tuple[str, ...]:
    return ('\0',) if rules.whole_plan else (');', 'is_done;')


def rules_grammar(rules: PlanRules) -> str:
    return decoding_grammar(rules.skill_set, SCENE, observations=not rules.whole_plan)


def takes(grammar: RemainingGrammar, character: str) -> bool:
    try:
        copy.copy(grammar).take(character)
    except EngineError:
        return False
    return True


@pytest.mark.parametrize(
    ('text', 'ending'),
    [
        ('', 'hover;'),
        ('takeoff;', ''),
        ('take', 'off;'),
        ('repeat(10){goto(cat_3);', '};'),
        ('repeat(10){goto(cat_3);move_up(2', '0);};'),
        ('repeat(2){repeat(3){', 'hover;};};'),
        ('if(!is_vi', 'sible(cat_3)){hover;};'),
        ('if(is_visible(cat_3)){land;}', ';'),
        ('if(is_visible(cat_3)){land;}el', 'se{hover;};'),
        ('log("a b', '");'),
        ('log("', '0");'),
        ('is_visible(cup_', '1);'),
        ('is_visible(cat_3);#true land', ';'),
    ],
)
def test_the_shortest_end_of_a_plan(text: str, ending: str) -> None:
    plan = OpenPlan(rules_for(TELLO))
    plan.take(text)
    assert plan.ending() == ending


def test_a_loop_is_not_begun_that_could_only_be_too_long() -> None:
    rules = rules_for(replace(TELLO, limits=replace(NARROW, segment_calls=9)))
    plan = OpenPlan(rules)
    assert plan.ending('repeat(9){') == 'hover;};'
    assert plan.ending('repeat(10){') is None
    plan.take('repeat(4){land;hover;')
    assert not plan.roomy
    assert plan.ending('la') is None
    assert plan.ending('}') == ';'
    with pytest.raises(PlanLimitError):
        plan.take('hover;};')
    plan.take('};')
    assert plan.ending() == ''


def test_an_object_that_is_too_far_away_is_not_gone_to() -> None:
    scene = Scene((SceneObject('near', 'cat'), SceneObject('far', 'cat', x_m=1e6)))
    rules = PlanRules(decoding_grammar(TELLO, scene), TELLO, scene)
    plan = OpenPlan(rules)
    assert not plan.roomy
    assert plan.ending('goto(n') == 'ear);'
    assert plan.ending('goto(f') is None


def test_a_plan_with_room_is_roomy_and_a_long_one_is_not() -> None:
    plan = OpenPlan(rules_for(TELLO))
    lengths = 0
    while plan.roomy:
        plan.take('takeoff;land;')
        lengths += 1
    assert 50 < lengths < 120
    assert plan.ending() == ''


def test_a_plan_has_at_least_one_statement() -> None:
    assert not RemainingGrammar(decoding_grammar(TELLO, SCENE)).complete
