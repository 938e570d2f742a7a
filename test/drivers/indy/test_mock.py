"""The mock arm: its speed, its kinematics, and what its record says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.drivers.indy.mock import motion as arm_motion
from timely_llm_ros.drivers.indy.mock.body import HOME_POSE, IndyBody, OpState, Refusal
from timely_llm_ros.drivers.indy.mock.motion import Profile

lengths = st.floats(0.0, 2000.0)
speeds = st.floats(1.0, 1000.0)
accelerations = st.floats(10.0, 20000.0)
angles = st.floats(-170.0, 170.0)


@given(lengths, speeds, accelerations, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_path_is_travelled_once_at_legal_speed(
    length: float, speed: float, acceleration: float, share: float, later: float
) -> None:
    profile = Profile(length, speed, acceleration)
    first_s = share * profile.duration_s
    second_s = first_s + later * (profile.duration_s - first_s)
    way = profile.travelled(second_s) - profile.travelled(first_s)
    slack = 1e-6 * (1 + length)
    assert -slack <= way <= speed * (second_s - first_s) + slack
    assert 0 <= profile.speed_at(first_s) <= speed + 1e-9
    assert profile.travelled(0.0) == pytest.approx(0.0, abs=slack)
    assert profile.travelled(profile.duration_s) == pytest.approx(length, abs=slack)


@given(lengths.filter(lambda length: length > 100), speeds, accelerations)
def test_long_paths_take_a_time_linear_in_their_length(
    length: float, speed: float, acceleration: float
) -> None:
    profile = Profile(length, speed, acceleration)
    if length * acceleration >= speed**2:
        assert profile.duration_s == pytest.approx(length / speed + speed / acceleration)


@given(st.tuples(angles, st.floats(-120.0, 120.0), st.floats(1.0, 170.0), angles, angles, angles))
def test_inverse_kinematics_undo_forward_ones(joints: tuple[float, ...]) -> None:
    pose = arm_motion.forward(joints)
    again = arm_motion.inverse(pose)
    if again is None:
        # The limit of reach is within rounding.
        assert math.dist(pose[:3], (0, 0, arm_motion.SHOULDER_MM)) == pytest.approx(800)
        return
    back = arm_motion.forward(again)
    assert math.dist(back[:3], pose[:3]) < 1e-3
    assert arm_motion.turn_deg(back, pose) < 1e-6


class Bench:
    """A body on a clock of the test's own."""

    def __init__(self, **options: Any) -> None:
        self.now_s = 0.0
        self.events: list[dict[str, Any]] = []
        self.body = IndyBody(self.events.append, clock=lambda: self.now_s, **options)

    def after(self, seconds: float) -> dict[str, Any]:
        # In small steps, as a clock that ticks.
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + 0.005)
            self.body.advance()
        return self.body.status()

    def line(self, *target: float, velocity: float = 25.0) -> tuple[Refusal, str]:
        return self.body.move_line([*target, 0.0, 180.0, 0.0], velocity, 100.0)

    @property
    def names(self) -> list[str]:
        return [event['event'] for event in self.events]


def test_a_motion_takes_its_time_and_ends_at_its_target() -> None:
    bench = Bench()
    assert bench.line(350, 0, 150) == (Refusal.NONE, '')
    # 250 mm at 250 mm/s and 2500 mm/s^2.
    assert bench.after(0.5)['op_state'] == OpState.MOVING
    assert bench.after(0.6)['is_in_motion']
    status = bench.after(0.05)
    assert not status['is_in_motion']
    assert status['is_target_reached']
    assert status['p'][:3] == pytest.approx([350, 0, 150])
    assert bench.names == ['still', 'move', 'still']


def test_the_state_tells_of_the_motion_before_until_the_next_begins() -> None:
    bench = Bench()
    bench.line(350, 0, 150)
    status = bench.after(0.01)
    assert status['is_target_reached']
    assert not status['is_in_motion']


@given(st.floats(0.03, 1.1))
def test_a_stop_slows_down_smoothly_and_short_of_the_target(at_s: float) -> None:
    bench = Bench()
    bench.line(350, 0, 150)
    before = bench.after(at_s)['p']
    bench.body.stop(2)
    mid = bench.body.status()
    assert math.dist(mid['p'][:3], before[:3]) < 1.0
    after = bench.after(0.2)
    assert not after['is_in_motion']
    assert bench.names[-1] == 'still'
    # From 250 mm/s at 2500 mm/s^2.
    assert math.dist(after['p'][:3], before[:3]) <= 12.5 + 1.0
    assert after['op_state'] == OpState.IDLE


@pytest.mark.parametrize(
    ('befall', 'state'),
    [
        (lambda body: body.violate('too far'), OpState.VIOLATE),
        (lambda body: body.collide(), OpState.COLLISION),
        (lambda body: body.press_emergency_stop(), OpState.STOP_AND_OFF),
    ],
)
def test_what_befalls_it_stops_it_until_it_is_recovered(befall: Any, state: OpState) -> None:
    bench = Bench()
    bench.line(350, 0, 150)
    there = bench.after(0.5)['p']
    befall(bench.body)
    status = bench.after(1.0)
    assert status['op_state'] == state
    assert status['p'] == there
    assert status['violation']
    assert bench.line(350, 0, 300)[0] == Refusal.NOT_READY
    assert bench.body.set_output('C', [2])[0] == Refusal.NOT_READY
    if state == OpState.STOP_AND_OFF:
        assert bench.body.recover()[0] == Refusal.NOT_READY
        bench.body.release_emergency_stop()
    assert bench.body.recover() == (Refusal.NONE, '')
    assert bench.after(0.1)['op_state'] == OpState.RECOVER_SOFT
    assert bench.after(0.3)['op_state'] == OpState.IDLE
    assert bench.line(350, 0, 300) == (Refusal.NONE, '')


def test_what_cannot_be_is_refused() -> None:
    bench = Bench()
    assert bench.line(900.0, 0.0, 300.0) == (
        Refusal.OUT_OF_REACH,
        'no inverse kinematics for [900.0, 0.0, 300.0, 0.0, 180.0, 0.0]',
    )
    assert bench.body.move_joints([0, 0, 200, 0, 0, 0], 25.0, 100.0)[0] == Refusal.JOINT_LIMIT
    assert bench.line(350, 0, 150) == (Refusal.NONE, '')
    assert bench.line(350, 0, 150) == (Refusal.NOT_READY, 'a motion is under way')
    assert bench.names == ['still', 'refused', 'refused', 'move', 'refused']


def test_jitter_varies_times_around_the_true_one() -> None:
    def times_s(seed: int) -> list[float]:
        bench = Bench(jitter=0.1, seed=seed)
        found = []
        for z_mm in (150, 400) * 10:
            bench.line(350, 0, z_mm)
            began_s = bench.now_s
            bench.after(2.0)
            found.append(bench.events[-1]['t'] - began_s)
        return found

    assert times_s(1) == times_s(1)
    assert times_s(1) != times_s(2)
    assert sum(times_s(1)) / 20 == pytest.approx(1.12, abs=0.06)
    assert len({round(time_s, 6) for time_s in times_s(1)}) > 10


def test_it_begins_at_home() -> None:
    bench = Bench()
    assert bench.body.status()['p'] == pytest.approx(HOME_POSE)
    bench.line(350, 0, 150)
    bench.after(2.0)
    bench.body.move_joints(bench.body.home, 25.0, 100.0)
    assert bench.after(3.0)['p'] == pytest.approx(HOME_POSE, abs=1e-6)
