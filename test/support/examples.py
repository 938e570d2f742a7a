"""How many examples a property test draws."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(number: int, **options: Any) -> settings:
    """Return settings with ``number`` examples where a property has a hundred by itself.

    ``make fuzz`` draws more and ``make coverage`` fewer in the same proportion; a number in
    ``settings`` would be the same in all.
    """
    share = settings().max_examples / 100
    return settings(max_examples=max(1, round(share * number)), **options)
