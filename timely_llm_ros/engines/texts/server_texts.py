"""The tokenizer of a model that runs elsewhere, without torch and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from timely_llm_ros.engines.texts.loading import find_end_ids
from timely_llm_ros.engines.texts.token_codec import TokenCodec
from timely_llm_ros.engines.tokens import find_model, require_model_files
from timely_llm_ros.errors import ModelLoadError


class ServerTexts(TokenCodec):
    """The tokenizer of a model folder; the servers must have the same one.

    Args:
        model: A folder with ``tokenizer.json`` and ``config.json``, or a shipped model's name.

    Raises:
        ModelLoadError: The folder has no such files, or they cannot be read.
    """

    def __init__(self, model: str) -> None:
        self.path = find_model(model)
        require_model_files(self.path)
        import llguidance
        import tokenizers

        try:
            text = (Path(self.path) / 'tokenizer.json').read_text(encoding='utf-8')
            encoder: Any = tokenizers.Tokenizer.from_str(text)
            end_ids = find_end_ids(self.path)
            decoder: Any = llguidance.LLTokenizer(text, eos_token=sorted(end_ids))
        except ModelLoadError:
            raise
        except Exception as err:
            raise ModelLoadError(f'model {self.path!r}: {err}') from err
        super().__init__(encoder, decoder, decoder.vocab_size, end_ids)
