from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.timebill.overrun import kill, skip_next, skipped_jobs
from timely_llm_ros.errors import ConfigurationError

times = st.lists(st.floats(0, 100), min_size=1, max_size=40)
periods = st.floats(0.1, 50)


@given(times, periods)
def test_every_job_ends_in_one_way(times_s: list[float], period_s: float) -> None:
    for report in (kill(times_s, period_s), skip_next(times_s, period_s)):
        assert len(report.ends) == len(times_s)
        counts = [report.ends.count(end) for end in ('on_time', 'late', 'killed', 'skipped')]
        assert sum(counts) == len(times_s)
        assert report.completion_rate == (counts[0] + counts[1]) / len(times_s)
        assert report.on_time_rate <= report.completion_rate


@given(times, periods)
def test_kill_never_skips_and_never_is_late(times_s: list[float], period_s: float) -> None:
    report = kill(times_s, period_s)
    assert set(report.ends) <= {'on_time', 'killed'}
    assert report.busy_s <= len(times_s) * period_s * (1 + 1e-12)


@given(times, periods)
def test_skip_next_runs_one_job_at_a_time(times_s: list[float], period_s: float) -> None:
    report = skip_next(times_s, period_s)
    assert 'killed' not in report.ends
    free_s = 0.0
    for number, (end, time_s) in enumerate(zip(report.ends, times_s, strict=True)):
        release_s = number * period_s
        if end == 'skipped':
            assert release_s < free_s + 1e-6
        else:
            assert release_s >= free_s - 1e-6
            free_s = release_s + time_s
    # Nobody who is on time under skip_next would have been killed.
    killed = kill(times_s, period_s).ends
    assert all(k == 'on_time' for s, k in zip(report.ends, killed, strict=True) if s == 'on_time')


def test_an_end_at_a_release_skips_nothing() -> None:
    assert skipped_jobs(2.0, 1.0) == 1
    assert skipped_jobs(1.0, 1.0) == 0
    assert skipped_jobs(1.1, 0.1) == 10
    assert skipped_jobs(0.3, 0.1) == 2
    assert skipped_jobs(0.0, 1.0) == 0


def test_late_is_completed_but_not_on_time() -> None:
    report = skip_next([1, 25, 1, 1, 1], 10)
    assert report.ends == ('on_time', 'late', 'skipped', 'skipped', 'on_time')
    assert (report.completion_rate, report.on_time_rate) == (0.6, 0.4)
    assert report.busy_s == 27


@pytest.mark.parametrize('strategy', [kill, skip_next])
def test_wrong_values_are_named(strategy: object) -> None:
    assert callable(strategy)
    with pytest.raises(ConfigurationError, match='no jobs'):
        strategy([], 1.0)
    with pytest.raises(ConfigurationError, match=r'period 0\.0 s'):
        strategy([1.0], 0.0)
    with pytest.raises(ConfigurationError, match='job of nan s'):
        strategy([float('nan')], 1.0)
