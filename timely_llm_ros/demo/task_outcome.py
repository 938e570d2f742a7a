"""What became of a task of the demo."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import TaskRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a task ended, as the planner's client tells it.

    Attributes:
        took_s: Time from sending the task to its end (s).
        error: Why it did not succeed; empty where it did.
        status: ``succeeded``, ``canceled``, ``aborted``, or ``rejected`` by the planner.
        error_code: The ``code`` of its error; 0 for none.
        generation_s: Duration of its generation (s).
        predicted_tokens: Predicted length of its plan; 0 where nothing was predicted.
        predicted_s: Predicted duration of its generation (s).
        worst_s: That duration in the worst case (s).
        eviction_ratio: Share of the KV cache that was to be evicted.
    """

    took_s: float
    error: str
    status: str = 'rejected'
    error_code: int = 0
    generation_s: float = math.nan
    predicted_tokens: int = 0
    predicted_s: float = math.nan
    worst_s: float = math.nan
    eviction_ratio: float = 0.0

    @classmethod
    def of(cls, event: Mapping[str, Any], took_s: float) -> TaskOutcome:
        """Return the outcome that a ``result`` or ``rejected`` event tells."""
        told = {item.name: event[item.name] for item in fields(cls) if item.name in event}
        return cls(took_s=took_s, **told)

    @property
    def refused(self) -> bool:
        """Whether the task cannot be done within its time budget."""
        return self.error_code == TaskRefusedError.code
