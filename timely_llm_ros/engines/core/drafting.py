"""Tokens that are guessed: computed in the step of the token before them, kept if they come true.

A draft is a token that the model may well choose next and those that would have to follow it. A
step computes them behind what it computes anyway. Where the model chooses just these, the step also
has the choice behind them, which would have taken a step of its own; else their KV is freed. So
tokens are those without drafts, and steps are fewer.

A draft that comes true saves a generation's share of what a step takes by itself. One that does not
costs what its tokens add to the step. Both are fitted to the steps made so far, and a draft is
computed only where it saves more than it costs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.engines.core.step_size import StepLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.core.kv_ledger import KvLedger
    from timely_llm_ros.engines.core.step import Output, Row, StepPlan


class Drafter(Protocol):
    """Guesses tokens, and says which came true."""

    def draft(self, generation_id: str, most: int, worth: Callable[[float, int], bool]) -> int:
        """Guess what the next step will bring; return the number of tokens, 0 for no draft.

        Args:
            generation_id: Whose next token the step brings.
            most: Tokens that there is room for.
            worth: Whether to compute a draft that has such a chance and so many tokens.
        """
        ...

    def verified(self, generation_id: str) -> Output | None:
        """Append the token that the model chooses behind a draft; None where it did not come true.

        Call it when what follows the step's first token is appended.
        """
        ...

    def settle(self, generation_id: str) -> int:
        """Free the KV of a draft's tokens that did not come true; return how many did.

        At least the latest token of a context is left to be computed.
        """
        ...


class DraftCosts(StepLine):
    """What steps take, and which drafts are worth theirs."""

    def worth(self, batch: int, chance: float, tokens: int) -> bool:
        """Return whether a draft saves more time than it costs where ``batch`` share a step."""
        step_s, token_s = self.line()
        return chance * step_s / batch > (1.0 - chance) * tokens * token_s


class Drafting:
    """Adds drafts to the steps of a core.

    Args:
        drafter: Guesses.
        kv: The core's account of KV.
        context_limit: The most tokens that one context may have.
    """

    def __init__(self, drafter: Drafter, kv: KvLedger, context_limit: int) -> None:
        self._drafter, self._kv, self._limit = drafter, kv, context_limit
        self._costs = DraftCosts()

    def observe(self, plan: StepPlan, step_s: float) -> None:
        """Learn from how long a step took in which plans were only written."""
        self._costs.observe(plan.tokens, step_s)

    def extend(self, plan: StepPlan) -> StepPlan:
        """Return a step with drafts in it, for which no KV has to go.

        What a prompt's eviction needs room for, or looks at, stays as it is. Nobody waits for the
        background, whose steps may be interrupted. Beside others' prompts a draft saves no step,
        because theirs come anyway.
        """
        shared = not plan.decodes_only and len(plan.running) > 1
        if shared or plan.background or any(generation.evicts for generation in plan.running):
            return plan
        worth = partial(self._costs.worth, sum(row.samples for row in plan.rows))
        rows = []
        for row in plan.rows:
            context, drafted = row.generation.context, 0
            most = min(
                self._kv.capacity - self._kv.used,
                self._limit - context.prefix.tokens - context.tokens,
            )
            if row.samples and most > 0:
                drafted = self._drafter.draft(context.name, most, worth)
                self._kv.compute(context, drafted)
            rows.append(row._replace(drafted=drafted))
        return replace(plan, rows=tuple(rows))

    def take_back(self, plan: StepPlan) -> None:
        """Account for no draft of a step any more, until it is known which came true."""
        for row in plan.rows:
            if row.drafted and not row.generation.ended:
                self._kv.take_back(row.generation.context, row.drafted)

    def verified(self, generation_id: str) -> Output | None:
        """Append the token behind a draft; None where the draft did not come true."""
        output = self._drafter.verified(generation_id)
        return None if output is None else output._replace(drafted=True)

    def settle(self, row: Row) -> None:
        """Account for what came true of a row's draft."""
        if row.drafted and not row.generation.ended:
            context = row.generation.context
            self._kv.compute(context, self._drafter.settle(context.name))
