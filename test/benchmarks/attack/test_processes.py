from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.attack.processes import GROWTH, grown
from benchmarks.common import Sample, family, sample


def samples(last_mb: float) -> list[Sample]:
    return [
        Sample(float(at_s), 50.0 if at_s < 200 else last_mb, 40.0, 9.0) for at_s in range(0, 300, 5)
    ]


@pytest.mark.parametrize(('last_mb', 'breaches'), [(50.0, 0), (50.0 + GROWTH['memory_mb'] + 1, 1)])
def test_growth_is_found(last_mb: float, breaches: int) -> None:
    assert len(grown('planner', samples(last_mb))) == breaches


def test_short_runs_are_not_judged() -> None:
    assert grown('planner', samples(1000.0)[:10]) == []


def test_a_program_is_sampled_with_its_children() -> None:
    child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
    try:
        assert child.pid in family(os.getpid())
        alone, together = sample(child.pid, 1.0), sample(os.getpid(), 1.0)
        assert alone is not None
        assert together is not None
        assert together.memory_mb > alone.memory_mb > 0
        assert together.descriptors > alone.descriptors > 0
        assert together.threads > alone.threads > 0
    finally:
        child.communicate()
    assert sample(child.pid, 2.0) is None
