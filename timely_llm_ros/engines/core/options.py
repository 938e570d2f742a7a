"""The options of an engine core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from timely_llm_ros.scheduling import GenerationTable, Scheduler, ServingMode, StepTimes

PREFILL_CHUNK = 128
"""Most prompt tokens in one step where nothing else is said: decoding goes on beside long ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
    """What an engine core is made with.

    These are options of :class:`EngineConfig`, and two more.

    Attributes:
        context_limit: The most tokens that one context may have.
        stop_strings: Where one of them comes in a text, the text ends before it.
    """

    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    max_running: int = 8
    max_kv_tokens: int = 65536
    context_limit: int = 1 << 30
    prefill_chunk: int = PREFILL_CHUNK
    stop_strings: tuple[str, ...] = ()
    scheduling: SchedulingOptions = field(default_factory=SchedulingOptions)

    def scheduler(self, table: GenerationTable, step_times: StepTimes) -> Scheduler:
        """Return a scheduler of the table's generations.

        Raises:
            ConfigurationError: There is no such policy.
        """
        return self.scheduling.scheduler(
            table, step_times, policy=self.policy, max_running=self.max_running, mode=self.mode
        )
