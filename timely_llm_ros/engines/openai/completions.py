"""What a server of completions is to us, wherever it runs: token ids in, a stream of tokens out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from timely_llm_ros.engines.texts import ServerTexts

GRAMMAR_HEADER = '%llguidance {"no_forcing": true}\n'
"""Without it llguidance would allow only the usual tokens where a text is certain, and what is
usual depends on where a request begins."""

PROBE_TEXT = 'robot: tello\ngoto(target) fly there\nscene:\nred cup_1 +1.2 -0.4\ntask: 3 ä"{};\n'
"""What a server must tokenise as we do: words, digits, signs, line ends, more than ASCII."""

PROBE_PLAN = 'land;'
"""What a server must write where the grammar leaves nothing else."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What a server serves.

    Attributes:
        name: The model's name there.
        context_limit: Most tokens that one context may have.
    """

    name: str
    context_limit: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a completion.

    Attributes:
        token_ids: The new tokens.
        finish: Why it ends here, ``stop`` or ``length``; empty where it goes on.
    """

    token_ids: tuple[int, ...]
    finish: str = ''


class Completions(Protocol):
    """One server. A request's body has the names of vLLM's API."""

    @property
    def url(self) -> str:
        """Where it is, for people."""
        ...

    async def check(self, texts: ServerTexts) -> ServedModel:
        """Check that it serves what it should; return what it serves.

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

    def tokens(self, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """Yield a completion's tokens as they come. Leaving the iteration ends the request.

        Raises:
            ServerLostError: The server is gone, silent or in trouble, or the stream is cut.
            RequestRefusedError: The server will never serve this request.
        """
        ...

    async def close(self) -> None:
        """Leave it."""
        ...


class Patience(Protocol):
    """How long servers may take, and whether they are told what is urgent."""

    @property
    def start_limit_s(self) -> float:
        """How long the first server may take to be well (s)."""
        ...

    @property
    def health_period_s(self) -> float:
        """How often each is asked whether it is well (s)."""
        ...

    @property
    def give_up_s(self) -> float:
        """With no server for so long (s), every generation ends with an error."""
        ...

    @property
    def priority(self) -> bool:
        """Whether requests carry their due time."""
        ...


def grammar_probe(texts: ServerTexts) -> dict[str, Any]:
    """Return the body of a request whose grammar leaves only :data:`PROBE_PLAN`."""
    return {
        'prompt': texts.encode(PROBE_TEXT, beginning=True),
        'max_tokens': 16,
        'temperature': 0,
        'structured_outputs': {
            'grammar': f'{GRAMMAR_HEADER}start: {json.dumps(PROBE_PLAN)}\n',
        },
    }


def check_probe(url: str, token_ids: Sequence[int], texts: ServerTexts, help_text: str) -> None:
    """Check what a server wrote for :func:`grammar_probe`.

    Raises:
        ModelLoadError: It does not obey the grammar.
    """
    ids = [token for token in token_ids if token not in texts.end_ids]
    written = b''.join(map(texts.bytes_of, ids)).decode('utf-8', 'replace')
    if written != PROBE_PLAN:
        raise ModelLoadError(
            f'{url}: wrote {written!r} where the grammar allows only {PROBE_PLAN!r}; {help_text}'
        )
