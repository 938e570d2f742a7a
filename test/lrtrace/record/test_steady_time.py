"""The times of a trace go on evenly, whatever the wall clock does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lrtrace.record import steady_time
from lrtrace.record.steady_time import SteadyTime

if TYPE_CHECKING:
    import pytest

SECOND = 1_000_000_000
STEPS = st.lists(
    st.sampled_from([0, 3600, -3600, -7200, 1]).map(lambda step_s: step_s * SECOND), max_size=20
)


class Clocks:
    """Both clocks, as the module sees them."""

    def __init__(self) -> None:
        self.steady_ns, self.wall_ns = 5 * SECOND, 1_700_000_000 * SECOND

    def pass_ns(self, duration_ns: int) -> None:
        self.steady_ns += duration_ns
        self.wall_ns += duration_ns

    def monotonic_ns(self) -> int:
        return self.steady_ns

    def time_ns(self) -> int:
        return self.wall_ns


@given(steps_ns=STEPS)
def test_steps_are_taken_out(steps_ns: list[int]) -> None:
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        check_steps(steps_ns, patch)


def check_steps(steps_ns: list[int], patch: pytest.MonkeyPatch) -> None:
    clocks = Clocks()
    patch.setattr(steady_time, 'time', clocks)
    begin_ns, clock = clocks.wall_ns, SteadyTime()
    passed_ns, times_ns, expected_ns = 0, [], []
    for step_ns in steps_ns:
        clocks.pass_ns(20_000_000)
        stamped_before = clocks.wall_ns
        clocks.wall_ns += step_ns
        clocks.pass_ns(20_000_000)
        clock.look()
        times_ns += [clock.of(stamped_before), clock.of(clocks.wall_ns)]
        expected_ns += [begin_ns + passed_ns + 20_000_000, begin_ns + passed_ns + 40_000_000]
        passed_ns += 40_000_000
    assert times_ns == expected_ns


def test_small_corrections_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks()
    monkeypatch.setattr(steady_time, 'time', clocks)
    clock = SteadyTime()
    for _ in range(100):
        clocks.pass_ns(40_000_000)
        clocks.wall_ns += 20_000_000
        clock.look()
    assert clock.of(clocks.wall_ns) == clocks.wall_ns
