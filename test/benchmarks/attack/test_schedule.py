from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.attack.schedule import kinds, schedule

KNOWN = kinds(['drone_1', 'arms'], ['client_1'])


@given(st.integers(0, 10_000), st.floats(0.0, 3600.0))
def test_equal_seeds_give_equal_faults(seed: int, length_s: float) -> None:
    once = schedule(KNOWN, seed=seed, length_s=length_s)
    assert once == schedule(KNOWN, seed=seed, length_s=length_s)
    assert all(0 <= fault.at_s <= fault.at_s + fault.lasts_s <= length_s for fault in once)


@given(st.integers(0, 10_000))
def test_faults_that_are_alone_leave_time_between_them(seed: int) -> None:
    alone = [
        fault for fault in schedule(KNOWN, seed=seed, length_s=600.0) if KNOWN[fault.kind].alone
    ]
    for fault, later in pairwise(alone):
        assert later.at_s >= fault.at_s + fault.lasts_s + 7.0


def test_every_kind_comes_within_ten_minutes() -> None:
    for seed in range(20):
        assert {fault.kind for fault in schedule(KNOWN, seed=seed, length_s=600.0)} == set(KNOWN)
