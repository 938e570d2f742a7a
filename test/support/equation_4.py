"""TimelyLLM's eq. 4 as it is written, for comparison with the policy that computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timely_llm_ros.scheduling.policies import MINIMUM_SLACK_S

if TYPE_CHECKING:
    from timely_llm_ros.scheduling.generation import FloatArray, TableView


class Priority(NamedTuple):
    """Eq. 4 and what it is made of; one element per generation."""

    waiting_s: FloatArray
    """How long the robot will have waited if the segment is generated next."""
    utility: FloatArray
    """The segment's utility then."""
    slack_s: FloatArray
    """Time left until the segment should reach the robot, at least ``MINIMUM_SLACK_S``."""
    density: FloatArray
    """Eq. 4: utility / (expected generation time * slack)."""


def priority(
    view: TableView,
    now_s: float,
    *,
    network_s: float = 0.0,
    minimum_slack_s: float = MINIMUM_SLACK_S,
) -> Priority:
    """Return potential utility density (TimelyLLM, eq. 4) with the slack clamped.

    A first segment (index 0) waits from the arrival and is due ERT after it; a later one waits
    from, and is due at, the moment when the robot runs out of work.
    """
    first = view.segment_index == 0
    origin_s = np.where(first, view.arrival_s, view.due_s)
    allowed_s = np.where(first, view.ert_s, 0.0)
    waiting_s = (now_s + network_s) + view.expected_generation_s - origin_s
    utility = view.beta + view.alpha * np.maximum(waiting_s - allowed_s, 0.0)
    slack_s = np.maximum(origin_s + allowed_s - (network_s + now_s), minimum_slack_s)
    density = utility / (view.expected_generation_s * slack_s)
    return Priority(waiting_s, utility, slack_s, density)
