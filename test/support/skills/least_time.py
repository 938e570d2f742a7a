"""The least time that a duration model draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills import SPREAD, EmpiricalDuration

if TYPE_CHECKING:
    from timely_llm_ros.skills import Call, DurationModel, Scene


def least_s(model: DurationModel, call: Call, scene: Scene) -> float:
    """Return the least time (s) that a model draws for a call."""
    if isinstance(model, EmpiricalDuration):
        return min(model.samples_s)
    return model.expected_s(call, scene) * (1.0 - SPREAD * model.variation)
