"""Keeps a constrained plan such that it can end: within its limits and its number of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import PlanLimitError
from timely_llm_ros.skills.grammar import OpenPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.engines.texts.token_codec import TokenCodec
    from timely_llm_ros.skills.grammar import PlanRules


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
        self._left, self._room = most_tokens, room
        self._forced: list[int] = []

    def take(self, tokens: Sequence[int], *, observed: bool = False) -> None:
        """Go on by tokens; ``observed`` are the robot's."""
        self._room -= len(tokens)
        if not observed:
            self._left -= len(tokens)
        del self._forced[: len(tokens)]
        if self._plan is None:
            return
        try:
            self._plan.take(self._texts.decode(tokens))
        except PlanLimitError:
            # It was left no way, so that whoever reads the plan is to refuse it.
            self._plan = None

    def restrict(self, mask: NDArray[np.int32]) -> None:
        """Take from the tokens that the grammar allows, one bit each, those that leave no way."""
        plan, left = self._plan, min(self._left, self._room)
        if plan is None:
            return
        if not self._forced:
            near = left <= self._rules.longest_end + 2
            if plan.roomy and not near:
                return
            kept = self._kept(plan, mask, left if near else None)
            if kept:
                _allow(mask, kept)
                return
            ending = plan.ending()
            self._forced = self._texts.encode(ending) if ending else []
        if self._forced:
            _allow(mask, self._forced[:1])

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
    bits = np.unpackbits(mask.view(np.uint8), bitorder='little')
    some = list(tokens)
    if bits[some].any():
        bits[some] = 1
        mask[:] = np.packbits(bits, bitorder='little').view(np.int32)


def _allow(mask: NDArray[np.int32], tokens: Iterable[int]) -> None:
    bits = np.zeros(32 * mask.size, np.uint8)
    bits[list(tokens)] = 1
    mask[:] = np.packbits(bits, bitorder='little').view(np.int32)
