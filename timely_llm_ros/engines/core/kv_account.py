"""Accounts of the KV that is held for generations, here or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.engines.core.kv_ledger import Context, Prefix

if TYPE_CHECKING:
    from collections.abc import Callable


class KvAccount(Protocol):
    """An account of KV, in tokens."""

    @property
    def capacity(self) -> int:
        """Tokens that may be held."""
        ...

    @property
    def used(self) -> int:
        """Tokens held."""
        ...

    @property
    def spilled(self) -> int:
        """Contexts that were dropped for lack of room so far."""
        ...

    @property
    def tight(self) -> bool:
        """Whether KV that is kept between two segments might soon have to go."""
        ...

    def open(self, name: str, key: str, prefix_tokens: int, own_tokens: int) -> Context:
        """Account for a new generation, of which nothing is computed yet."""
        ...

    def close(self, context: Context) -> None:
        """Forget a generation that is over."""
        ...


@dataclass(slots=True)
class ForeignKv:
    """KV that somebody else holds and bounds, as vLLM does; only contexts are counted here.

    ``tokens_held`` returns how many tokens are held there now.
    """

    capacity: int
    tokens_held: Callable[[], int]
    spilled: int = 0

    @property
    def used(self) -> int:
        """Tokens held there."""
        return self.tokens_held()

    @property
    def tight(self) -> bool:
        """Never: whoever holds the KV also makes room for it."""
        return False

    def open(self, name: str, key: str, prefix_tokens: int, own_tokens: int) -> Context:
        """Begin to count a context; prefixes are shared where the KV is."""
        return Context(name, Prefix(key, prefix_tokens), own_tokens)

    def close(self, context: Context) -> None:
        """Forget a context."""
        context.computed = 0

    def compute(self, context: Context, tokens: int) -> None:
        """Count ``tokens`` more of a context."""
        context.computed += tokens

    def spill(self, context: Context) -> None:
        """Note that a context's KV was dropped there."""
        if context.computed:
            context.computed = 0
            self.spilled += 1


class ForeignMemory:
    """The part of a backend that does nothing where somebody else computes and holds the KV."""

    @property
    def evicts(self) -> bool:
        """Return False: whoever holds a prompt's KV keeps all of it."""
        return False

    def fast_forward(self, generation_id: str) -> None:
        """Return None: whoever computes also chooses what each step brings."""

    def evict(self, generation_id: str, tokens: int) -> None:
        """Is never called, because nothing evicts here."""

    def drop(self, generation_id: str) -> None:
        """Keep the KV, which is not ours to free."""

    def drop_prefix(self, key: str) -> None:
        """Keep the KV, which is not ours to free."""
