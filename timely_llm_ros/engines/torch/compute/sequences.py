"""What the torch backend has of each generation and of the fixed texts that they share."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.engines.texts import TextStream, WrittenPlan
from timely_llm_ros.engines.torch.compute.kv import SlotList

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from timely_llm_ros.engines.texts import GrammarState
    from timely_llm_ros.engines.torch.compute.eviction import QueryWindow


@dataclass(slots=True)
class Prefix:
    """A fixed text's ids and KV slots."""

    key: str
    ids: list[int]
    slots: SlotList = field(default_factory=SlotList)


@dataclass(slots=True)
class Draft:
    """Tokens that may come where a sequence has ``start`` tokens of its own; none for no draft.

    ``scores`` are those of the token behind them, ``[1, tokens]``, once they are computed.
    """

    ids: tuple[int, ...] = ()
    start: int = 0
    scores: NDArray[np.float32] | None = None


@dataclass(slots=True)
class Sequence:
    """One generation.

    ``name`` says whose chance decides where tokens are drawn: a branch has its plan's. ``ids`` are
    the tokens after the prefix. ``slots`` begin with the prefix's and cover what was computed; once
    tokens are ``evicted``, all slots are its own. ``window`` gathers the queries that eviction asks
    for, and ``kept`` are the positions that it chose, by layer. ``written`` is a plan within its
    grammar, so that others can be guessed from it; None for other texts.
    """

    prefix: Prefix
    ids: list[int]
    grammar: GrammarState | None
    forced: tuple[int, ...] | None
    name: str = ''
    slots: SlotList = field(default_factory=SlotList)
    generated: list[int] = field(default_factory=list)
    text: TextStream = field(default_factory=TextStream)
    evicted: int = 0
    prompt: int = field(init=False)
    window: QueryWindow | None = None
    kept: dict[int, torch.Tensor] | None = None
    written: WrittenPlan | None = None
    draft: Draft = field(default_factory=Draft)

    def __post_init__(self) -> None:
        self.prompt = len(self.ids)

    @property
    def observed_by(self) -> QueryWindow | None:
        """What gathers the queries of the tokens computed now: the prompt's alone are gathered."""
        return self.window if self.computed <= self.prompt else None

    @property
    def position(self) -> int:
        """How many tokens of its context were computed, the prefix included."""
        return len(self.slots) + self.evicted

    @property
    def computed(self) -> int:
        """How many tokens of its own were computed."""
        return max(0, self.position - len(self.prefix.ids))

    def fork(self, key: str) -> Sequence:
        """Return a branch, whose prefix of that ``key`` is what is computed of this one."""
        shared = Prefix(key, self.prefix.ids + self.ids[: self.computed])
        shared.slots.extend(self.slots.array)
        return Sequence(
            shared,
            self.ids[self.computed :],
            None if self.grammar is None else self.grammar.fork(),
            self.forced,
            self.name,
            generated=[*self.generated],
            text=copy.deepcopy(self.text),
            written=copy.deepcopy(self.written),
        )

    def join(self, branch: Sequence) -> None:
        """Go on as a branch did, on its KV unless that was dropped."""
        self.ids[len(branch.prefix.ids) - len(self.prefix.ids) :] = branch.ids
        self.grammar, self.generated = branch.grammar, branch.generated
        self.text, self.written = branch.text, branch.written
        if branch.slots:
            self.slots = branch.slots
