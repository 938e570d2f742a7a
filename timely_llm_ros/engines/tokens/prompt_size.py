"""How many tokens a prompt has, without asking the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.tokens.special_tokens import read_as_text

if TYPE_CHECKING:
    from timely_llm_ros.engines.engine import EngineInfo
    from timely_llm_ros.skills import Prompt

CHARACTERS_PER_TOKEN = 4
"""Assumed where there is no tokenizer, as the simulated engine does."""


class PromptSize:
    """Counts a prompt's tokens as an engine does; on any thread.

    It counts with the ``tokenizer.json`` of the engine's model, or else four characters as a token.
    """

    def __init__(self, info: EngineInfo) -> None:
        self._tokenizer: Any = None
        self._fixed: dict[str, int] = {}
        path = Path(info.tokenizer or info.model) / 'tokenizer.json'
        if path.is_file():
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(path))
            self._tokenizer.no_truncation()
            read_as_text(self._tokenizer)

    def __call__(self, prompt: Prompt) -> int:
        """Return the tokens of fixed part and body together."""
        return self.fixed(prompt) + max(1, self._count(prompt.body_pieces, beginning=False))

    def fixed(self, prompt: Prompt) -> int:
        """Return the tokens of the fixed part."""
        fixed = self._fixed.get(prompt.key)
        if fixed is None:
            pieces = prompt.fixed_pieces or [('', False)]
            fixed = self._count(pieces, beginning=prompt.special is None)
            self._fixed[prompt.key] = fixed
        return fixed

    def _count(self, pieces: list[tuple[str, bool]], *, beginning: bool) -> int:
        if self._tokenizer is None:
            return -(-sum(len(text) for text, _ in pieces) // CHARACTERS_PER_TOKEN)
        return sum(
            1 if special else len(self._tokenizer.encode(text, add_special_tokens=beginning).ids)
            for text, special in pieces
        )
