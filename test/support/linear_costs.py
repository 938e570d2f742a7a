"""Costs of micro-batches, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from timely_llm_ros.scheduling.microbatch import LinearCosts

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def linear_costs(**further: SearchStrategy[float]) -> SearchStrategy[LinearCosts]:
    """Draw costs; ``further`` are those that are nothing otherwise."""
    base, token = st.floats(1e-4, 0.1), st.floats(0, 1e-3)
    return st.builds(LinearCosts, base, token, st.floats(0, 0.1), token, **further)
