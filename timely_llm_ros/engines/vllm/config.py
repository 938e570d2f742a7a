"""The options of vLLM, with our scheduler inside and without."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from timely_llm_ros.engines.config import LocalOptions, ModelConfig
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class VllmConfig(LocalOptions, ModelConfig):
    """Options of vLLM.

    Attributes:
        max_suspended: Most generations that keep their KV without running; more are spilled. Only
            our scheduler uses it, because elsewhere a suspended generation takes no place.
        block_size: Tokens of a KV block; a multiple of 32 on a CPU.
        vllm: Further keyword arguments of vLLM's ``AsyncEngineArgs``.
        micro_batches: Among how many steps our scheduler shares tokens where the model is a
            pipeline of stages: 0 for as many as there are stages, 1 to let vLLM fill every step.
    """

    name: ClassVar[str] = 'vllm'
    default_chunk: ClassVar[int] = 2048

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
    def kv_tokens(self) -> int:
        """The bound on KV, rounded down to blocks."""
        return self.max_kv_tokens // self.block_size * self.block_size

    def plugin(self) -> dict[str, Any]:
        """Return the options of our scheduler inside vLLM, see ``PluginOptions``."""
        return {
            'mode': self.mode,
            'policy': self.policy,
            'max_running': self.max_running,
            'micro_batches': self.micro_batches,
            'stop_strings': self.core_options().stop_strings,
            'scheduling': asdict(self.scheduling),
        }
