"""Table 1 of preprints 202512.0788: four RTX 4070, 100 Mbps between them, Llama-2-13b-chat.

Times in seconds: until all requests are served, of which a GPU computes and is idle.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.micro_batch.pipeline_serving import Workload

SYSTEMS = ('baseline', 'budget', 'both')
"""vLLM, with the dynamic token budget, with that and the dynamic number of micro-batches."""


class Times(NamedTuple):
    """What one system took for one workload (s)."""

    completion_s: float
    busy_s: float
    idle_s: float


PAPER: dict[Workload, tuple[Times, Times, Times]] = {
    Workload(64, 256, 256): (
        Times(130.3, 63.3, 66.5),
        Times(123.8, 67.1, 56.2),
        Times(111.6, 62.4, 47.7),
    ),
    Workload(128, 256, 256): (
        Times(290.9, 112.6, 177.7),
        Times(226.4, 110.8, 115.0),
        Times(211.0, 122.4, 88.0),
    ),
    Workload(256, 256, 256): (
        Times(616.2, 206.3, 409.3),
        Times(441.0, 197.2, 243.2),
        Times(381.9, 197.9, 182.6),
    ),
    Workload(32, 512, 512): (
        Times(152.0, 88.2, 63.2),
        Times(147.5, 91.8, 55.2),
        Times(139.0, 87.4, 51.1),
    ),
    Workload(64, 512, 512): (
        Times(319.3, 158.8, 160.0),
        Times(268.7, 158.4, 109.7),
        Times(256.5, 170.7, 85.2),
    ),
    Workload(128, 512, 512): (
        Times(673.5, 295.0, 377.9),
        Times(499.9, 266.0, 233.4),
        Times(471.7, 282.8, 188.3),
    ),
    Workload(32, 1024, 1024): (
        Times(420.6, 255.7, 164.4),
        Times(366.5, 255.0, 110.9),
        Times(349.6, 241.6, 107.4),
    ),
    Workload(64, 1024, 1024): (
        Times(891.8, 475.6, 415.7),
        Times(708.8, 447.5, 260.7),
        Times(660.5, 424.9, 234.2),
    ),
    Workload(32, 2048, 2048): (
        Times(1262.9, 833.1, 429.3),
        Times(1142.3, 782.9, 358.8),
        Times(1092.5, 738.6, 353.4),
    ),
    Workload(64, 2048, 2048): (
        Times(2468.7, 1684.4, 783.8),
        Times(2222.2, 1567.0, 654.5),
        Times(2113.0, 1451.1, 660.4),
    ),
}
"""By workload, for each of ``SYSTEMS``."""


class Improvement(NamedTuple):
    """What a system gains over another."""

    speedup: float
    """Completion time of the other over its own."""
    busy_pct: float
    """By how much less a GPU computes (%)."""
    idle_pct: float
    """By how much less a GPU is idle (%)."""


def improvement(before: Times, after: Times) -> Improvement:
    """Return what ``after`` gains over ``before``."""
    return Improvement(
        before.completion_s / after.completion_s,
        100 * (1 - after.busy_s / before.busy_s),
        100 * (1 - after.idle_s / before.idle_s),
    )
