"""What the attack does to traces."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.attack.hostile import damaged


@given(st.binary(max_size=100), st.integers(0, 2**32))
def test_any_file_can_be_damaged(data: bytes, seed: int) -> None:
    assert damaged(data, random.Random(seed)) == damaged(data, random.Random(seed))
