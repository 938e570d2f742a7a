"""Keeps a constrained plan such that it can end: within its limits and its number of tokens."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import PlanLimitError
from timely_llm_ros.skills.grammar import OpenPlan, PlanRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts.token_codec import TokenCodec

_MOST_RULES = 64
"""Rules kept for tasks with the same skill set and scene."""


class PlanKeepers:
    """Makes keepers of plans; what those of one skill set and scene share is made once."""

    def __init__(self, texts: TokenCodec) -> None:
        self._texts = texts
        self._rules: dict[object, PlanRules] = {}

    def of(
        self, request: GenerationRequest, grammar: str, *, whole_plan: bool, room: int
    ) -> PlanKeeper | None:
        """Return what keeps a plan such that it can end; None for free text.

        Args:
            request: Whose plan it is.
            grammar: Its grammar.
            whole_plan: Whether the plan is one segment.
            room: Tokens that its context has room for behind the prompt.
        """
        if request.skill_set.free_text is not None:
            return None
        key = grammar, request.skill_set.limits, request.scene, whole_plan
        rules = self._rules.get(key)
        if rules is None or rules.skill_set != request.skill_set:
            rules = PlanRules(grammar, request.skill_set, request.scene, whole_plan=whole_plan)
            if len(self._rules) >= _MOST_RULES:
                del self._rules[next(iter(self._rules))]
            self._rules[key] = rules
        return PlanKeeper(self._texts, rules, most_tokens=request.max_tokens, room=room)


class PlanKeeper:
    """Leaves to a model only those of the grammar's tokens after which its plan can still end.

    Where none of them leaves a way, the shortest end is written token by token.

    Args:
        texts: The tokenizer.
        rules: The plan's rules.
        most_tokens: Tokens that may be generated, the one that ends the plan included.
        room: Tokens that its context has room for, observations included.
    """

    def __init__(self, texts: TokenCodec, rules: PlanRules, *, most_tokens: int, room: int) -> None:
        self._texts, self._rules = texts, rules
        self._plan: OpenPlan | None = OpenPlan(rules)
        self._unread: list[int] = []
        self._left, self._room = most_tokens, room
        self._forced: list[int] = []

    def fork(self) -> PlanKeeper:
        """Return another keeper that is as far as this one."""
        return copy.deepcopy(self, {id(it): it for it in (self._texts, self._rules)})

    def take(self, tokens: Sequence[int], *, observed: bool = False) -> None:
        """Go on by tokens; ``observed`` are the robot's.

        They are read when somebody asks, which engines do while their model computes.
        """
        self._room -= len(tokens)
        if not observed:
            self._left -= len(tokens)
        del self._forced[: len(tokens)]
        self._unread += tokens

    def restrict(self, mask: NDArray[np.int32]) -> None:
        """Take from the tokens that the grammar allows, one bit each, those that leave no way."""
        plan = self._open()
        if plan is None:
            return
        if not self._forced:
            if plan.roomy and not self._near:
                return
            kept = self._kept(plan, mask, self._bound)
            if kept:
                _allow(mask, kept)
                return
            ending = plan.ending()
            self._forced = self._texts.encode(ending) if ending else []
        if self._forced:
            _allow(mask, self._forced[:1])

    def certain(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return those first ones of tokens, each the only one of its grammar, that may come so.

        Behind what a plan can end after it can end after what must follow, if there is room: only
        where the number of tokens matters is the plan looked at.
        """
        if self._forced or not tokens:
            return ()
        if not self._near:
            return tokens[: min(self._left, self._room) - self._rules.longest_end - 2]
        return tokens[:1] if self.allows(tokens[0]) else ()

    def allows(self, token: int) -> bool:
        """Whether a plan can still end after a token that its grammar allows.

        For plans whose tokens are chosen elsewhere: where it cannot, :meth:`ending` comes instead.
        """
        plan = self._open()
        if plan is None or (plan.roomy and not self._near):
            return True
        return self._leaves_a_way(plan, token, self._bound)

    def ending(self) -> list[int]:
        """Return the tokens of the plan's shortest end, without the one behind it."""
        plan = self._open()
        text = None if plan is None else plan.ending()
        return self._texts.encode(text) if text else []

    def _open(self) -> OpenPlan | None:
        """Read what is unread; return the plan, None where it is kept no longer."""
        unread, self._unread = self._unread, []
        if unread and self._plan is not None:
            try:
                self._plan.take(self._texts.decode(unread))
            except PlanLimitError:
                # It was left no way, so that whoever reads the plan is to refuse it.
                self._plan = None
        return self._plan

    @property
    def _near(self) -> bool:
        """Whether so few tokens are left that their number matters."""
        return min(self._left, self._room) <= self._rules.longest_end + 2

    @property
    def _bound(self) -> int | None:
        """Tokens that are left; None where their number does not matter yet."""
        return min(self._left, self._room) if self._near else None

    def _kept(self, plan: OpenPlan, mask: NDArray[np.int32], left: int | None) -> list[int]:
        allowed = np.unpackbits(mask.view(np.uint8), bitorder='little')[: self._texts.size] == 1
        if not plan.in_string:
            return self._with_a_way(plan, allowed, left)
        # All that only lengthen the string leave the same way; the longest leaves the least room.
        longer = (allowed & ~self._texts.quoting).nonzero()[0]
        kept = self._with_a_way(plan, allowed & self._texts.quoting, left)
        if longer.size:
            longest = longer[self._texts.lengths[longer].argmax()]
            kept += longer.tolist() if self._leaves_a_way(plan, int(longest), left) else []
        return kept

    def _with_a_way(
        self, plan: OpenPlan, allowed: NDArray[np.bool_], left: int | None
    ) -> list[int]:
        tokens = allowed.nonzero()[0].tolist()
        return [token for token in tokens if self._leaves_a_way(plan, token, left)]

    def _leaves_a_way(self, plan: OpenPlan, token: int, left: int | None) -> bool:
        if token in self._texts.end_ids:
            return True
        ending = plan.ending(self._texts.decode([token]))
        if ending is None:
            return False
        # Behind the token and the ending comes the token that ends the plan.
        return left is None or len(ending) + 2 <= left or self._size(ending) + 2 <= left

    def _size(self, text: str) -> int:
        return len(self._texts.encode(text)) if text else 0


def allow_all_or_none(mask: NDArray[np.int32], tokens: Iterable[int]) -> None:
    """Allow all of the tokens where one of them is allowed."""
    some = list(tokens)
    if len(some) < 2:
        return
    bits = np.unpackbits(mask.view(np.uint8), bitorder='little')
    if bits[some].any():
        bits[some] = 1
        mask[:] = np.packbits(bits, bitorder='little').view(np.int32)


def _allow(mask: NDArray[np.int32], tokens: Iterable[int]) -> None:
    bits = np.zeros(32 * mask.size, np.uint8)
    bits[list(tokens)] = 1
    mask[:] = np.packbits(bits, bitorder='little').view(np.int32)
