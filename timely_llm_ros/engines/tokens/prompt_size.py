"""How many tokens a prompt has, without asking the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
            self._tokenizer.encode_special_tokens = True

    def __call__(self, prompt: Prompt) -> int:
        """Return the tokens of fixed part and body together."""
        fixed = self._fixed.get(prompt.fixed)
        if fixed is None:
            fixed = self._fixed[prompt.fixed] = self._count(prompt.fixed, beginning=True)
        return fixed + max(1, self._count(prompt.body, beginning=False))

    def _count(self, text: str, *, beginning: bool) -> int:
        if self._tokenizer is None:
            return -(-len(text) // CHARACTERS_PER_TOKEN)
        return len(self._tokenizer.encode(text, add_special_tokens=beginning).ids)
