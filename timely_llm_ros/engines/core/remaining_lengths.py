"""What is expected of each generation's length: from its first prediction to its latest.

Predictions come from whoever submits a generation, from a predictor that reads its prompt, and
from a probe that watches it being generated. Between two of them a generation's remaining length
falls by one with every token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.engines.core.kv_account import KvAccount
    from timely_llm_ros.engines.core.step import Generation
    from timely_llm_ros.scheduling import GenerationTable

UNKNOWN_TOKENS = 64.0
"""What is expected of a plan before any plan has ended and without a prediction (tokens)."""

_WEIGHT = 0.1


class RemainingLengths:
    """Keeps the table's columns of lengths.

    It keeps them only once ranks need them or something was predicted, so that steps stay short.
    """

    def __init__(self, table: GenerationTable, kv: KvAccount) -> None:
        self._table = table
        self._kv = kv
        self._needed = False
        self._mean_tokens = 0.0
        self._remaining: dict[str, float] = {}
        self._predicted: set[str] = set()
        self._tight = False

    def begin(self, generation: Generation, predicted_tokens: float | None) -> None:
        """Note a new generation and what its sender predicts; None where it does not.

        Raises:
            ConfigurationError: A prediction is not above 0.
        """
        name = generation.generation_id
        for column in ('predicted_tokens', 'remaining_tokens'):
            self._table.set(name, column, self._mean_tokens or UNKNOWN_TOKENS)
        if predicted_tokens is not None:
            self.predict(generation, predicted_tokens)

    def predict(self, generation: Generation, tokens: float) -> None:
        """Take a first prediction of a plan's whole length (tokens); only the first one counts.

        Raises:
            ConfigurationError: It is not above 0.
        """
        if not tokens > 0:
            raise ConfigurationError(f'predicted length {tokens!r}: expected a number > 0')
        name = generation.generation_id
        if name in self._predicted:
            return
        self._needed = True
        self._predicted.add(name)
        self._table.set(name, 'predicted_tokens', tokens)
        # What watched it being generated knows better what is left.
        left = self._remaining.setdefault(name, max(1.0, tokens - generation.tokens))
        self._table.set(name, 'remaining_tokens', left)

    def refine(self, remaining_tokens: Mapping[str, float]) -> None:
        """Take later predictions of how many tokens are left of plans."""
        known = {name: it for name, it in remaining_tokens.items() if name in self._table}
        self._needed = True
        self._remaining.update(known)
        if known:
            self._table.set_many(known, 'remaining_tokens', list(known.values()))

    def require(self, generations: Sequence[Generation]) -> None:
        """Keep them from now on, as ranks need them; ``generations`` are all that there are."""
        if not self._needed:
            self._needed = True
            # Nothing was predicted so far, so this only makes up for what was not kept.
            self.step(generations)

    def step(self, running: Sequence[Generation]) -> None:
        """Count the tokens that a step brought."""
        if not self._needed:
            return
        table, remaining = self._table, self._remaining
        left = []
        for item in running:
            name = item.generation_id
            tokens = remaining.get(name)
            if tokens is None:
                left.append(max(1.0, table.get(name, 'predicted_tokens') - item.tokens))
            else:
                remaining[name] = tokens = max(1.0, tokens - item.brought)
                left.append(tokens)
        ids = [item.generation_id for item in running]
        table.set_many(ids, 'total_tokens', [item.tokens for item in running])
        table.set_many(ids, 'remaining_tokens', left)
        table.set_many(ids, 'pausable', [self._pausable(item) for item in running])
        tight = self._kv.tight
        if tight != self._tight:
            self._tight = tight
            between = (table.column('generated_tokens') == 0) & (table.column('segment_index') > 0)
            table.column('pausable')[:] = between & (not tight)

    def between_segments(self, generation: Generation) -> None:
        """Note that a segment has ended and the plan goes on."""
        self._table.set(generation.generation_id, 'pausable', not self._tight)

    def end(self, generation: Generation, *, complete: bool) -> None:
        """Forget a generation; learn from its length if its plan is complete."""
        self._remaining.pop(generation.generation_id, None)
        self._predicted.discard(generation.generation_id)
        if complete:
            mean = self._mean_tokens or generation.tokens
            self._mean_tokens = mean + _WEIGHT * (generation.tokens - mean)

    def remaining(self, name: str) -> float | None:
        """Return how much of a plan is predicted to be left (tokens); None without a prediction."""
        return self._remaining.get(name)

    def _pausable(self, generation: Generation) -> bool:
        return not (generation.segment_tokens or self._tight) and generation.segments > 0
