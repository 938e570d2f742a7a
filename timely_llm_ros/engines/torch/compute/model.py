"""Loads a causal language model from a folder and makes it run over the KV pool."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.texts import TokenTexts, load_texts
from timely_llm_ros.engines.tokens import find_adapter, own_stop_strings, require_model_files
from timely_llm_ros.engines.torch.compute.attention import AttentionStep, PagedAttention
from timely_llm_ros.engines.torch.compute.fused import FusedDecoder
from timely_llm_ros.engines.torch.compute.kv import KvPool
from timely_llm_ros.engines.torch.compute.merging import merge
from timely_llm_ros.engines.torch.compute.tap import LayerTap, hook
from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Sequence

DTYPES: dict[str, torch.dtype] = {
    'float32': torch.float32,
    'float16': torch.float16,
    'bfloat16': torch.bfloat16,
}
"""Number formats by name."""

_CHECK_TOKENS = 24
_CHECK_TOLERANCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1.5e-1}


@dataclass(slots=True)
class LoadedModel:
    """A model that is ready to generate; ``fused`` takes the place of ``model`` where it fits."""

    model: Any
    texts: TokenTexts
    pool: KvPool
    attention: PagedAttention
    device: torch.device
    context_limit: int
    info: EngineInfo
    fused: FusedDecoder | None = None
    tap: LayerTap | None = None
    layers: int = 0
    """How many decoder layers it has."""

    sliding: bool = False
    """Whether a layer sees only a window of positions. Then nothing may be evicted, because what is
    kept would seem nearer than it is."""

    stop_strings: tuple[str, ...] = ()
    """The model's own: its text ends before one of them."""

    def watch(self, layers: Sequence[int]) -> LayerTap:
        """Keep the hidden states of these layers from now on; see :class:`LayerTap`. Once.

        Raises:
            ConfigurationError: There is no such layer, or the model's cannot be watched.
        """
        tap = LayerTap(layers, self.layers)
        if self.fused is None:
            hook(self.model, tap)
        self.tap = tap
        return tap

    def forward(
        self,
        ids: list[int],
        positions: list[int],
        step: AttentionStep,
        wanted: list[int],
    ) -> torch.Tensor:
        """Run one step and return the logits of the ``wanted`` tokens, ``[wanted, vocabulary]``."""
        if self.fused is not None:
            whole = self.fused.begin(ids, positions, step, wanted, self.tap)
            whole.advance()
            return whole.logits
        self.attention.step = step
        inputs = torch.tensor([ids, positions], device=self.device)
        out = self.model(
            input_ids=inputs[:1],
            position_ids=inputs[1:],
            use_cache=False,
            logits_to_keep=torch.tensor(wanted, dtype=torch.long, device=self.device),
        )
        logits: torch.Tensor = out.logits[0]
        return logits


def load_model(
    path: str, *, max_kv_tokens: int, device: str = 'cpu', dtype: str = 'float32', threads: int = 1
) -> LoadedModel:
    """Load a model and its tokenizer, and check that it computes what transformers would.

    The folder has ``config.json``, ``*.safetensors`` and ``tokenizer.json``. Where the weights are
    an adapter's, they are added to its base model's. ``threads`` are those of a step on the CPU.

    Raises:
        ModelLoadError: It cannot be loaded or does not use standard attention.
    """
    require_model_files(path)
    adapter = find_adapter(path)
    if dtype not in DTYPES:
        raise ModelLoadError(f'dtype {dtype!r}: expected one of {sorted(DTYPES)}')
    os.environ.setdefault('HF_HUB_OFFLINE', '1')
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        place = torch.device(device)
        pool = KvPool(max_kv_tokens, place)
        attention = PagedAttention(pool)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            path if adapter is None else adapter.base,
            dtype=DTYPES[dtype],
            attn_implementation='eager',
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
        if adapter is not None:
            model = merge(adapter, model)
        model.eval().to(place)
    except ModelLoadError:
        raise
    except Exception as err:
        # Whatever transformers raises for a broken folder, the folder is what is wrong.
        raise ModelLoadError(
            f'model {path!r}: {type(err).__name__}: {err}; expected a causal language model of '
            'transformers with its tokenizer'
        ) from err
    vocabulary = model.get_output_embeddings().weight.shape[0]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    texts = load_texts(path, vocabulary)
    loaded = LoadedModel(
        model,
        texts,
        pool,
        attention,
        place,
        int(getattr(model.config, 'max_position_embeddings', None) or 1 << 30),
        EngineInfo('torch', path, parameters, dtype, vocabulary, max_kv_tokens, 0.0),
        layers=int(getattr(model.config, 'num_hidden_layers', 0)),
        sliding=bool(getattr(model.config, 'sliding_window', None)),
        stop_strings=own_stop_strings(path),
    )
    _prepare(loaded, path, DTYPES[dtype])
    return loaded


def _prepare(loaded: LoadedModel, path: str, dtype: torch.dtype) -> None:
    """Let the model attend over the pool, in the fused form where there is one, and check it.

    Raises:
        ModelLoadError: Its logits are not those of its own attention.
    """
    model = loaded.model
    rng = np.random.default_rng(0)
    contexts = [
        rng.integers(loaded.texts.size, size=size).tolist()
        for size in (_CHECK_TOKENS // 2, _CHECK_TOKENS)
    ]
    try:
        with torch.inference_mode():
            expected = [
                model(torch.tensor([ids], device=loaded.device), use_cache=False).logits[0, -4:]
                for ids in contexts
            ]
            model.set_attn_implementation(loaded.attention.name)
            error = _error(loaded, contexts, expected)
            if error <= _CHECK_TOLERANCE[dtype] and FusedDecoder.fits(model):
                loaded.fused = FusedDecoder(model, loaded.attention)
                if _error(loaded, contexts, expected) <= _CHECK_TOLERANCE[dtype]:
                    loaded.model = None  # The fused form has what it needs of the weights.
                else:
                    loaded.fused = None
        problem = f'logits differ by {error:.3g} from those of its own attention'
        fine = error <= _CHECK_TOLERANCE[dtype]
    except Exception as err:  # noqa: BLE001 -- a model's own code may raise anything
        fine, problem = False, f'{type(err).__name__}: {err}'
    if not fine:
        raise ModelLoadError(
            f'model {path!r} ({type(model).__name__}): {problem}; expected standard attention, '
            'as in the Llama, Qwen, Mistral and Phi families'
        )


def _error(loaded: LoadedModel, contexts: list[list[int]], expected: list[torch.Tensor]) -> float:
    """Return the largest error of the last four tokens' logits, relative to the largest logit.

    All tokens before these four are computed in one step, the four one by one.
    """
    slots = [loaded.pool.allocate(len(ids)) for ids in contexts]
    ready = [len(ids) - 4 for ids in contexts]
    loaded.forward(
        [token for ids, n in zip(contexts, ready, strict=True) for token in ids[:n]],
        [position for n in ready for position in range(n)],
        AttentionStep.build(
            [(n, own[:n]) for own, n in zip(slots, ready, strict=True)], loaded.device
        ),
        [0],
    )
    got = [
        loaded.forward(
            [ids[n + k] for ids, n in zip(contexts, ready, strict=True)],
            [n + k for n in ready],
            AttentionStep.build(
                [(1, own[: n + k + 1]) for own, n in zip(slots, ready, strict=True)], loaded.device
            ),
            list(range(len(contexts))),
        )
        for k in range(4)
    ]
    for own in slots:
        loaded.pool.free(own)
    ours, theirs = torch.stack(got, 1).float(), torch.stack(expected).float()
    return float((ours - theirs).abs().max()) / max(1.0, float(theirs.abs().max()))
