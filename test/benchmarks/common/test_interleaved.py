"""Errors that benchmarks tell."""

from __future__ import annotations

import pytest

from benchmarks.common import standard_error


def test_an_error_is_that_of_the_mean() -> None:
    assert standard_error([1.0]) == 0.0
    assert standard_error([0.0, 2.0, 0.0, 2.0]) == pytest.approx(0.57735, rel=1e-4)
