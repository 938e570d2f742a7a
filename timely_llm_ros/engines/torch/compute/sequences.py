"""What the torch backend has of each generation and of the fixed texts that they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.engines.texts import TextStream
from timely_llm_ros.engines.torch.compute.kv import SlotList

if TYPE_CHECKING:
    import torch

    from timely_llm_ros.engines.texts import GrammarState
    from timely_llm_ros.engines.torch.compute.eviction import QueryWindow


@dataclass(slots=True)
class Prefix:
    """A fixed text's ids and KV slots."""

    key: str
    ids: list[int]
    slots: SlotList = field(default_factory=SlotList)


@dataclass(slots=True)
class Sequence:
    """One generation.

    ``name`` says whose chance decides where tokens are drawn: a branch has its plan's. ``ids`` are
    the tokens after the prefix. ``slots`` begin with the prefix's and cover what was computed; once
    tokens are ``evicted``, all slots are its own. ``window`` gathers the queries that eviction asks
    for, and ``kept`` are the positions that it chose, by layer.
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
