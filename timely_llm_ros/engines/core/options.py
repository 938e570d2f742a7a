"""The options of an engine core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from timely_llm_ros.scheduling import ServingMode

PREFILL_CHUNK = 128
"""Most prompt tokens in one step where nothing else is said: decoding goes on beside long ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
    """What an engine core is made with.

    These are options of :class:`EngineConfig`, and ``context_limit``: the most tokens that one
    context may have.
    """

    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    max_running: int = 8
    max_kv_tokens: int = 65536
    context_limit: int = 1 << 30
    prefill_chunk: int = PREFILL_CHUNK
    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)
