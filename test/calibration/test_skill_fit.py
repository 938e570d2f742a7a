"""Which duration model a skill gets, and that it is the true one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.skills.least_time import least_s

from lrtrace.call_samples import CallSample
from timely_llm_ros.calibration.skill_fit import MAX_KEPT, LeftAlone, SkillFit, fit_skill
from timely_llm_ros.skills.durations import ConstantDuration, EmpiricalDuration, LinearDuration
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.skills.statements import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.skills.durations import DurationModel
    from timely_llm_ros.skills.skill_types import SkillSet

TELLO, ARM, CHATBOT = (find_skill_set(name) for name in ('tello', 'arm', 'chatbot'))


def sample(text: str, seconds: float, *, skill_set: SkillSet = TELLO, x_m: float = 0) -> CallSample:
    scene = Scene((SceneObject('cup_1', 'cup', x_m=x_m),))
    (call,) = parse(f'{text};', skill_set, scene)
    assert isinstance(call, Call)
    return CallSample(call, scene, seconds)


def fitted(name: str, samples: Sequence[CallSample], skill_set: SkillSet = TELLO) -> SkillFit:
    fit = fit_skill(skill_set.skills[name], samples)
    assert isinstance(fit, SkillFit), fit
    return fit


def moves(truth: LinearDuration, seed: int = 0, outliers: int = 0) -> list[CallSample]:
    """Return 30 flights upwards that take what the truth draws, some of them held up."""
    rng = random.Random(seed)
    found = []
    for number in range(30):
        one = sample(f'move_up({rng.randint(20, 500)})', 1.0)
        seconds = truth.sample_s(one.call, one.scene, rng)
        seconds *= rng.uniform(2, 6) if number < outliers else 1
        found.append(CallSample(one.call, one.scene, seconds))
    return found


@pytest.mark.parametrize('outliers', [0, 5])
@pytest.mark.parametrize('seed', range(5))
def test_a_linear_skill_is_found_within_two_percent(seed: int, outliers: int) -> None:
    truth = LinearDuration(1.4, {'distance': 3.2}, 0.015)
    fit = fitted('move_up', moves(truth, seed, outliers))
    model = fit.model
    assert isinstance(model, LinearDuration)
    for distance in (50, 150, 300, 500):
        one = sample(f'move_up({distance})', 1.0)
        expected_s = model.expected_s(one.call, one.scene)
        assert expected_s == pytest.approx(truth.expected_s(one.call, one.scene), rel=0.02)
    assert outliers <= fit.outliers <= outliers + 2
    assert 0.008 < model.variation < 0.03
    assert fit.error < 0.03 < fit.error_before
    least, greatest = fit.ranges['distance']
    assert 0.2 <= least < greatest <= 5.0


def test_the_distance_of_an_object_and_an_angle_count_too() -> None:
    goto = [sample('goto(cup_1)', 2.0 + 1.5 * (0.5 * n), x_m=0.5 * n) for n in range(1, 13)]
    model = fitted('goto', goto).model
    assert isinstance(model, LinearDuration)
    assert (model.base_s, model.per['target']) == pytest.approx((2.0, 1.5), rel=1e-3)
    turns = [sample(f'turn_cw({angle})', 0.02 * angle) for angle in range(20, 340, 20)]
    model = fitted('turn_cw', turns).model
    assert isinstance(model, LinearDuration)
    assert model.per['angle'] == pytest.approx(0.02 * 180 / 3.14159265, rel=1e-3)
    waits = [sample(f'delay({ms})', ms / 1000) for ms in range(100, 4000, 300)]
    model = fitted('delay', waits).model
    assert isinstance(model, LinearDuration)
    assert (model.base_s, model.per['time']) == pytest.approx((0.0, 1.0), abs=1e-3)


def test_an_argument_that_explains_nothing_is_dropped() -> None:
    rng = random.Random(5)
    pushes = [
        sample(
            f'push(cup_1,{(cm := rng.randint(2, 40))})',
            (1.0 + 0.08 * cm) * rng.gauss(1, 0.02),
            skill_set=ARM,
            x_m=rng.uniform(0.2, 0.8),
        )
        for _ in range(30)
    ]
    model = fitted('push', pushes, ARM).model
    assert isinstance(model, LinearDuration)
    assert set(model.per) == {'distance'}
    assert model.per['distance'] == pytest.approx(8.0, rel=0.03)


def test_what_no_argument_explains_is_constant_or_as_measured() -> None:
    rng = random.Random(6)
    steady = [sample('takeoff', rng.gauss(5.0, 0.2)) for _ in range(30)]
    fit = fitted('takeoff', steady)
    assert isinstance(fit.model, ConstantDuration)
    assert fit.model.seconds == pytest.approx(5.0, rel=0.02)
    # A search ends when it finds something: here at once, there after three turns.
    search = [sample('scan', rng.choice((1.2, 4.0, 11.0)) * rng.gauss(1, 0.05)) for _ in range(40)]
    fit = fitted('scan', search)
    assert isinstance(fit.model, EmpiricalDuration)
    times_s = [one.duration_s for one in search]
    assert fit.model.expected_s(search[0].call, Scene()) == pytest.approx(
        sum(times_s) / 40, rel=1e-3
    )
    assert least_s(fit.model, search[0].call, Scene()) == pytest.approx(min(times_s), rel=1e-3)
    assert (fit.outliers, fit.ranges) == (0, {})


def test_one_mishap_in_ten_at_most_is_discounted_and_more_are_part_of_it() -> None:
    once = [sample('land', 3.0 + 0.01 * n) for n in range(19)] + [sample('land', 60.0)]
    fit = fitted('land', once)
    assert isinstance(fit.model, ConstantDuration)
    assert (fit.outliers, fit.measured_s[2]) == (1, 60.0)
    often = [sample('land', 3.0 + 0.01 * n) for n in range(15)] + [sample('land', 60.0)] * 5
    assert isinstance(fitted('land', often).model, EmpiricalDuration)


def test_many_measured_times_become_evenly_spaced_quantiles() -> None:
    rng = random.Random(7)
    many = [sample('scan', rng.expovariate(0.2) + 0.5) for _ in range(900)]
    model = fitted('scan', many).model
    assert isinstance(model, EmpiricalDuration)
    assert len(model.samples_s) == MAX_KEPT
    times_s = [one.duration_s for one in many]
    assert model.expected_s(many[0].call, Scene()) == pytest.approx(sum(times_s) / 900, rel=0.02)
    assert model.samples_s[0] == pytest.approx(min(times_s), rel=1e-3)


def test_the_least_time_is_beaten_by_one_call_in_twenty_at_most() -> None:
    # Most calls take their time, a few are fast: the deviation alone would promise too much.
    calls = [sample('takeoff', 5.0 + 0.002 * n) for n in range(55)]
    calls += [sample('takeoff', 4.97 - 0.002 * n) for n in range(5)]
    model = fitted('takeoff', calls).model
    beaten = sum(one.duration_s < least_s(model, one.call, one.scene) for one in calls)
    assert beaten <= 3


@pytest.mark.parametrize(
    ('name', 'samples', 'reason'),
    [
        ('land', [sample('land', 3.0)] * 9, '9 calls: expected at least 10'),
        ('land', [], '0 calls: expected at least 10'),
        ('move_up', [sample('move_up(100)', 3.0)] * 12, 'distance was 1 in every call'),
        (
            'move_up',
            [sample(f'move_up({100 + n})', 3.0) for n in range(12)],
            'distance was 1 to 1.11 only: expected it to vary more',
        ),
    ],
)
def test_what_cannot_be_fitted_is_left_alone(
    name: str, samples: list[CallSample], reason: str
) -> None:
    result = fit_skill(TELLO.skills[name], samples)
    assert isinstance(result, LeftAlone)
    assert result.calls == len(samples)
    assert reason in result.reason


def test_a_line_is_not_given_up_for_what_fits_worse() -> None:
    # Every other flight takes three times as long: no line explains them, but the old one is
    # right for most.
    flights = moves(TELLO.skills['move_up'].duration)  # type: ignore[arg-type]
    held_up = [
        replace(one, duration_s=one.duration_s * (1 + 2 * (n % 5 < 2)))
        for n, one in enumerate(flights)
    ]
    result = fit_skill(TELLO.skills['move_up'], held_up)
    assert isinstance(result, LeftAlone)
    assert 'its earlier line is off by' in result.reason


def test_a_handful_that_agrees_by_chance_is_not_the_rule() -> None:
    # Few calls, many of them alike: the others are no outliers.
    times_s = [2.42] * 4 + [2.76] * 2 + [2.84] * 2 + [2.99] * 4 + [3.39] * 4 + [3.56] * 2
    picks = [
        sample('pick(cup_1)', time_s, skill_set=ARM, x_m=0.5 + 0.03 * (n * 7 % 18))
        for n, time_s in enumerate(times_s)
    ]
    fit = fitted('pick', picks, ARM)
    assert isinstance(fit.model, ConstantDuration)
    assert fit.model.seconds == pytest.approx(2.96, rel=0.02)
    assert fit.outliers == 0


def test_a_person_who_reads_is_left_alone() -> None:
    says = [CallSample(Call('say'), Scene(), 1.0 + n) for n in range(12)]
    result = fit_skill(CHATBOT.skills['say'], says)
    assert result == LeftAlone(12, 'its time is that of a person who reads')


@examples(25)
@given(
    st.lists(st.tuples(st.integers(20, 500), st.floats(0.05, 500.0)), min_size=10, max_size=25),
    st.randoms(use_true_random=False),
)
def test_the_order_of_calls_does_not_matter_and_every_fit_is_a_model(
    calls: list[tuple[int, float]], shuffler: random.Random
) -> None:
    samples = [sample(f'move_up({distance})', seconds) for distance, seconds in calls]
    result = fit_skill(TELLO.skills['move_up'], samples)
    shuffler.shuffle(samples)
    assert fit_skill(TELLO.skills['move_up'], samples) == result
    if isinstance(result, SkillFit):
        _require_model(result.model, samples)


def _require_model(model: DurationModel, samples: list[CallSample]) -> None:
    for one in samples:
        assert 0 <= least_s(model, one.call, one.scene) <= model.expected_s(one.call, one.scene)
    if not isinstance(model, EmpiricalDuration):
        assert 0 <= getattr(model, 'variation') <= 0.5  # noqa: B009
