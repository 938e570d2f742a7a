"""A grammar inside vLLM that also keeps a plan such that it can end."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from timely_llm_ros.engines.texts import allow_all_or_none
from timely_llm_ros.engines.vllm.plugin.control import is_named
from timely_llm_ros.skills.grammar import decoding_grammar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts import PlanKeeper, TokenTexts


class KeptGrammar(StructuredOutputGrammar):  # type: ignore[misc]
    """A grammar of vLLM's whose masks a keeper narrows."""

    def __init__(self, grammar: Any, keeper: PlanKeeper, texts: TokenTexts) -> None:
        self._grammar, self._keeper, self._texts = grammar, keeper, texts
        self._ends, self._writable = texts.end_ids, texts.writable
        self._unwritable = texts.unwritable_ids
        self._words = texts.mask_words
        self._row: Any = None
        self._known = False
        self._ahead: list[int] = []
        self._settled: PlanKeeper | None = None

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens that the model chose, or guesses after :meth:`guess`."""
        if self._settled is self._keeper:
            # What the plan is kept by now is right for the first mask, and is to come back.
            self._keeper = self._keeper.fork()
        ahead, self._ahead = self._ahead, []
        if ahead:
            # It stands there already. Where vLLM ends the generation, it takes fewer of them.
            return tokens == ahead[: len(tokens)]
        chosen = [token for token in tokens if token not in self._ends]
        return not chosen or self._advance(request_id, chosen)

    def forward(self, request_id: str, tokens: Sequence[int], most: int) -> list[int]:
        """Advance by tokens that the model chose, and by those that must follow.

        vLLM is to hand them all to :meth:`accept_tokens` next.

        Args:
            request_id: The request's.
            tokens: The tokens; only the last may end the text.
            most: Most tokens to add.

        Returns:
            The tokens that must follow, each the only one allowed behind those before it.
        """
        if self._row is None or tokens[-1] in self._ends:
            return []
        if not self._advance(request_id, [*tokens]):
            return []
        forced: list[int] = []
        while found := self._following(most - len(forced)):
            forced += found
            if found[0] in self._ends or not self._advance(request_id, found):
                break
        self._ahead = [*tokens, *forced]
        return forced

    def _following(self, most: int) -> list[int]:
        """Return what must follow, or its beginning, without masks: the worker waits for it.

        llguidance allows only a text's usual tokens where the text is certain, and tells them.
        """
        matcher = getattr(self._grammar, 'll_matcher', None)
        if matcher is None or most <= 0:
            return []
        if matcher.is_stopped():
            return [*self._ends] if len(self._ends) == 1 else []
        if not matcher.compute_ff_bytes():
            return []
        certain = self._keeper.certain(matcher.compute_ff_tokens()[:most])
        return [*takewhile(lambda token: token not in self._unwritable, certain)]

    def observe(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens of a robot's answer."""
        return self._advance(request_id, tokens, observed=True)

    def fork(self) -> KeptGrammar | None:
        """Return another grammar that is as far as this one; None where it cannot be copied."""
        matcher = getattr(self._grammar, 'll_matcher', None)
        if matcher is None:
            return None
        grammar = replace(self._grammar, ll_matcher=matcher.deep_copy())
        return KeptGrammar(grammar, self._keeper.fork(), self._texts)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the first tokens that the grammar allows."""
        allowed: list[int] = self._grammar.validate_tokens(tokens)
        return allowed

    def allows(self, token: int) -> bool:
        """Whether the grammar allows a token next; the plan may not be able to end behind it."""
        return bool(self._grammar.validate_tokens([token]))

    def guess(self) -> None:
        """Take the next tokens as guesses, which vLLM takes back once it has masks behind them."""
        self._settled = self._keeper

    def rollback(self, num_tokens: int) -> None:
        """Take guesses back."""
        if self._settled is not None:
            self._keeper, self._settled = self._settled, None
        self._known = False
        self._grammar.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, idx: int) -> None:
        """Write one bit per token into a row of ``bitmask``."""
        if self._row is None:
            self._row = bitmask[idx : idx + 1].clone()
        self._mask()
        bitmask[idx].copy_(self._row[0])
        if self._settled is not None:
            # vLLM's bias against what only the runtime may write is not on rows of guesses.
            bitmask[idx, : self._words].bitwise_and_(torch.from_numpy(self._writable))

    def _mask(self) -> NDArray[np.int32]:
        """Return which tokens may come next, one bit each; good until the grammar advances."""
        mask: NDArray[np.int32] = self._row[0, : self._words].numpy()
        if not self._known:
            self._grammar.fill_bitmask(self._row, 0)
            # vLLM's grammars know only one of the tokens that end a text.
            allow_all_or_none(mask, self._ends)
            self._keeper.restrict(mask)
            self._known = True
        return mask

    def _advance(self, request_id: str, tokens: list[int], *, observed: bool = False) -> bool:
        self._known = False
        self._keeper.take(tokens, observed=observed)
        return bool(self._grammar.accept_tokens(request_id, tokens))

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
