"""How many replicas the work of an app asks for, as Serve's autoscaler wants to be told."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

    from timely_llm_ros.engines.engine import EngineState

WORK = 'work'

BUSY = 0.6
"""Share of its places that a replica is to have at work: bursts find room, and steps stay short."""

LOOK_BACK_S = 20.0
"""Over how long the work is averaged (s)."""

UP_DELAY_S, DOWN_DELAY_S = 10.0, 300.0
"""How long more, or fewer, replicas must have been wanted before any is started or drained (s).
A replica that starts loads a model first."""


def work_of(state: EngineState | None, places: int) -> dict[str, float]:
    """Return what a replica reports: generations for which robots wait, as a share of its places.

    What is written while a robot executes is no work that another replica would do sooner.
    """
    return {WORK: 0.0 if state is None else state.waited_for / places}


def wanted_replicas(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Return how many replicas would each be busy as wanted; Serve adds bounds and delays."""
    reported = (context.aggregated_metrics or {}).get(WORK)
    if not reported:
        return context.target_num_replicas, {}
    return max(1, ceil(sum(reported.values()) / BUSY)), {}


def autoscaling(fewest: int, most: int) -> dict[str, Any]:
    """Return the arguments of Serve's ``AutoscalingConfig``."""
    return {
        'min_replicas': fewest,
        'max_replicas': most,
        'look_back_period_s': LOOK_BACK_S,
        'upscale_delay_s': UP_DELAY_S,
        'downscale_delay_s': DOWN_DELAY_S,
        'policy': {'policy_function': f'{__name__}.{wanted_replicas.__name__}'},
    }
