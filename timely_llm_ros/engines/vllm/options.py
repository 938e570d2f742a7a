"""What both vLLM engines are told: the one with our scheduler inside and the one without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from timely_llm_ros.engines.tokens import SHIPPED_MODEL
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode, find_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.engines.engine import GenerationRequest

DTYPES = ('auto', 'float32', 'bfloat16', 'float16')


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Options of vLLM.

    Attributes:
        model_path: A folder, or the name of a shipped model.
        mode: The serving mode.
        policy: Name of the policy.
        max_running: Most generations in one step.
        max_suspended: Most generations that keep their KV without running; more are spilled. Not
            used without our scheduler, because there a suspended generation takes no place.
        max_kv_tokens: The bound on KV.
        block_size: Tokens of a KV block; a multiple of 32 on a CPU.
        prefill_chunk: Most tokens computed in one step.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        threads: CPU threads of a step.
        sampling: Returns a request's keyword arguments of vLLM's ``SamplingParams``, for example
            temperature and seed; greedy without. Without our scheduler a seed holds for a segment,
            not for a whole plan.
        scheduling: Further options of the scheduler.
        vllm: Further keyword arguments of vLLM's ``AsyncEngineArgs``, for example
            ``tensor_parallel_size``.
        measure: Time vLLM at start, which takes some seconds; it is ``EngineInfo.times``.
        micro_batches: Between how many steps tokens are shared where the model is a pipeline of
            stages: 0 for as many as there are stages, 1 to let vLLM fill every step. Not used
            without our scheduler.

    Raises:
        ConfigurationError: An option is out of range.
    """

    model_path: str = SHIPPED_MODEL
    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    max_running: int = 8
    max_suspended: int = 248
    max_kv_tokens: int = 32768
    block_size: int = 32
    prefill_chunk: int = 2048
    dtype: str = 'float32'
    threads: int = 1
    sampling: Callable[[GenerationRequest], Mapping[str, Any]] | None = None
    scheduling: SchedulingOptions | None = None
    vllm: Mapping[str, Any] | None = None
    measure: bool = False
    micro_batches: int = 0

    def __post_init__(self) -> None:
        find_policy(self.policy)
        if self.mode not in get_args(ServingMode):
            raise ConfigurationError(f'mode {self.mode!r}: expected one of {get_args(ServingMode)}')
        if self.dtype not in DTYPES:
            raise ConfigurationError(f'dtype {self.dtype!r}: expected one of {DTYPES}')
        for name, least in (
            ('max_running', 1),
            ('max_suspended', 0),
            ('block_size', 1),
            ('max_kv_tokens', 2 * self.block_size),
            ('prefill_chunk', self.max_running + 1),
            ('threads', 1),
            ('micro_batches', 0),
        ):
            value = getattr(self, name)
            if value < least:
                raise ConfigurationError(f'{name} {value!r}: expected at least {least}')

    @property
    def kv_tokens(self) -> int:
        """The bound on KV, rounded down to blocks."""
        return self.max_kv_tokens // self.block_size * self.block_size

    @property
    def more(self) -> dict[str, Any]:
        """Further keyword arguments of vLLM's ``AsyncEngineArgs``."""
        return dict(self.vllm or {})

    def context_limit(self, longest: int) -> int:
        """Return the most tokens of a context for a model that can have so many."""
        return min(self.kv_tokens - self.block_size, longest)

    def plugin(self) -> dict[str, Any]:
        """Return what our scheduler inside vLLM is told."""
        scheduling = self.scheduling or SchedulingOptions()
        return {
            'mode': self.mode,
            'policy': self.policy,
            'max_running': self.max_running,
            'micro_batches': self.micro_batches,
            'scheduling': {name: getattr(scheduling, name) for name in scheduling.__slots__},
        }

    def arguments(self, model: str, *, slots: int, context_limit: int) -> dict[str, Any]:
        """Return vLLM's engine arguments, but for what decides who schedules and :attr:`more`.

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
            chunk=self.prefill_chunk,
            slots=slots,
            context_limit=context_limit,
        )
