"""The texts of the generations in vLLM, as the backend of the core inside its scheduler."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from timely_llm_ros.engines.core import ForeignMemory, Output
from timely_llm_ros.engines.texts import TextStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts import TokenCodec


class ContextTexts(ForeignMemory):
    """The texts of generations; vLLM has their KV and frees it.

    Args:
        texts: The tokenizer.
        append: Appends an observation's tokens to a generation's context in vLLM.

    Attributes:
        prompt_tokens: Tokens in the prompt of the generation that is opened next.
    """

    def __init__(self, texts: TokenCodec, append: Callable[[str, list[int]], None]) -> None:
        self._texts = texts
        self._append = append
        self._streams: dict[str, tuple[TextStream, list[int]]] = {}
        self._decisive: dict[str, frozenset[int]] = {}
        self.prompt_tokens = 0

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        """Begin with a generation; vLLM shares prefixes itself, so none is named."""
        self._streams[request.generation_id] = TextStream(), []
        return '', 0, self.prompt_tokens

    def decisive(self, marks: str | None) -> frozenset[int] | None:
        """Return the tokens that have one of the marks or end a text; None where any may decide."""
        if marks is None:
            return None
        known = self._decisive.get(marks)
        if known is None:
            found = (self._texts.tokens_with(bytes([mark])) for mark in marks.encode())
            known = self._decisive[marks] = self.ends.union(*found)
        return known

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text."""
        return self._texts.end_ids

    def decode(self, token_ids: Iterable[int]) -> str:
        """Return the text of tokens, as far as it can be read without those before."""
        return self._texts.decode(token_ids)

    def output(self, name: str, token: int) -> Output:
        """Return the text of a generation's new token."""
        if token in self._texts.end_ids:
            return Output('', ended=True)
        stream, generated = self._streams[name]
        generated.append(token)
        return Output(stream.push(self._texts.bytes_of(token)))

    def observe(self, generation_id: str, text: str) -> int:
        """Append an observation and return how many tokens it has."""
        ids = self._texts.encode(text)
        self._append(generation_id, ids)
        return len(ids)

    def fork(self, generation_id: str, branch_id: str, observation: str) -> list[int]:
        """Begin a branch of a generation behind an observation; return the observation's tokens."""
        self._streams[branch_id] = copy.deepcopy(self._streams[generation_id][0]), []
        return self._texts.encode(observation)

    def close(self, generation_id: str) -> tuple[int, ...]:
        """Forget a generation and return its tokens."""
        return tuple(self._streams.pop(generation_id)[1])
