"""Guesses the next tokens of plans from other plans that robots were given lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.texts import RecentPlans
from timely_llm_ros.engines.torch.compute.sequences import Draft
from timely_llm_ros.skills import common_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from timely_llm_ros.engines.core import Output
    from timely_llm_ros.engines.texts import TokenTexts
    from timely_llm_ros.engines.torch.compute.kv import KvPool
    from timely_llm_ros.engines.torch.compute.sequences import Sequence

    Scores = NDArray[np.float32]


class PlanDrafter:
    """Drafts for the sequences of a backend; see :class:`Drafter`.

    Args:
        sequences: The backend's, by generation.
        texts: The tokenizer.
        pool: Where their KV is.
        choose: Chooses and appends the next tokens of sequences by their scores.
    """

    def __init__(
        self,
        sequences: Mapping[str, Sequence],
        texts: TokenTexts,
        pool: KvPool,
        choose: Callable[[list[Sequence], Scores], list[Output]],
    ) -> None:
        self._sequences, self._texts, self._pool, self._choose = sequences, texts, pool, choose
        self._recent = RecentPlans()
        self.drafts = 0
        """Drafts that were computed so far."""
        self.came_true = 0
        """Those of them that saved a step."""

    def learn(self, sequence: Sequence) -> None:
        """Remember what was written."""
        if sequence.written is not None and sequence.written.runs:
            self._recent.learn(sequence.written)

    def draft(self, generation_id: str, most: int, worth: Callable[[float, int], bool]) -> int:
        """Guess what the next step will bring; return the number of tokens, 0 for no draft.

        With a statement's end a segment may end, and nothing is chosen behind it in the same step.
        """
        sequence = self._sequences[generation_id]
        sequence.draft = Draft()
        written, grammar = sequence.written, sequence.grammar
        # Queries that eviction asks for are the prompt's alone.
        if written is None or grammar is None or sequence.observed_by is not None:
            return 0
        mask = grammar.allowed
        found = self._recent.next(written, lambda it: bool(mask[it >> 5] >> (it & 31) & 1))
        if found is None:
            return 0
        run, chance = found
        if (
            run[0] in self._texts.end_ids
            or len(run) > most
            or not worth(chance, len(run))
            or written.ends_statement(self._texts.decode(run))
        ):
            return 0
        sequence.draft = Draft(run, len(sequence.ids))
        self.drafts += 1
        return len(run)

    def computed(self, names: Iterable[str], scores: Scores) -> None:
        """Take the scores behind the drafts of these generations, ``[drafts, tokens]``."""
        for number, name in enumerate(names):
            self._sequences[name].draft.scores = scores[number : number + 1]

    def verified(self, generation_id: str) -> Output | None:
        """Append the token that the model chooses behind a draft; None where it is another one."""
        sequence = self._sequences[generation_id]
        draft = sequence.draft
        if draft.scores is None:
            return None
        scores, draft.scores = draft.scores, None
        if tuple(sequence.ids[draft.start :]) != draft.ids:
            return None
        self.came_true += 1
        return self._choose([sequence], scores)[0]

    def settle(self, generation_id: str) -> int:
        """Free the KV of a draft's tokens that did not come true; return how many did."""
        sequence = self._sequences[generation_id]
        draft, sequence.draft = sequence.draft, Draft()
        added = sequence.ids[draft.start :]
        kept = min(common_start(added, draft.ids), len(added) - 1)
        self._pool.free(sequence.slots.cut(len(sequence.slots) - len(draft.ids) + kept))
        return kept
