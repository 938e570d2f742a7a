"""The options of vLLM, with our scheduler inside and without."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from timely_llm_ros.engines.config import LocalOptions, ModelConfig
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFILL_CHUNK = 2048


@dataclass(frozen=True, kw_only=True)
class VllmConfig(LocalOptions, ModelConfig):
    """Options of vLLM.

    Attributes:
        max_suspended: Most generations that keep their KV without running; more are spilled. Not
            used without our scheduler, because there a suspended generation takes no place.
        block_size: Tokens of a KV block; a multiple of 32 on a CPU.
        vllm: Further keyword arguments of vLLM's ``AsyncEngineArgs``, for example
            ``tensor_parallel_size``.
        micro_batches: Between how many steps tokens are shared where the model is a pipeline of
            stages: 0 for as many as there are stages, 1 to let vLLM fill every step. Not used
            without our scheduler.
    """

    name: ClassVar[str] = 'vllm'

    max_suspended: int = 248
    block_size: int = 32
    vllm: Mapping[str, Any] = field(default_factory=dict)
    micro_batches: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, value in (
            ('max_suspended', 0, self.max_suspended),
            ('block_size', 1, self.block_size),
            ('max_kv_tokens', 2 * self.block_size, self.max_kv_tokens),
            ('prefill_chunk', self.max_running + 1, self.chunk),
            ('micro_batches', 0, self.micro_batches),
        ):
            if value < least:
                raise ConfigurationError(f'{name} {value!r}: expected at least {least}')

    @property
    def chunk(self) -> int:
        """Most tokens computed in one step."""
        return self.prefill_chunk or _PREFILL_CHUNK

    @property
    def kv_tokens(self) -> int:
        """The bound on KV, rounded down to blocks."""
        return self.max_kv_tokens // self.block_size * self.block_size

    def context_limit(self, longest: int) -> int:
        """Return the most tokens of a context for a model that can have so many."""
        return min(self.kv_tokens - self.block_size, longest)

    def plugin(self) -> dict[str, Any]:
        """Return what our scheduler inside vLLM is told."""
        return {
            'mode': self.mode,
            'policy': self.policy,
            'max_running': self.max_running,
            'micro_batches': self.micro_batches,
            'scheduling': asdict(self.scheduling),
        }

    def arguments(self, model: str, *, slots: int, context_limit: int) -> dict[str, Any]:
        """Return vLLM's engine arguments, but for what decides who schedules and :attr:`vllm`.

        Args:
            model: The model's folder.
            slots: Most requests that vLLM's worker keeps at a time.
            context_limit: Most tokens of a context.
        """
        from timely_llm_ros.engines.vllm.start import engine_arguments

        return engine_arguments(
            model,
            dtype=self.dtype,
            kv_tokens=self.kv_tokens,
            block_size=self.block_size,
            chunk=self.chunk,
            slots=slots,
            context_limit=context_limit,
        )
