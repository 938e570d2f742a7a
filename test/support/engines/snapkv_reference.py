"""SnapKV in float64 and plain loops, from the paper, sharing nothing with the implementation.

For each layer: the queries of the prompt's last ``window`` tokens are scored against every key,
causally; the attention weights on what lies before the window are averaged over those queries,
smoothed over ``kernel`` neighbours (missing neighbours count as zero), and averaged over the
query heads that share a key-value head. The window is kept, and the best of the rest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def scores(
    keys: Floats, queries: Floats, scaling: float, window: int, kernel: int
) -> list[list[float]]:
    """Return the score of every token before the window, for each key-value head."""
    tokens, kv_heads, width = keys.shape
    looking = min(window, len(queries), tokens - 1)
    seen = tokens - looking
    group = queries.shape[1] // kv_heads
    found = []
    for kv_head in range(kv_heads):
        total = [0.0] * seen
        for head in range(kv_head * group, (kv_head + 1) * group):
            mean = [0.0] * seen
            for number in range(looking):
                query = queries[len(queries) - looking + number, head]
                logits = [
                    scaling
                    * sum(float(query[d]) * float(keys[t, kv_head, d]) for d in range(width))
                    for t in range(seen + number + 1)
                ]
                top = max(logits)
                exponentials = [math.exp(logit - top) for logit in logits]
                norm = math.fsum(exponentials)
                for t in range(seen):
                    mean[t] += exponentials[t] / norm / looking
            half = kernel // 2
            for t in range(seen):
                near = [mean[s] for s in range(t - half, t + half + 1) if 0 <= s < seen]
                total[t] += math.fsum(near) / kernel / group
        found.append(total)
    return found


def select(scored: list[float], tokens: int, keep: int) -> list[int]:
    """Return the positions that one key-value head keeps."""
    seen = len(scored)
    last = list(range(seen, tokens))
    if keep <= len(last):
        return last[-keep:]
    order = sorted(range(seen), key=lambda t: (-scored[t], t))
    return sorted(order[: keep - len(last)] + last)


def gap(scored: list[float], tokens: int, keep: int) -> float:
    """Return by how much the worst kept score exceeds the best dropped one."""
    ordered = sorted(scored, reverse=True)
    chosen = keep - (tokens - len(scored))
    if not 0 < chosen < len(ordered):
        return math.inf
    return ordered[chosen - 1] - ordered[chosen]
