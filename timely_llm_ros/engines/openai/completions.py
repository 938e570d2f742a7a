"""A server of completions, wherever it runs: token ids in, a stream of tokens out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from timely_llm_ros.engines.texts import NO_FORCING
from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from timely_llm_ros.engines.texts import ServerTexts

PROBE_TEXT = 'robot: tello\ngoto(target) fly there\nscene:\nred cup_1 +1.2 -0.4\ntask: 3 ä"{};\n'
"""A server must tokenise it as we do: words, digits, signs, line ends, more than ASCII."""

PROBE_PLAN = 'land;'
"""A server must write it where the grammar leaves nothing else."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model by its name on a server, and the most tokens that one context may have there."""

    name: str
    context_limit: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a completion.

    Attributes:
        token_ids: The new tokens.
        finish: Why the completion ends here, ``stop`` or ``length``; empty where it goes on.
    """

    token_ids: tuple[int, ...]
    finish: str = ''


class Completions(Protocol):
    """One server. Requests are in the names of vLLM's API."""

    @property
    def url(self) -> str:
        """Where it is, for people."""
        ...

    async def check(self, texts: ServerTexts) -> ServedModel:
        """Check that it serves what it should, and return what it serves.

        Raises:
            ServerLostError: It does not answer, or not yet.
            ModelLoadError: It can never serve as it is.
        """
        ...

    async def check_health(self) -> None:
        """Ask whether it is well.

        Raises:
            ServerLostError: It is not, or does not answer.
        """
        ...

    def tokens(self, body: dict[str, Any], *, session: str = '') -> AsyncGenerator[Chunk, None]:
        """Yield a completion's tokens as they come. Leaving the iteration ends the request.

        Requests of one ``session`` go on from one another's tokens. What spreads requests over
        several machines should send them to the same one.

        Raises:
            ServerBusyError: The server is well but does not take this request now.
            ServerLostError: The server is gone, silent or in trouble, or the stream is cut.
            RequestRefusedError: The server will never serve this request.
        """
        ...

    async def close(self) -> None:
        """Close its connections, or end it where it is ours."""
        ...


def grammar_probe(texts: ServerTexts) -> dict[str, Any]:
    """Return the request whose grammar leaves only :data:`PROBE_PLAN`."""
    return {
        'prompt': texts.encode(PROBE_TEXT, beginning=True),
        'max_tokens': 16,
        'temperature': 0,
        'structured_outputs': {
            'grammar': f'{NO_FORCING}start: {json.dumps(PROBE_PLAN)}\n',
        },
    }


def check_probe(url: str, token_ids: Sequence[int], texts: ServerTexts, help_text: str) -> None:
    """Check what a server wrote for :func:`grammar_probe`.

    Raises:
        ModelLoadError: It does not obey the grammar.
    """
    written = texts.decode(token for token in token_ids if token not in texts.end_ids)
    if written != PROBE_PLAN:
        raise ModelLoadError(
            f'{url}: wrote {written!r} where the grammar allows only {PROBE_PLAN!r}; {help_text}'
        )
