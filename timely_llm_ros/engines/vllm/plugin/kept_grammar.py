"""A grammar inside vLLM that also keeps a plan such that it can end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from timely_llm_ros.engines.texts import allow_all_or_none
from timely_llm_ros.engines.vllm.plugin.control import is_named
from timely_llm_ros.skills.grammar import decoding_grammar

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts import PlanKeeper, TokenTexts


class KeptGrammar(StructuredOutputGrammar):  # type: ignore[misc]
    """A grammar of vLLM's whose masks a keeper narrows."""

    def __init__(self, grammar: Any, keeper: PlanKeeper, texts: TokenTexts) -> None:
        self._grammar, self._keeper = grammar, keeper
        self._ends = texts.end_ids
        self._words = texts.mask_words

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens that the model chose."""
        chosen = [token for token in tokens if token not in self._ends]
        self._keeper.take(chosen)
        return not chosen or bool(self._grammar.accept_tokens(request_id, chosen))

    def observe(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens of a robot's answer."""
        self._keeper.take(tokens, observed=True)
        return bool(self._grammar.accept_tokens(request_id, tokens))

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the first tokens that the grammar allows."""
        allowed: list[int] = self._grammar.validate_tokens(tokens)
        return allowed

    def rollback(self, num_tokens: int) -> None:
        """Take tokens back, which only speculative decoding does."""
        self._grammar.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, idx: int) -> None:
        """Write one bit per token into a row of ``bitmask``."""
        self._grammar.fill_bitmask(bitmask, idx)
        mask = bitmask[idx, : self._words].numpy()
        # vLLM's grammars know only one of the tokens that end a text.
        allow_all_or_none(mask, self._ends)
        self._keeper.restrict(mask)

    def is_terminated(self) -> bool:
        """Whether the text has ended."""
        return bool(self._grammar.is_terminated())

    def reset(self) -> None:
        """Begin again."""
        self._grammar.reset()


def keep_plan(
    request: Any, generation: GenerationRequest, texts: TokenTexts, *, whole_plan: bool, room: int
) -> None:
    """Let a request's grammar, which is ready, keep its plan; one that failed stays as it is.

    A request that goes on with a plan, as servers get them, is about a part of it: nothing is kept.
    """
    if not is_named(request):
        return
    structured = request.structured_output_request
    grammar = structured.grammar
    if not isinstance(grammar, StructuredOutputGrammar) or isinstance(grammar, KeptGrammar):
        return
    rules = decoding_grammar(generation.skill_set, generation.scene, observations=not whole_plan)
    keeper = texts.keepers.of(generation, rules, whole_plan=whole_plan, room=room)
    if keeper is not None:
        structured.grammar = KeptGrammar(grammar, keeper, texts)
