"""Token ids to text for the generations in vLLM: what the engine core asks of its backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.core import Output
from timely_llm_ros.engines.texts import TextStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts import TokenTexts


class ContextTexts:
    """What generations have said; what a backend would free, vLLM frees.

    Args:
        texts: The tokenizer.
        append: Appends an observation's tokens to a generation's context in vLLM.

    Attributes:
        prompt_tokens: How many tokens the prompt has of the generation that is opened next.
    """

    def __init__(self, texts: TokenTexts, append: Callable[[str, list[int]], None]) -> None:
        self._texts = texts
        self._append = append
        self._streams: dict[str, tuple[TextStream, list[int]]] = {}
        self._decisive: dict[str, frozenset[int]] = {}
        self.prompt_tokens = 0

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        """Begin with a generation; vLLM shares prefixes itself, so none is named here."""
        self._streams[request.generation_id] = TextStream(), []
        return '', 0, self.prompt_tokens

    def decisive(self, marks: str | None) -> frozenset[int] | None:
        """Return the tokens that have one of the marks or end a text; None where any may decide."""
        if marks is None:
            return None
        known = self._decisive.get(marks)
        if known is None:
            texts, wanted = self._texts, set(marks.encode())
            found = {token for token in range(texts.size) if wanted & {*texts.bytes_of(token)}}
            known = self._decisive[marks] = texts.end_ids | found
        return known

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text."""
        return self._texts.end_ids

    def raw(self, token_ids: Iterable[int]) -> str:
        """Return what tokens say, as far as it can be read without those before."""
        return b''.join(map(self._texts.bytes_of, token_ids)).decode('utf-8', 'replace')

    def output(self, name: str, token: int) -> Output:
        """Return what a new token of a generation says."""
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

    @property
    def evicts(self) -> bool:
        """Whether parts of a prompt's KV can be given up; vLLM keeps all of it."""
        return False

    def evict(self, generation_id: str, tokens: int) -> None:
        """Is never called, since nothing evicts here."""

    def drop(self, generation_id: str) -> None:
        """Nothing is held here."""

    def drop_prefix(self, key: str) -> None:
        """Nothing is held here."""

    def close(self, generation_id: str) -> tuple[int, ...]:
        """Forget a generation and return its tokens."""
        return tuple(self._streams.pop(generation_id)[1])
