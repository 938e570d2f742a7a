"""How long decoding steps take after eviction: where eviction shortens them."""

from __future__ import annotations

import random
import resource
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from timely_llm_ros.budget import FixedEviction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.timebill.jobs import Server

SHARES = (0.0, 0.25, 0.5, 0.75, 0.95)
BATCHES = (1, 8)


def step_table(
    server: Server, contexts: Sequence[int], *, kv_tokens: int, rounds: int
) -> list[dict[str, float]]:
    """Measure decoding steps over contexts and shares that were really evicted."""
    cells = [
        (batch, context, share)
        for batch in BATCHES
        for context in contexts
        for share in SHARES
        if batch * context <= kv_tokens // 2
    ]
    times_s: dict[tuple[int, int, float], list[float]] = defaultdict(list)
    faults: dict[tuple[int, int, float], float] = {}
    rng = random.Random(0)
    for _ in range(rounds):
        rng.shuffle(cells)
        for cell in cells:
            batch, context, share = cell
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            steps_s = server.steps_s(batch, context, FixedEviction(share))
            faults[cell] = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / max(
                1, len(steps_s)
            )
            times_s[cell] += steps_s
    rows = []
    print('decoding step (ms) by batch, context and share evicted')
    print('batch context' + ''.join(f'{share:>8.0%}' for share in SHARES))
    for batch in BATCHES:
        for context in contexts:
            line = []
            for share in SHARES:
                if (batch, context, share) in times_s:
                    step_ms = 1e3 * statistics.median(times_s[batch, context, share])
                    line.append(step_ms)
                    rows.append(
                        {
                            'batch': batch,
                            'context': context,
                            'evicted': share,
                            'step_ms': step_ms,
                            'page_faults_per_step': faults[batch, context, share],
                        }
                    )
            print(f'{batch:5} {context:7}' + ''.join(f'{value:8.2f}' for value in line))
    return rows
