"""What the paper and its corrections say of a pipeline of micro-batches of one size.

The planner's engine uses only ``PipelineModel``, whose micro-batches may differ; these formulas are
what it and the simulated pipeline are compared with. Times are in seconds.
"""

from __future__ import annotations

from typing import NamedTuple

from timely_llm_ros.scheduling import LinearCosts, PipelineModel


def balanced_count(stages: int, compute_s: float, transfer_s: float) -> float:
    """Return where eq. 1 equals eq. 2, for costs that do not depend on the size."""
    return stages + (stages - 1) * transfer_s / compute_s


class ImbalanceIdle(NamedTuple):
    """How long stages wait where a longer micro-batch follows a shorter one (s)."""

    last: float
    """The last stage (section 4.1)."""
    total: float
    """All stages together."""


def imbalance_idle(stages: int, first_s: float, second_s: float) -> ImbalanceIdle:
    """Return how long stages wait between two micro-batches of unequal time.

    Stage s (0-based) waits ``s (second - first)`` if the second one takes longer, else not.
    """
    step_s = max(0.0, second_s - first_s)
    return ImbalanceIdle((stages - 1) * step_s, stages * (stages - 1) / 2 * step_s)


def steady_period_s(
    stages: int,
    micro_batches: int,
    compute_s: float,
    transfer_s: float,
    *,
    return_s: float = 0.0,
    serial_links: bool = True,
) -> float:
    """Return how long a round takes in the long run, for micro-batches of one size.

    Either the first stage, a link, or the way of one micro-batch through the pipeline and back
    decides. The paper's eq. 2 knows nothing of the link.

    Args:
        stages: Stages of the pipeline.
        micro_batches: Micro-batches in a round.
        compute_s: Of one of them on one stage.
        transfer_s: Of one of them on one link.
        return_s: The sampled token's way back to the first stage.
        serial_links: Whether a link carries one micro-batch at a time.
    """
    longest_s = max(compute_s, transfer_s if serial_links and stages > 1 else 0.0)
    way_s = PipelineModel(stages, 1, LinearCosts(compute_s, 0.0, transfer_s)).way_s(1)
    return max(micro_batches * longest_s, way_s + return_s)
