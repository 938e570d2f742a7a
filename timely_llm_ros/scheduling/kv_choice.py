"""Whose KV is given up where it is short.

What a drop costs is its recomputation, what it brings is its memory until the generation wants it
back. A prompt's recomputation takes about as long per token, so per token and second of memory
whoever comes back latest is cheapest, and nobody should lose more than what is missing. When a
robot comes back is known here: it is when it has executed what it has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def drop_order(
    tokens: Sequence[int], back_s: Sequence[float], ranks: Sequence[float], missing: int
) -> list[int]:
    """Return the places of generations in the order in which to drop their KV until there is room.

    Latest back first, lowest rank among equals. Those that together free the ``missing`` tokens
    lead, without whoever can be spared because the others of them suffice; the soonest back of
    these are spared first.

    Args:
        tokens: How many tokens each one's drop frees.
        back_s: When each one is wanted again (s).
        ranks: Each one's latest rank; nan where it has none.
        missing: How many tokens have to be freed; 0 or less to order only.
    """

    def harm(place: int) -> tuple[float, float]:
        rank = ranks[place]
        return -back_s[place], -math.inf if math.isnan(rank) else rank

    order = sorted(range(len(tokens)), key=harm)
    leading, freed = list[int](), 0
    for place in order:
        if freed >= missing:
            break
        leading.append(place)
        freed += tokens[place]
    if freed < missing:
        return order
    for place in reversed(leading):
        if freed - tokens[place] >= missing:
            freed -= tokens[place]
            leading.remove(place)
    rest = set(order).difference(leading)
    return leading + [place for place in order if place in rest]
