"""The options that engines have in common; each engine adds its own in its room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, get_args

from timely_llm_ros.engines.core import PREFILL_CHUNK, CoreOptions, EvictionName
from timely_llm_ros.engines.tokens import (
    Sampling,
    check_stop_strings,
    find_model,
    own_stop_strings,
)
from timely_llm_ros.options import check_options, group, option
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode, policy_names


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The options of every engine.

    KV beyond ``max_kv_tokens`` is dropped and computed again later. Engine ``openai`` takes
    ``max_running`` and ``max_kv_tokens`` for each of its servers, which have prefill chunks of
    their own.

    Attributes:
        name: The engine's name; no option.
        default_chunk: What ``prefill_chunk`` 0 stands for; no option.

    Raises:
        ConfigurationError: An option is out of range.
    """

    name: ClassVar[str]
    default_chunk: ClassVar[int] = PREFILL_CHUNK

    mode: ServingMode = option(
        'segmented',
        'How plans are served: segment by segment with suspension, as a stream without, or whole.',
        choices=get_args(ServingMode),
    )
    policy: str = option('least_loss', 'What ranks generations.', choices=policy_names(), live=True)
    max_running: int = option(8, 'Most generations in one engine step.', minimum=1, maximum=1024)
    max_kv_tokens: int = option(
        32768, 'Most tokens whose KV is held.', minimum=256, maximum=2**31 - 1
    )
    prefill_chunk: int = option(
        0,
        'Most prompt tokens in one engine step, with vllm all tokens of a step; 0 for 128, with '
        'vllm or on a GPU 2048. Fewer let urgent tasks begin sooner, more take less time in all.',
        minimum=0,
        maximum=65536,
    )
    scheduling: SchedulingOptions = group(SchedulingOptions())

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def chunk(self) -> int:
        """Most prompt tokens computed in one step."""
        return self.prefill_chunk or self.default_chunk

    def core_options(self, *, context_limit: int = 1 << 30) -> CoreOptions:
        """Return the options of the engine's core; the limits are in tokens."""
        return CoreOptions(
            mode=self.mode,
            policy=self.policy,
            max_running=self.max_running,
            max_kv_tokens=self.max_kv_tokens,
            context_limit=context_limit,
            prefill_chunk=self.chunk,
            scheduling=self.scheduling,
        )


@dataclass(frozen=True, kw_only=True)
class ModelConfig(EngineConfig):
    """The options of engines that have a model.

    ``model_path`` may also be the name of a shipped model; engine ``openai`` needs only the
    tokenizer there. ``timely-llm train-rlp`` and ``train-probe`` make ``predictors``. On engine
    ``openai``, and on ``vllm`` without our scheduler, a seed of ``sampling`` holds for a segment
    and not for a whole plan.

    Attributes:
        measure: Whether to time the engine at start, which takes some seconds; the result is
            ``EngineInfo.times``.
    """

    model_path: str = option(
        '', 'Folder of the model in Hugging Face format, or of an adapter; "" for the shipped one.'
    )
    predictors: str = option(
        'auto',
        'Folder of the predictors of plan lengths, for engine torch; "auto" for those that came '
        'with the model under policy srpt, "off" for none.',
    )
    sampling: Sampling = group(Sampling())
    stop_strings: tuple[str, ...] = option(
        (),
        "Where one of these comes in what the model writes, its text ends before it; the model's "
        'own ones count as well (stop_strings of its generation_config.json). None may hold ";".',
    )
    measure: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stop_strings(self.stop_strings)

    def core_options(self, *, context_limit: int = 1 << 30) -> CoreOptions:
        """Return the options of the engine's core, with the model's own stop strings.

        Raises:
            ModelLoadError: The model's file cannot be used.
        """
        options = super().core_options(context_limit=context_limit)
        own = own_stop_strings(find_model(self.model_path))
        return replace(options, stop_strings=tuple(dict.fromkeys((*self.stop_strings, *own))))


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """The options of engines that compute a model on this machine."""

    dtype: str = option(
        'float32', "The model's number format.", choices=('float32', 'bfloat16', 'float16')
    )
    threads: int = option(1, 'Threads that torch computes with.', minimum=1, maximum=256)


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """The options of engines whose steps are ours. Models with a sliding window never evict."""

    min_step_s: float = option(
        0.0,
        'Least duration of an engine step (s): paces a small model to the step time of a larger '
        'one.',
        minimum=0.0,
        maximum=10.0,
    )
    eviction: EvictionName | None = option(
        'snapkv',
        "What chooses which of a prompt's tokens keep their KV when a time budget asks for "
        'eviction; "" for no eviction: prompts are trimmed and plans cut off instead.',
        choices=('', *get_args(EvictionName)),
        off='',
    )
