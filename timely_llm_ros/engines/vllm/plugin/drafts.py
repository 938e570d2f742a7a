"""Guesses the next tokens of plans inside vLLM from other plans that robots were given lately.

vLLM's worker verifies a guess in the step of the token before it. This module imports no vLLM.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.engines.texts import RecentPlans, TextStream, WrittenPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.engines.texts import TokenCodec
    from timely_llm_ros.engines.vllm.plugin.kept_grammar import KeptGrammar


@dataclass(slots=True, eq=False)
class _Plan:
    """A plan as far as it was read, and its text's incomplete character."""

    written: WrittenPlan
    text: TextStream = field(default_factory=TextStream)


class PlanDrafts:
    """Drafts for the plans of one scheduler, by request.

    Args:
        texts: The tokenizer.
    """

    def __init__(self, texts: TokenCodec) -> None:
        self._texts = texts
        self._plans: dict[str, _Plan] = {}
        self._ended: list[_Plan] = []
        self._unread: list[tuple[_Plan, list[int], list[int]]] = []
        self._recent = RecentPlans()

    def begin(self, request_id: str, skill_set: str) -> None:
        """Follow a plan from its beginning."""
        self._plans[request_id] = _Plan(WrittenPlan(skill_set))

    def end(self, request_id: str) -> None:
        """Remember what was written of a plan that has ended; others are ignored."""
        plan = self._plans.pop(request_id, None)
        if plan is not None:
            self._ended.append(plan)

    def catch_up(self) -> None:
        """Read what steps brought, and learn from plans that have ended."""
        self._read()
        for plan in self._ended:
            if plan.written.runs:
                self._recent.learn(plan.written)
        self._ended.clear()

    def fork(self, request_id: str, branch_id: str, token_ids: Sequence[int]) -> None:
        """Follow a branch of a plan from the value on that it goes on by."""
        if (plan := self._plans.get(request_id)) is not None:
            self._read()
            self._plans[branch_id] = copy.deepcopy(plan)
            self.observe(branch_id, token_ids)

    def join(self, request_id: str, branch_id: str) -> None:
        """Go on with a plan where its branch is, which is over."""
        if (branch := self._plans.pop(branch_id, None)) is not None:
            self._plans[request_id] = branch

    def drop(self, branch_id: str) -> None:
        """Forget a branch."""
        self._plans.pop(branch_id, None)

    def observe(self, request_id: str, token_ids: Sequence[int]) -> None:
        """Go on with a plan by its robot's value."""
        if (plan := self._plans.get(request_id)) is not None:
            self._read()
            plan.written.go_on(self._push(plan, token_ids))

    def take(self, request_id: str, token_ids: Sequence[int], forced: Sequence[int]) -> None:
        """Go on with a plan by what a step brought, which is read later.

        Args:
            request_id: Whose plan it is.
            token_ids: A draft as far as it came true, and the token behind it.
            forced: Those that must follow.
        """
        if (plan := self._plans.get(request_id)) is not None:
            self._unread.append((plan, [*token_ids], [*forced]))

    def draft(
        self,
        request_id: str,
        grammar: KeptGrammar,
        most: int,
        worth: Callable[[float, int], bool],
    ) -> list[int]:
        """Guess what the next step will bring; return the tokens, none for no draft.

        With a statement's end a segment may end, and nothing is chosen behind it in the same step.

        Args:
            request_id: Whose next token the step brings.
            grammar: Where its plan stands.
            most: Tokens that there is room for.
            worth: Whether to compute a draft that has such a chance and so many tokens.
        """
        plan = self._plans.get(request_id)
        if plan is None:
            return []
        self._read()
        found = self._recent.next(plan.written, grammar.allows)
        if found is None:
            return []
        run, chance = found
        if run[0] in self._texts.end_ids or len(run) > most or not worth(chance, len(run)):
            return []
        text = self._texts.decode(run)
        ends = (place + 1 for place, character in enumerate(text) if character == ';')
        if any(plan.written.ends_statement(text[:end]) for end in ends):
            return []
        return grammar.validate_tokens(list(run))

    def _read(self) -> None:
        for plan, token_ids, forced in self._unread:
            for place, token in enumerate((*token_ids, *forced)):
                ends = token in self._texts.end_ids
                text = '' if ends else self._push(plan, (token,))
                # A draft is a token that was chosen elsewhere, and what had to follow it there.
                chosen = ends or place in (0, len(token_ids) - 1)
                (plan.written.choose if chosen else plan.written.follow)(token, text)
        self._unread.clear()

    def _push(self, plan: _Plan, token_ids: Sequence[int]) -> str:
        return ''.join(plan.text.push(self._texts.bytes_of(token)) for token in token_ids)
