"""Turns plans into what the response-length predictor's training takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.prediction.lengths import compress_prompt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from timely_llm_ros.training.length_samples import LengthSample

PROMPT_TOKENS = 96
"""What prompts are shortened to."""


def rlp_samples(
    folder: Path, samples: Sequence[LengthSample], *, scene: bool = False
) -> tuple[list[list[int]], list[int]]:
    """Return shortened prompts as token ids of the model in ``folder``, and lengths."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / 'tokenizer.json'))

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    prompts = [
        compress_prompt(sample.prompt.fixed, sample.prompt.body, encode, PROMPT_TOKENS, scene=scene)
        for sample in samples
    ]
    return prompts, [sample.length for sample in samples]


def target_embedding(folder: Path) -> tuple[int, NDArray[np.float32]]:
    """Return a model's vocabulary size and its embedding, ``[vocabulary, width]``.

    Raises:
        ModelLoadError: Its files have none.
    """
    from safetensors import safe_open

    for path in sorted(folder.glob('*.safetensors')):
        with safe_open(str(path), framework='pt') as tensors:
            for name in tensors.keys():  # noqa: SIM118
                if name.endswith(('embed_tokens.weight', 'wte.weight')):
                    table = tensors.get_tensor(name).float().numpy()
                    return len(table), table
    raise ModelLoadError(f'model {str(folder)!r}: expected a tensor *.embed_tokens.weight')
