"""How long a prompt TimeBill's predictor may read while prefill hides it (section 4.1)."""

from __future__ import annotations

import math

from timely_llm_ros.errors import ConfigurationError


def longest_predictor_prompt(
    square_s: float, token_s: float, constant_s: float, prefill_s: float
) -> int:
    """Return the longest prompt (tokens) whose prediction ends with the prefill (section 4.1).

    Args:
        square_s: a_p of the predictor's own time, >= 0 (s per squared token).
        token_s: b_p >= 0 (s per token).
        constant_s: c_p >= 0 (s).
        prefill_s: The time to hide in (s).

    Returns:
        0 where not even an empty prompt fits: predict before prefill then, or not at all.

    Raises:
        ConfigurationError: A coefficient is negative, or none of the first two is above 0, so
            that every prompt fits; or the time is not finite.
    """
    if not math.isfinite(prefill_s):
        raise ConfigurationError(f'prefill {prefill_s!r} s: expected a finite number')
    if min(square_s, token_s, constant_s) < 0 or square_s == token_s == 0:
        raise ConfigurationError(
            f'predictor time {square_s!r} n^2 + {token_s!r} n + {constant_s!r} s: expected '
            'coefficients >= 0 and one of the first two above 0'
        )
    spare_s = prefill_s - constant_s
    if spare_s < 0:
        return 0

    def fits(tokens: int) -> bool:
        return square_s * tokens * tokens + token_s * tokens + constant_s <= prefill_s

    # The root in the form that does not subtract nearly equal numbers.
    root = math.sqrt(token_s * token_s + 4 * square_s * spare_s)
    tokens = math.floor(2 * spare_s / (token_s + root)) if root else 0
    while not fits(tokens) and tokens > 0:
        tokens -= 1
    while fits(tokens + 1):
        tokens += 1
    return tokens
