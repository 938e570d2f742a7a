from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.skills.least_time import least_s
from support.skills.plan_texts import ARM, SCENE, SKILL_SETS, TELLO, PlanWriter

from timely_llm_ros.skills import DurationModel, SkillSet, expected_execution_s
from timely_llm_ros.skills.durations import ConstantDuration, EmpiricalDuration, LinearDuration
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.statements import Call, calls_of


def call(text: str, skill_set: SkillSet = TELLO) -> Call:
    (statement,) = parse(text + ';', skill_set, SCENE)
    assert isinstance(statement, Call)
    return statement


def test_a_linear_duration_is_per_si_unit() -> None:
    model = LinearDuration(1.0, {'distance': 2.0})
    assert model.expected_s(call('move_forward(150)'), SCENE) == pytest.approx(4.0)
    reach = LinearDuration(0.5, {'x': 1.0, 'z': 10.0})
    assert reach.expected_s(call('move_to(-50,7,20)', ARM), SCENE) == pytest.approx(3.0)


def test_an_object_counts_with_its_distance() -> None:
    model = LinearDuration(1.0, {'target': 2.0})
    assert model.expected_s(call('goto(cup_10)'), SCENE) == pytest.approx(11.0)
    elsewhere = parse('goto(far_1);', TELLO, {'far_1'})[0]
    assert isinstance(elsewhere, Call)
    assert model.expected_s(elsewhere, SCENE) == 1.0


def test_a_drone_flies_half_a_metre_per_second_and_turns_sixty_degrees() -> None:
    def seconds(text: str) -> float:
        return expected_execution_s(parse(text, TELLO, SCENE), TELLO, SCENE)

    assert seconds('move_forward(500);') - seconds('move_forward(450);') == pytest.approx(1.0)
    assert seconds('turn_cw(360);') - seconds('turn_cw(60);') == pytest.approx(5.0, abs=0.01)
    assert seconds('delay(250);') == pytest.approx(0.25)


@pytest.mark.parametrize(
    'model',
    [
        ConstantDuration(2.0, 0.3),
        LinearDuration(1.0, {'distance': 2.0}, 0.5),
        EmpiricalDuration((1.0, 2.0, 6.0)),
    ],
)
def test_drawn_times_have_the_expected_mean_and_respect_the_minimum(model: DurationModel) -> None:
    forward = call('move_forward(50)')
    rng = random.Random(3)
    samples = [model.sample_s(forward, SCENE, rng) for _ in range(4000)]
    assert min(samples) >= least_s(model, forward, SCENE) >= 0.0
    assert statistics.fmean(samples) == pytest.approx(model.expected_s(forward, SCENE), rel=0.05)
    assert statistics.pstdev(samples) > 0.1
    again = random.Random(3)
    assert samples[:10] == [model.sample_s(forward, SCENE, again) for _ in range(10)]


def test_a_repeat_multiplies_and_a_conditional_takes_the_mean_of_its_branches() -> None:
    def seconds(text: str) -> float:
        return expected_execution_s(parse(text, TELLO, SCENE), TELLO, SCENE)

    look, scan, photo = (seconds(text) for text in ('is_visible(cat_3);', 'scan;', 'take_picture;'))
    assert seconds('repeat(3){scan;take_picture;};') == pytest.approx(3 * (scan + photo))
    branches = seconds('if(is_visible(cat_3)){scan;}else{take_picture;};')
    assert branches == pytest.approx(look + (scan + photo) / 2)
    assert seconds('if(!is_visible(cat_3)){scan;};') == pytest.approx(look + scan / 2)
    assert seconds('repeat(2){repeat(3){scan;};};') == pytest.approx(6 * scan)
    assert seconds('') == 0.0


@given(st.sampled_from(SKILL_SETS), st.integers(0, 2**32), st.integers(0, 6))
def test_execution_time_is_additive_and_at_least_the_minimum_of_plain_calls(
    skill_set: SkillSet, seed: int, count: int
) -> None:
    statements = parse(
        PlanWriter(skill_set, random.Random(seed)).plan(count).text, skill_set, SCENE
    )
    total = expected_execution_s(statements, skill_set, SCENE)
    parts = [expected_execution_s((one,), skill_set, SCENE) for one in statements]
    assert total == pytest.approx(sum(parts))
    rng = random.Random(seed)
    for one in calls_of(statements):
        model = skill_set.skills[one.skill].duration
        assert 0.0 <= least_s(model, one, SCENE) <= model.expected_s(one, SCENE)
        assert model.sample_s(one, SCENE, rng) >= least_s(model, one, SCENE)
