"""One step's plan: which tokens of which generations the model computes, and what comes of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from timely_llm_ros.engines.tokens import StopText

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core.kv_ledger import Context, Prefix
    from timely_llm_ros.skills import TextSegmenter


class Backend(Protocol):
    """What the core needs of a model: texts to tokens, and memory to be freed."""

    @property
    def evicts(self) -> bool:
        """Whether it can evict; else requests' rules are not asked."""
        ...

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        """Prepare a generation.

        Returns:
            The key of the shared prefix, its length and the length of the rest, in tokens.

        Raises:
            EngineError: The request cannot be served.
        """
        ...

    def observe(self, generation_id: str, text: str) -> int:
        """Append an observation to the context and return its length in tokens.

        Raises:
            EngineError: It does not fit what the grammar allows.
        """
        ...

    def fast_forward(self, generation_id: str) -> Output | None:
        """Append the next token if the grammar allows no other; None where the model has a choice.

        The next step computes its KV, together with that of the latest token that was chosen.
        """
        ...

    def evict(self, generation_id: str, tokens: int) -> None:
        """Give up the KV of so many tokens of a generation's prompt, all of which is computed.

        What is kept becomes its own. After a :meth:`drop`, the same tokens are kept again.
        """
        ...

    def drop(self, generation_id: str) -> None:
        """Free the KV of a generation's own part; its token ids stay."""
        ...

    def drop_prefix(self, key: str) -> None:
        """Free a prefix's KV; its token ids stay while a generation uses it."""
        ...

    def close(self, generation_id: str) -> tuple[int, ...]:
        """Forget a generation and return the token ids that it generated."""
        ...


class LanedBackend(Backend, Protocol):
    """What two lanes on one model need of it beside that."""

    @property
    def pauses(self) -> bool:
        """Whether a step can be interrupted between two layers and go on from there."""
        ...

    def take_back(self, generation_id: str, tokens: int) -> None:
        """Free the KV of a generation's latest tokens, whose step was interrupted for good."""
        ...

    def warm(self, request: GenerationRequest) -> tuple[str, int, int, int]:
        """Prepare what a robot's prompts will begin with, in place of what it was before.

        Returns:
            What :meth:`Backend.open` returns, and how many tokens of the rest keep their KV.

        Raises:
            EngineError: The scene cannot be served.
        """
        ...

    def common(self, giver: str, taker: str) -> int:
        """Return how many tokens of its own a generation could take over from another's KV."""
        ...

    def move(self, giver: str, taker: str) -> None:
        """Make all of a generation's own KV another's, which has none."""
        ...

    def fork(self, generation_id: str, branch_id: str, observation: str) -> int:
        """Begin a branch of a generation behind an observation, on top of the KV that this one has.

        Its tokens are those that the generation itself would bring, and nothing of it is computed.

        Returns:
            The length of the observation in tokens.

        Raises:
            EngineError: It does not fit what the grammar allows.
        """
        ...

    def join(self, generation_id: str, branch_id: str) -> None:
        """Make all that a branch has the generation's own, its KV included; the branch is over."""
        ...


@dataclass(frozen=True, slots=True)
class PrefixRow:
    """A prefix's part in a step: compute its next ``tokens``."""

    prefix: Prefix
    tokens: int


class Row(NamedTuple):
    """A generation's part in a step: compute its next ``tokens``.

    It ``samples`` where this reaches the context's end, so that a new token comes out. It
    ``decodes`` where they are no more than its latest step brought. Behind them so many tokens that
    are ``drafted`` are computed too.
    """

    generation: Generation
    tokens: int
    samples: bool
    decodes: bool = False
    drafted: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step computes; the prefixes first.

    ``running`` also has generations that wait for their share of the prefill chunk. Before it, the
    KV of so many tokens is ``copied`` to the host's memory or back.
    """

    prefixes: tuple[PrefixRow, ...]
    rows: tuple[Row, ...]
    running: tuple[Generation, ...]
    copied: int = 0

    @property
    def tokens(self) -> int:
        """Tokens computed."""
        own = sum(row.tokens + row.drafted for row in self.rows)
        return sum(row.tokens for row in self.prefixes) + own

    @property
    def background(self) -> bool:
        """Whether no robot waits for it."""
        first = self.running[0]
        return first.request.background or first.context.spare

    @property
    def decodes_only(self) -> bool:
        """Whether each row computes just what its latest step brought."""
        return not self.prefixes and all(row.decodes and row.samples for row in self.rows)


class Output(NamedTuple):
    """What a sampling row brought."""

    text: str
    """Text of the new token; empty where it is not complete yet."""
    ended: bool = False
    """Whether the plan ends, after ``text`` if there is any."""
    error: str = ''
    """Why the generation cannot go on; empty where it can."""
    drafted: bool = False
    """Whether the model chose the token in the step of the one before, behind a draft."""


class Brought(NamedTuple):
    """What one step brought a generation: after so long (s) a token, and those that must follow."""

    step_s: float
    outputs: list[Output]


@dataclass(slots=True, eq=False)
class Generation:
    """A generation on the engine, between submission and end.

    ``prompt_tokens`` are those of its own, without the prefix. ``evicted`` is how many tokens its
    rule gives up; None before it was asked. Its latest step ``brought`` so many tokens, of which
    the model chose the first; so many were ``forwarded``, without a step of their own, of its
    segment in the making ``segment_forwarded``. So many tokens were ``lent`` to it by a warm scene.
    The latest value that it waited for was ``observed``, as its context has it.
    """

    generation_id: str = field(init=False)
    request: GenerationRequest
    context: Context
    segmenter: TextSegmenter
    stop: StopText = field(default_factory=lambda: StopText(()))
    tokens: int = 0
    segments: int = 0
    segment_tokens: int = 0
    brought: int = 1
    forwarded: int = 0
    segment_forwarded: int = 0
    segment_s: float = 0.0
    cost_s: float = 0.0
    total_s: float = 0.0
    expected_s: float = 0.0
    awaits_value: bool = False
    observed: str = ''
    ended: bool = False
    evicted: int | None = 0
    lent: int = 0
    prompt_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.generation_id = self.request.generation_id
        self.prompt_tokens = self.context.tokens

    def branch(self, context: Context, segmenter: TextSegmenter) -> Generation:
        """Return this generation behind a value that may come, as one of that ``context``'s."""
        request = replace(self.request, generation_id=context.name, background=True)
        return Generation(request, context, segmenter, copy.copy(self.stop), self.tokens)

    @property
    def evicts(self) -> bool:
        """Whether something is to be evicted as soon as its prompt is computed."""
        return self.evicted != 0 and not self.context.evicted

    @property
    def lacks_kv(self) -> bool:
        """Whether its next step has more to compute than what the latest one brought."""
        return self.context.missing - self.context.hosted > self.brought

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV is held, the prefix included where it builds on it."""
        return self.context.attended if self.context.computed else 0
