"""Generations on servers that have chats and nothing more: their text takes the place of token ids.

To go on with a plan the server is told what it has written so far, as a message of its own, and
asked to go on. Nothing constrains what it writes then; the segmenter checks it like any other text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.core import Output
from timely_llm_ros.engines.openai.sequences import ServerSequences
from timely_llm_ros.engines.texts import TokenCodec
from timely_llm_ros.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.openai.sequences import Sequence
    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.skills import Prompt

GO_ON = 'Go on exactly where you stopped. Write only what follows, nothing of it again.'

_KEPT = 1 << 16
"""Pieces of text whose numbers are told apart; each is read as soon as it has come."""

_NO_TEXT = 1
"""Number of a piece without text; the end's is 0."""

_CHARACTERS_PER_TOKEN = 4


class ChatTexts(TokenCodec):
    """A codec without a tokenizer: each piece of text is a token, whose number stands for it.

    A prompt's tokens are counted as four characters each, and mean nothing.
    """

    def __init__(self) -> None:
        self.end_ids, self.size = frozenset({0}), _KEPT
        self._texts = [''] * _KEPT
        self._next = _NO_TEXT + 1

    def fixed_ids(self, prompt: Prompt) -> list[int]:
        """Return as many numbers as the prompt's fixed part may have tokens."""
        return [0] * -(-len(prompt.fixed) // _CHARACTERS_PER_TOKEN)

    def body_ids(self, prompt: Prompt, *, beginning: bool) -> list[int]:  # noqa: ARG002
        """Return as many numbers as the prompt's body may have tokens."""
        return [0] * max(1, -(-len(prompt.body) // _CHARACTERS_PER_TOKEN))

    def encode(self, text: str, *, beginning: bool = False) -> list[int]:  # noqa: ARG002
        """Return the number of a text."""
        if not text:
            return []
        token, self._next = self._next, self._next + 1
        if self._next == _KEPT:
            self._next = _NO_TEXT + 1
        self._texts[token] = text
        return [token]

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of the text that a number stands for."""
        return self._texts[token].encode()

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text that numbers stand for."""
        return ''.join(self._texts[token] for token in tokens)


class ChatSequences(ServerSequences):
    """The generations of servers that have only chats, as their cores' backend and as requests."""

    counts_tokens = False

    def __init__(self, texts: ChatTexts, sampling: Sampling, *, observations: bool = True) -> None:
        super().__init__(texts, sampling, observations=observations)
        self._chats: dict[str, _Chat] = {}

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        """Keep the prompt's messages.

        Raises:
            EngineError: The request cannot be served.
        """
        sizes = super().open(request)
        said = [{'role': it.role, 'content': it.content} for it in request.prompt.messages]
        self._chats[request.generation_id] = _Chat(
            said or [{'role': 'user', 'content': request.prompt.text}]
        )
        return sizes

    def observe(self, generation_id: str, text: str) -> int:
        """Append an observation to what was written."""
        self._chats[generation_id].text += text
        return super().observe(generation_id, text)

    def close(self, generation_id: str) -> tuple[int, ...]:
        """Forget a generation. It has no token ids that mean anything."""
        super().close(generation_id)
        del self._chats[generation_id]
        return ()

    def accepts(self, generation_id: str, token: int) -> bool:
        """Whether a constrained plan can still end after a piece of text, see the base class.

        Text that the grammar does not allow is accepted, for whoever reads it to refuse it, and
        from then on nothing keeps the plan.
        """
        sequence, chat = self._sequences[generation_id], self._chats[generation_id]
        if sequence.keeper is None or sequence.rest is None or token in self._texts.end_ids:
            return True
        shortest = chat.shortest(self._texts.decode((token,)))
        try:
            sequence.rest.take(shortest)
        except EngineError:
            sequence.keeper = None
            return True
        return super().accepts(generation_id, self._number(shortest))

    def take(self, generation_id: str, token: int) -> Output:
        """Append a piece of text."""
        if token in self._texts.end_ids:
            return Output('', ended=True)
        sequence, chat = self._sequences[generation_id], self._chats[generation_id]
        text = self._texts.decode((token,))
        if sequence.keeper is not None:
            shortest = chat.shortest(text)
            sequence.keeper.take((self._number(shortest),))
        chat.add(text)
        sequence.ids.append(token)
        sequence.generated.append(token)
        return Output(text)

    def _number(self, text: str) -> int:
        return next(iter(self._texts.encode(text)), _NO_TEXT)

    def body(self, generation_id: str, *, stop_at_statement: bool) -> dict[str, Any]:  # noqa: ARG002
        """Return the request that begins or goes on with a generation."""
        sequence: Sequence = self._sequences[generation_id]
        chat = self._chats[generation_id]
        messages = list(chat.messages)
        if chat.text:
            messages.append({'role': 'assistant', 'content': chat.text})
            messages.append({'role': 'user', 'content': GO_ON})
        left = max(1, sequence.max_tokens - len(sequence.generated))
        return {**sequence.choice, 'messages': messages, 'max_tokens': left}


class _Chat:
    """What a server is told of one generation, and what it has written."""

    def __init__(self, messages: list[dict[str, str]]) -> None:
        self.messages = messages
        self.text = ''
        self._quoted = False

    def add(self, text: str) -> None:
        """Append text."""
        self.text += text
        self._quoted ^= text.count('"') % 2 == 1

    def shortest(self, text: str) -> str:
        """Return further text without white space outside of quotes, as the grammar has it."""
        parts = text.split('"')
        first = int(self._quoted)
        return '"'.join(
            part if (number + first) % 2 else ''.join(part.split())
            for number, part in enumerate(parts)
        )
