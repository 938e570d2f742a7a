"""Text to token ids and back for models that run elsewhere: without torch and transformers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from timely_llm_ros.engines.texts.loading import find_end_ids
from timely_llm_ros.engines.texts.token_codec import TokenCodec
from timely_llm_ros.engines.tokens import find_model, require_model_files
from timely_llm_ros.errors import ModelLoadError


class ServerTexts(TokenCodec):
    """The tokenizer of a model folder, the same one that the servers must have.

    The text of a special token is text like any other, so that no instruction can end a prompt.

    Args:
        model: A folder with ``tokenizer.json`` and ``config.json``, or a shipped model's name; the
            weights are not needed.

    Raises:
        ModelLoadError: The folder is not like that.
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
        super().__init__(encoder, decoder, end_ids)
        self.size: int = decoder.vocab_size
        """Token ids are smaller than this."""

    @functools.cached_property
    def statement_ends(self) -> tuple[int, ...]:
        """Every token with a ``;``, at which a statement may end."""
        return tuple(token for token in range(self.size) if b';' in self.bytes_of(token))
