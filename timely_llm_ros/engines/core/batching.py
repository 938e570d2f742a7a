"""From the generations chosen for a step to the tokens that it computes, within the KV bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.core.step import PrefixRow, Row, StepPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from timely_llm_ros.engines.core.generations import Generations
    from timely_llm_ros.engines.core.kv_ledger import Context, KvLedger, Prefix
    from timely_llm_ros.engines.core.step import Backend, Generation


class Batcher:
    """Shares out KV and the prefill chunk, best rank first.

    A generation whose context does not fit makes room by dropping the KV of generations that
    matter less: those outside the step first, in the order of ``drop_order``, then lower-ranked
    ones in it. What is dropped is computed again when it is chosen next, or copied back where the
    host's memory has it. ``first_step`` is the number of the step before the first one.
    """

    def __init__(
        self,
        kv: KvLedger,
        backend: Backend,
        generations: Generations,
        prefill_chunk: int,
        first_step: int = 0,
    ) -> None:
        self._kv = kv
        self._backend = backend
        self._generations = generations
        self.prefill_chunk = prefill_chunk
        """Most prompt tokens computed in one step."""
        self._steps = first_step
        self.spill_first: Callable[[], Iterable[Context]] = tuple
        """Contexts of another core that shares the KV, which go before all of this one's."""

    def fit(
        self,
        chosen: list[Generation],
        everyone: Iterable[Generation],
        keep: Iterable[Prefix] = (),
    ) -> StepPlan | None:
        """Return the step of the chosen ones, best rank first; None where not one of them fits.

        ``everyone`` of this core may have to make room, the prefixes to ``keep`` may not.
        """
        self._steps += 1
        prefixes: dict[Prefix, PrefixRow] = {}
        rows: list[Row] = []
        running: list[Generation] = []
        kept = dict.fromkeys(keep)
        counted: set[Prefix] = set()
        promised = 0
        chunk = self.prefill_chunk
        kv, step = self._kv, self._steps
        copied_before = kv.copied
        for place, generation in enumerate(chosen):
            context = generation.context
            prefix = context.prefix
            missing = needed = context.tokens - context.computed
            shares = not context.evicted
            if shares and prefix not in counted:
                needed += prefix.tokens - prefix.computed
            # What is kept of the prefix will need room of its own.
            copied = prefix.tokens if generation.evicts else 0
            if promised + needed + copied > kv.capacity - kv.used:
                keep = {**kept, prefix: None} if shares else kept
                sizes = [promised + needed + copied]
                if copied and not running:
                    sizes.append(promised + needed)  # Not even alone: then all of it stays.
                if not any(self._make_room(size, keep, chosen, place, everyone) for size in sizes):
                    continue
            running.append(generation)
            if shares:
                kept[prefix] = None
                counted.add(prefix)
                prefix.used_at = max(prefix.used_at, step)
            ready = not shares or prefix.computed == prefix.tokens
            if not ready and prefix not in prefixes and chunk:
                tokens = min(chunk, prefix.tokens - prefix.computed)
                prefixes[prefix] = PrefixRow(prefix, tokens)
                kv.compute_prefix(prefix, tokens)
                chunk -= tokens
                needed -= tokens
                ready = prefix.ready
            if ready:
                back = kv.copy_back(context) if context.hosted else 0
                missing, needed = missing - back, needed - back
                due = missing
                if generation.evicts:
                    # What follows the prompt reads what is left of it.
                    due = generation.prompt_tokens - context.computed
                decodes = due <= generation.brought
                tokens = due if decodes else min(chunk, due)
                if tokens:
                    chunk -= tokens if tokens > generation.brought else 0
                    rows.append(Row(generation, tokens, tokens == missing, decodes))
                    kv.compute(context, tokens)
                    needed -= tokens
            needed += copied
            promised += needed
        if not running:
            return None
        copied_now = kv.copied - copied_before
        return StepPlan(tuple(prefixes.values()), tuple(rows), tuple(running), copied_now)

    def _make_room(
        self,
        needed: int,
        keep: Collection[Prefix],
        chosen: list[Generation],
        place: int,
        everyone: Iterable[Generation],
    ) -> bool:
        """Drop KV that matters less than that of ``chosen[place]`` until there is room."""
        running = set(chosen)
        first = list(self.spill_first())
        missing = self._kv.used + needed - self._kv.capacity - sum(it.held for it in first)
        others = [item for item in everyone if item not in running and item.context.computed]
        others = self._generations.drop_order(others, missing)
        return self._kv.make_room(
            needed,
            keep,
            [*first, *(item.context for item in others + chosen[:place:-1])],
            drop=self._drop,
            drop_prefix=lambda prefix: self._backend.drop_prefix(prefix.key),
        )

    def _drop(self, context: Context) -> None:
        generation = self._generations.get(context.name)
        if generation is not None and not generation.request.background:
            self._kv.copy_out(context)
        self._backend.drop(context.name)
        self._generations.lose_kv(context.name)
