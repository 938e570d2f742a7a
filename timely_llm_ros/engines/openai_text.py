"""Text to token ids and back for models that run elsewhere: without torch and transformers."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import llguidance
import tokenizers

from timely_llm_ros.engines.model_files import find_model
from timely_llm_ros.errors import ModelLoadError


class ServerTexts:
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
        for name in ('tokenizer.json', 'config.json'):
            if not (Path(self.path) / name).is_file():
                raise ModelLoadError(
                    f'model {self.path!r}: no {name} there; expected a local folder with '
                    "tokenizer.json and config.json of the servers' model"
                )
        try:
            text = (Path(self.path) / 'tokenizer.json').read_text(encoding='utf-8')
            self._encoder: Any = tokenizers.Tokenizer.from_str(text)
            self.end_ids = self._read_end_ids()
            self._decoder: Any = llguidance.LLTokenizer(text, eos_token=sorted(self.end_ids))
        except ModelLoadError:
            raise
        except Exception as err:
            raise ModelLoadError(f'model {self.path!r}: {err}') from err
        self._encoder.no_padding()
        self._encoder.no_truncation()
        self._encoder.encode_special_tokens = True
        self.size: int = self._decoder.vocab_size
        """Token ids are smaller than this."""
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str, *, beginning: bool = False) -> list[int]:
        """Return the ids of ``text``; only a ``beginning`` gets the tokenizer's special tokens."""
        ids: list[int] = self._encoder.encode(text, add_special_tokens=beginning).ids
        while beginning and ids and ids[-1] in self.end_ids:
            ids.pop()
        return ids

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token stands for."""
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = bytes(self._decoder.decode_bytes([token]))
        return known

    @functools.cached_property
    def statement_ends(self) -> tuple[int, ...]:
        """Every token with a ``;``, at which a statement may end."""
        return tuple(token for token in range(self.size) if b';' in self.bytes_of(token))

    def _read_end_ids(self) -> frozenset[int]:
        """Return the tokens that end a text, from the generation settings and the config."""
        found: set[int] = set()
        for name in ('generation_config.json', 'config.json'):
            file = Path(self.path) / name
            if file.is_file():
                value = json.loads(file.read_text(encoding='utf-8')).get('eos_token_id')
                found.update([value] if isinstance(value, int) else value or ())
        if not found:
            raise ModelLoadError(
                f'model {self.path!r}: no eos_token_id; expected a token that ends a plan'
            )
        return frozenset(found)
