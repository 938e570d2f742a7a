"""Accounts for the KV that an engine holds, in tokens, and says what to drop when it is full.

The ledger counts; the backend moves memory. A generation's context is a prefix that it shares
(the prompt's fixed part) and a part of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


WATERMARK = 0.9
"""Above this share of the bound KV is tight. A generation past its preemption limit is then not
paused even between two segments: its KV might have to go, and an old one's is dear to compute."""


@dataclass(slots=True, eq=False)
class Prefix:
    """A shared beginning of contexts.

    Attributes:
        key: What identifies it.
        tokens: Its length.
        computed: Tokens of it whose KV is held.
        resident: Generations that hold KV of their own on top of it.
        users: Generations that have not ended.
        used_at: Step number of its last use by a robot's generation; where there was none, that of
            the background's, which counts from below 0.
    """

    key: str
    tokens: int
    computed: int = 0
    resident: int = 0
    users: int = 0
    used_at: int = 0

    @property
    def ready(self) -> bool:
        """Whether its KV is complete."""
        return self.computed == self.tokens


@dataclass(slots=True, eq=False)
class Context:
    """One generation's KV.

    Attributes:
        name: Whose.
        prefix: The shared beginning.
        tokens: Tokens of its own: the prompt's body, what was generated, observations.
        computed: Tokens of its own whose KV was computed; all of it is held, but for evicted ones.
        evicted: Tokens of the prompt, prefix included, whose KV was given up. What is left of the
            prompt is then private: a copy that nobody shares.
        spare: Whether nobody waits for it, so that dropping it costs only idle time.
        hosted: Tokens of its own, the first ones, whose KV lies in the host's memory; where there
            are any, none is held here.
    """

    name: str
    prefix: Prefix
    tokens: int
    computed: int = 0
    evicted: int = 0
    spare: bool = False
    hosted: int = 0

    @property
    def missing(self) -> int:
        """Tokens of its own still to be computed."""
        return self.tokens - self.computed

    @property
    def attended(self) -> int:
        """Tokens whose KV its steps read, the prefix included."""
        return self.prefix.tokens + self.computed - self.evicted

    @property
    def held(self) -> int:
        """Tokens of KV that are its own."""
        return self.attended if self.evicted else self.computed


@dataclass(slots=True)
class KvLedger:
    """The bound and what is held against it; see :class:`KvAccount`.

    A backend whose steps can copy KV between here and the host's memory has room for
    ``host_capacity`` tokens there.
    """

    capacity: int
    used: int = 0
    spilled: int = 0
    host_capacity: int = 0
    host_used: int = 0
    """Tokens whose KV lies in the host's memory."""
    copied: int = 0
    """Tokens whose KV was copied there or back, so far."""
    copying_pays: Callable[[int, int], bool] = lambda _before, _after: True
    """Whether to copy a context's KV there and back, of the tokens from one place up to another,
    costs less than to compute it again."""
    before_close: Callable[[Context], None] | None = None
    """Called with each context that ends, while its KV is there."""
    spare_tokens: Callable[[], int] = int
    """How many tokens are held that give way at once to whoever needs the room."""
    _prefixes: dict[str, Prefix] = field(default_factory=dict)

    @property
    def tight(self) -> bool:
        """Whether KV that is kept between two segments might soon have to go."""
        return self.used - self.spare_tokens() > WATERMARK * self.capacity

    def open(self, name: str, key: str, prefix_tokens: int, own_tokens: int) -> Context:
        """Account for a new generation; nothing is computed yet."""
        prefix = self._prefixes.get(key)
        if prefix is None:
            prefix = self._prefixes[key] = Prefix(key, prefix_tokens)
        prefix.users += 1
        return Context(name, prefix, own_tokens)

    def close(self, context: Context) -> None:
        """Forget an ended generation; its prefix stays until the room is needed."""
        if self.before_close is not None:
            self.before_close(context)
        self.drop(context)
        self.host_used -= context.hosted
        context.hosted = 0
        prefix = context.prefix
        prefix.users -= 1
        if not prefix.users and not prefix.computed:
            del self._prefixes[prefix.key]

    def drop(self, context: Context) -> None:
        """Forget the KV of a context's own part."""
        if context.computed:
            if not context.evicted:
                context.prefix.resident -= 1
            self.used -= context.held
            context.computed = context.evicted = 0

    def copy_out(self, context: Context) -> None:
        """Copy a context's own part, which is about to be dropped, to the host's memory.

        What does not fit there or would cost more than to compute it again is not copied, nor what
        is left of a prompt that parts were evicted from.
        """
        tokens = context.computed
        room = self.host_capacity - self.host_used
        begin = context.prefix.tokens
        if tokens <= room and not context.evicted and self.copying_pays(begin, begin + tokens):
            context.hosted = tokens
            self.host_used += tokens
            self.copied += tokens

    def copy_back(self, context: Context) -> int:
        """Copy back what the host's memory has of a context, for which there is room.

        Returns:
            How many tokens that are.
        """
        tokens, context.hosted = context.hosted, 0
        self.host_used -= tokens
        self.copied += tokens
        self.compute(context, tokens)
        return tokens

    def evict(self, context: Context, tokens: int) -> bool:
        """Account for ``tokens`` of a context's prompt given up, and the rest made private.

        Where there is no room for a private copy of what is kept of the prefix, this changes
        nothing and returns False.
        """
        added = context.prefix.tokens - tokens
        if tokens < 1 or self.used + added > self.capacity:
            return False
        context.evicted = tokens
        context.prefix.resident -= 1
        self.used += added
        return True

    def compute(self, context: Context, tokens: int) -> None:
        """Account for ``tokens`` more of a context's own part."""
        if tokens and not context.computed:
            context.prefix.resident += 1
        context.computed += tokens
        self.used += tokens

    def take_back(self, context: Context, tokens: int) -> None:
        """Account for the latest ``tokens`` of a context's own part not computed after all."""
        context.computed -= tokens
        self.used -= tokens
        if not context.computed and not context.evicted:
            context.prefix.resident -= 1

    def move(self, giver: Context, taker: Context) -> None:
        """Account for all of a context's own KV as another's, behind what that one has."""
        taker.computed, giver.computed = taker.computed + giver.computed, 0

    def compute_prefix(self, prefix: Prefix, tokens: int) -> None:
        """Account for ``tokens`` more of a prefix."""
        prefix.computed += tokens
        self.used += tokens

    def prefixes_of_robots(self) -> list[Prefix]:
        """Return the prefixes that robots' generations have used."""
        return [prefix for prefix in self._prefixes.values() if prefix.used_at > 0]

    def make_room(
        self,
        needed: int,
        keep: Collection[Prefix],
        victims: Iterable[Context],
        *,
        drop: Callable[[Context], None],
        drop_prefix: Callable[[Prefix], None],
    ) -> bool:
        """Drop what it takes until ``needed`` more tokens fit; return whether they do.

        First go prefixes that no context builds on, least recently used first; then ``victims`` in
        their order, and the prefixes that they leave unused. Prefixes to ``keep`` stay. Nothing is
        dropped where all of it would not be enough. ``drop`` and ``drop_prefix`` free the memory,
        before it is accounted for.
        """
        missing = self.used + needed - self.capacity
        if missing <= 0:
            return True
        order = list(victims)
        leaving: dict[str, int] = {}
        for context in order:
            if context.computed and not context.evicted:
                leaving[context.prefix.key] = leaving.get(context.prefix.key, 0) + 1
        reclaimable = sum(context.held for context in order) + sum(
            prefix.computed
            for prefix in self._prefixes.values()
            if prefix not in keep and prefix.resident == leaving.get(prefix.key, 0)
        )
        if reclaimable < missing:
            return False
        self._drop_unused_prefixes(needed, keep, drop_prefix)
        for context in order:
            if self.used + needed <= self.capacity:
                break
            if context.computed:
                self.spilled += not context.spare
                drop(context)
                self.drop(context)
                self._drop_unused_prefixes(needed, keep, drop_prefix)
        return True

    def _drop_unused_prefixes(
        self, needed: int, keep: Collection[Prefix], drop_prefix: Callable[[Prefix], None]
    ) -> None:
        if self.used + needed <= self.capacity:
            return
        for prefix in sorted(self._prefixes.values(), key=lambda item: item.used_at):
            if prefix in keep or prefix.resident:
                continue
            if prefix.computed:
                self.used -= prefix.computed
                prefix.computed = 0
                drop_prefix(prefix)
            if not prefix.users:
                del self._prefixes[prefix.key]
            if self.used + needed <= self.capacity:
                return
