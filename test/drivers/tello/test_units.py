"""Metres and radians in, what the Tello SDK takes out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.drivers.tello.units import (
    MAX_MOVE_CM,
    MAX_TURN_DEG,
    MIN_MOVE_CM,
    move_legs_cm,
    speed_cm_s,
    turn_legs_deg,
)
from timely_llm_ros.errors import SkillFailedError


@given(st.floats(0.2, 100.0))
def test_the_legs_of_a_move_are_takeable_and_add_up(distance_m: float) -> None:
    legs = move_legs_cm(distance_m)
    assert all(MIN_MOVE_CM <= leg <= MAX_MOVE_CM for leg in legs)
    assert sum(legs) == pytest.approx(distance_m * 100, abs=0.5 + 1e-9)
    assert len(legs) == math.ceil(round(distance_m * 100) / MAX_MOVE_CM)
    assert max(legs) - min(legs) <= 1


@given(st.floats(math.radians(1), 50.0))
def test_the_legs_of_a_turn_are_takeable_and_add_up(angle_rad: float) -> None:
    legs = turn_legs_deg(angle_rad)
    assert all(1 <= leg <= MAX_TURN_DEG for leg in legs)
    assert sum(legs) == pytest.approx(math.degrees(angle_rad), abs=0.5 + 1e-9)


@given(st.integers(MIN_MOVE_CM, MAX_MOVE_CM))
def test_a_move_within_the_sdks_range_is_itself(distance_cm: int) -> None:
    assert move_legs_cm(distance_cm / 100) == (distance_cm,)


@given(st.integers(1, MAX_TURN_DEG))
def test_a_turn_within_the_sdks_range_is_itself(angle_deg: int) -> None:
    assert turn_legs_deg(math.radians(angle_deg)) == (angle_deg,)


@pytest.mark.parametrize('distance_m', [0.19, 0.0, -1.0, math.nan, math.inf])
def test_no_move_is_refused_with_its_length(distance_m: float) -> None:
    with pytest.raises(SkillFailedError, match=f'{distance_m:g}'):
        move_legs_cm(distance_m)


@pytest.mark.parametrize('angle_rad', [0.0, 0.001, -1.0, math.nan, math.inf])
def test_no_turn_is_refused_with_its_angle(angle_rad: float) -> None:
    with pytest.raises(SkillFailedError, match=f'{angle_rad:g}'):
        turn_legs_deg(angle_rad)


@given(st.floats(0.0, 5.0))
def test_speeds_are_takeable(speed_m_s: float) -> None:
    assert 10 <= speed_cm_s(speed_m_s) <= 100
    if 0.1 <= speed_m_s <= 1.0:
        assert speed_cm_s(speed_m_s) == pytest.approx(speed_m_s * 100, abs=0.5 + 1e-9)
