"""The token ids of generations, and the requests to servers that are made of them.

A request holds the prompt and everything generated so far, so any server can go on with it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from timely_llm_ros.engines.core import ForeignMemory, Output
from timely_llm_ros.engines.texts import NO_FORCING, PlanKeepers, PromptTokens, TextStream
from timely_llm_ros.engines.tokens import MAX_SEED
from timely_llm_ros.skills.grammar import RemainingGrammar, decoding_grammar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts import PlanKeeper, TokenCodec
    from timely_llm_ros.engines.tokens import Sampling


@dataclass(slots=True)
class Sequence:
    """One generation: ``ids`` is its whole context, of which servers ``generated`` a part.

    ``grammar`` holds since the last observation; ``rest`` is what is left of it after all text but
    ``new_text``. ``choice`` is the part of a request that says how tokens are chosen. ``closes``
    where the plan is to be ended here, because what the server chose left it no way to end.
    """

    ids: list[int]
    max_tokens: int
    stops: tuple[int, ...]
    choice: Mapping[str, Any]
    grammar: str = ''
    rest: RemainingGrammar | None = None
    new_text: str = ''
    generated: list[int] = field(default_factory=list)
    text: TextStream = field(default_factory=TextStream)
    keeper: PlanKeeper | None = None
    closes: bool = False


class ServerSequences(ForeignMemory):
    """The generations of all servers, as their cores' backend and as requests.

    Args:
        texts: The tokenizer.
        sampling: How tokens are chosen.
        observations: Whether blocking calls wait for their value.
        adapters: Skill sets whose requests name them as their ``model``.
    """

    counts_tokens: ClassVar[bool] = True
    """Whether tokens are counted here as a server counts them."""

    def __init__(
        self,
        texts: TokenCodec,
        sampling: Sampling,
        *,
        observations: bool = True,
        adapters: Collection[str] = (),
    ) -> None:
        self._texts, self._sampling, self._observations = texts, sampling, observations
        self._adapters = adapters
        self._prompts, self._keepers = PromptTokens(texts), PlanKeepers(texts)
        self.context_limit = 1 << 30
        """Most tokens that one context may have on each server."""
        self._sequences: dict[str, Sequence] = {}

    @functools.cached_property
    def _statement_ends(self) -> tuple[int, ...]:
        """Every token with a ``;``, at which a statement may end."""
        return self._texts.tokens_with(b';')

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        """Tokenise the prompt and prepare the grammar.

        Raises:
            EngineError: The request cannot be served.
        """
        fixed, body = self._prompts.of(request)
        robot = request.skill_set.free_text is None
        sequence = Sequence(
            [*fixed, *body],
            request.max_tokens,
            self._statement_ends if robot else (),
            self._choice(request),
        )
        if request.constrained:
            sequence.grammar = decoding_grammar(
                request.skill_set,
                request.scene,
                observations=self._observations,
                stops_at_blocking=self._observations,
            )
            sequence.rest = RemainingGrammar(sequence.grammar)
            whole = decoding_grammar(
                request.skill_set, request.scene, observations=self._observations
            )
            room = self.context_limit - len(sequence.ids)
            whole_plan = not self._observations
            sequence.keeper = self._keepers.of(request, whole, whole_plan=whole_plan, room=room)
        self._sequences[request.generation_id] = sequence
        return request.prompt.key, len(fixed), len(body)

    def _choice(self, request: GenerationRequest) -> dict[str, Any]:
        """Return what says how a generation's tokens are chosen, and by which adapter."""
        name = request.skill_set.name
        return self._sampling(request) | ({'model': name} if name in self._adapters else {})

    def observe(self, generation_id: str, text: str) -> int:
        """Append an observation; the grammar begins anew behind it."""
        sequence = self._sequences[generation_id]
        ids = self._texts.encode(text)
        sequence.ids += ids
        if sequence.keeper is not None:
            sequence.keeper.take(ids, observed=True)
        if sequence.rest is not None:
            sequence.rest, sequence.new_text = RemainingGrammar(sequence.grammar), ''
        return len(ids)

    def close(self, generation_id: str) -> tuple[int, ...]:
        """Forget a generation and return its tokens."""
        return tuple(self._sequences.pop(generation_id).generated)

    def length(self, generation_id: str) -> int:
        """Return how many tokens a generation's context has."""
        return len(self._sequences[generation_id].ids)

    def take(self, generation_id: str, token: int) -> Output:
        """Append a token that a server chose."""
        if token in self._texts.end_ids:
            return Output('', ended=True)
        sequence = self._sequences[generation_id]
        sequence.ids.append(token)
        sequence.generated.append(token)
        if sequence.keeper is not None:
            sequence.keeper.take((token,))
        text = sequence.text.push(self._texts.bytes_of(token))
        sequence.new_text += text
        return Output(text)

    def accepts(self, generation_id: str, token: int) -> bool:
        """Whether a constrained plan can still end after a token that a server chose.

        Where it cannot, the rest is :meth:`closing` and no more of a server's tokens is accepted.
        """
        sequence = self._sequences[generation_id]
        if sequence.keeper is not None and not sequence.keeper.allows(token):
            sequence.closes = True
        return not sequence.closes

    def closing(self, generation_id: str) -> tuple[int, ...] | None:
        """Return the tokens that end a plan which is ended here; None where it goes on."""
        sequence = self._sequences[generation_id]
        if not sequence.closes or sequence.keeper is None:
            return None
        return (*sequence.keeper.ending(), min(self._texts.end_ids))

    def end_here(self, generation_id: str) -> bool:
        """Have a constrained plan ended where it is; return whether it can be."""
        sequence = self._sequences[generation_id]
        sequence.closes = sequence.keeper is not None
        return sequence.closes

    def body(self, generation_id: str, *, stop_at_statement: bool) -> dict[str, Any]:
        """Return the request that goes on with a generation.

        Args:
            generation_id: Whose.
            stop_at_statement: Whether the server is to end it where a statement may end.

        Raises:
            EngineError: The text so far is not within the grammar.
        """
        sequence = self._sequences[generation_id]
        body: dict[str, Any] = {
            **sequence.choice,
            'prompt': sequence.ids,
            'max_tokens': max(1, sequence.max_tokens - len(sequence.generated)),
        }
        if 'seed' in body:
            # A server draws anew for each request, so each request has another seed.
            body['seed'] = (body['seed'] + len(sequence.generated)) % (MAX_SEED + 1)
        stops = [*sorted(self._texts.end_ids)]
        if stop_at_statement:
            stops += sequence.stops
        body['stop_token_ids'] = stops
        if sequence.rest is not None:
            if sequence.text.incomplete:
                # A grammar is about whole characters, so the rest of this one comes without it.
                body['max_tokens'] = 1
            else:
                sequence.rest.take(sequence.new_text)
                sequence.new_text = ''
                body['structured_outputs'] = {'grammar': NO_FORCING + sequence.rest.text()}
        return body
