"""What a few states in a row say of a Tello, however they come."""

from __future__ import annotations

import time

from timely_llm_ros.drivers.tello.telemetry import MOTORS_OFF_S, Telemetry

PERIOD_S = 0.1


class States:
    """States that are heard one after the other, on a time of the test's own."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self.now_s = time.monotonic()
        self._count = 0

    def motors_turn(self) -> bool | None:
        return self.telemetry.motors_turn

    def hear(self, times: int = 1, **fields: int) -> None:
        for _ in range(times):
            self._count += 1
            self.now_s += PERIOD_S
            state = {'vgx': 0, 'vgy': 0, 'vgz': 0, 'yaw': 0, 'h': 0, 'tof': 10, 'time': 7, **fields}
            # No two are quite alike, as no two measurements are.
            self.telemetry.note({**state, 'agx': self._count}, self.now_s)


def test_motors_are_off_when_their_seconds_stand_still() -> None:
    states = States()
    assert states.motors_turn() is None
    states.hear(round(MOTORS_OFF_S / PERIOD_S) - 1)
    assert states.motors_turn() is None
    states.hear(3)
    assert states.motors_turn() is False
    states.hear(time=8)
    assert states.motors_turn() is True
    states.hear(9, time=8)
    # An older state.
    states.hear(time=7)
    assert states.motors_turn() is True
    states.telemetry.doubt_motors()
    assert states.motors_turn() is None


def test_what_is_above_the_ground_has_not_landed() -> None:
    states = States()
    states.hear(100, tof=80)
    assert states.motors_turn() is None
    assert states.telemetry.is_up
    # It measures nothing at all.
    states.hear(tof=6553)
    assert states.motors_turn() is False
    assert (states.telemetry.is_up, states.telemetry.is_low) == (False, False)


def test_seconds_that_begin_anew_are_a_new_beginning() -> None:
    states = States()
    states.hear(time=500)
    states.hear(10, time=0)
    assert states.motors_turn() is None
    states.hear(10, time=0)
    states.hear(time=1)
    assert states.motors_turn() is True


def test_copies_of_older_states_say_nothing() -> None:
    telemetry = Telemetry()
    moving = {'vgx': 5, 'yaw': 0, 'time': 3, 'agx': 1}
    still = {'vgx': 0, 'yaw': 0, 'time': 3, 'agx': 2}
    for number, state in enumerate((moving, still, moving, still)):
        telemetry.note(state, 100.0 + number * PERIOD_S)
    assert telemetry.still_states == 2


def test_what_was_flown_and_turned_is_measured() -> None:
    states = States()
    states.hear()
    states.telemetry.mark()
    for number in range(1, 21):
        states.hear(vgx=3, vgy=-4, yaw=18 * number - 360 * (number > 10))
    states.hear(yaw=0)
    assert 0.9 <= states.telemetry.path_m <= 1.2
    assert states.telemetry.turned_deg == 360
    assert states.telemetry.still_states == 1
    states.telemetry.mark()
    assert not states.telemetry.has_moved
