from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.engines.core.step_size import MORE_THAN_SHORTEST, StepSize


def settle(steps: StepSize, base_s: float, token_s: float, count: int = 60) -> int:
    """Run steps as large as it says; return the last one's size."""
    for _ in range(count):
        tokens = steps.tokens
        steps.observe(tokens, base_s + token_s * tokens)
    return steps.tokens


@given(
    base_s=st.floats(1e-5, 0.05),
    token_s=st.floats(1e-6, 0.05),
    bound_s=st.floats(1e-3, 0.1),
    most=st.integers(1, 512),
)
def test_it_finds_the_largest_step_that_is_short_enough(
    base_s: float, token_s: float, bound_s: float, most: int
) -> None:
    steps = StepSize(bound_s, most)
    tokens = settle(steps, base_s, token_s)
    limit_s = max(bound_s, MORE_THAN_SHORTEST * (base_s + token_s))
    assert 1 <= tokens <= most
    # One more now and then: whether it still would be too long is not known for ever.
    assert tokens <= 2 or base_s + token_s * (tokens - 1) <= limit_s
    assert tokens == most or base_s + token_s * (tokens + 2) >= limit_s


def test_it_begins_small_and_grows_by_doubling() -> None:
    steps = StepSize(0.01, 64)
    sizes = []
    for _ in range(10):
        sizes.append(steps.tokens)
        steps.observe(sizes[-1], 1e-4)
    assert sizes[0] == 1
    assert all(later <= 2 * earlier for earlier, later in pairwise(sizes))
    assert sizes[-1] == 64


def test_a_machine_that_becomes_slower_gets_smaller_steps() -> None:
    steps = StepSize(0.01, 64)
    quick = settle(steps, 0.001, 0.0002)
    slow = settle(steps, 0.002, 0.001, 400)
    assert quick >= 40
    assert 6 <= slow <= 9


def test_one_hiccup_changes_little() -> None:
    steps = StepSize(0.01, 64)
    before = settle(steps, 0.001, 0.001)
    steps.observe(before, 5.0)
    assert steps.tokens >= before // 2
