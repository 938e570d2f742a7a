"""The torch side of the engine core: token ids, KV slots, grammar states, forward passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from timely_llm_ros.engines.core import Output
from timely_llm_ros.engines.texts import WrittenPlan
from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.engines.torch.compute.drafts import PlanDrafter
from timely_llm_ros.engines.torch.compute.eviction import QueryWindow
from timely_llm_ros.engines.torch.compute.layout import Part, lay_out
from timely_llm_ros.engines.torch.compute.sampling import choose, draw
from timely_llm_ros.engines.torch.compute.sequences import Prefix, Sequence
from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills import common_start
from timely_llm_ros.skills.grammar import decoding_grammar

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core import EvictionMethod, Row, StepPlan
    from timely_llm_ros.engines.torch.compute.fused import ForwardPass
    from timely_llm_ros.engines.torch.compute.layout import Inputs
    from timely_llm_ros.engines.torch.compute.model import LoadedModel

    Scores = NDArray[np.float32]


@dataclass(slots=True)
class _Begun:
    """A step that was interrupted, or may be; ``names`` are the generations that sample."""

    plan: StepPlan
    names: list[str]
    work: ForwardPass


class TorchBackend:
    """Generations on a loaded model.

    Args:
        loaded: The model.
        observations: Whether grammars demand observations after blocking calls.
        eviction: Chooses what is kept of a prompt where a request's rule evicts; None keeps all.
        sampling: How tokens are chosen; None for the likeliest always.
        pauses: Whether steps may be interrupted between layers, if the model can.
        fast_forward: Whether tokens that the grammar leaves no choice about take no step.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        observations: bool = True,
        eviction: EvictionMethod | None = None,
        sampling: Sampling | None = None,
        pauses: bool = True,
        fast_forward: bool = True,
    ) -> None:
        self._model = loaded
        self._texts = loaded.texts
        self._pool = loaded.pool
        self._observations = observations
        self._eviction = eviction
        self._sampling = sampling or Sampling()
        self.pauses = pauses and loaded.fused is not None
        """Whether a step can be interrupted between two layers and go on from there."""
        self._fast_forward = fast_forward
        self._begun: _Begun | None = None
        self._prefixes: dict[str, Prefix] = {}
        self._sequences: dict[str, Sequence] = {}
        self.drafter = PlanDrafter(self._sequences, self._texts, self._pool, self._choose)
        """Guesses the next tokens of plans."""
        self.computed_tokens = 0
        """Tokens computed since the start, prefixes included."""
        self.computed_prefixes = 0
        """Prefixes whose KV was begun since the start."""
        self.sampled: tuple[list[str], list[int]] = [], []
        """Generations that sampled in the latest step, and their tokens' places in it."""

    @property
    def evicts(self) -> bool:
        """Whether it can evict."""
        return self._eviction is not None

    @property
    def prefixes(self) -> list[str]:
        """Fixed texts whose KV is there, or will be."""
        return list(self._prefixes)

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        """Tokenise the prompt and prepare the grammar.

        Raises:
            EngineError: The prompt is empty or the grammar cannot be compiled.
        """
        prefix, ids = self._tokens(request)
        grammar = None
        if request.constrained and request.forced_token_ids is None:
            # No robot executes a background plan, so no value ever comes back.
            observed = self._observations and not request.background
            rules = decoding_grammar(request.skill_set, request.scene, observations=observed)
            limit = min(self._model.context_limit, self._pool.capacity)
            room = limit - len(prefix.ids) - len(ids)
            grammar = self._texts.matcher(request, rules, whole_plan=not observed, room=room)
        self._prefixes[prefix.key] = prefix
        sequence = Sequence(prefix, ids, grammar, request.forced_token_ids, request.generation_id)
        if grammar is not None and request.skill_set.free_text is None:
            sequence.written = WrittenPlan(request.skill_set.name)
        if request.eviction is not None and self._eviction is not None and self._eviction.window:
            sequence.window = QueryWindow(self._eviction.window)
        self._sequences[request.generation_id] = sequence
        return prefix.key, len(prefix.ids), len(ids)

    def _tokens(self, request: GenerationRequest) -> tuple[Prefix, list[int]]:
        key = request.prompt.key
        prefix = self._prefixes.get(key)
        if prefix is None:
            prefix = Prefix(key, self._texts.fixed_ids(request.prompt))
        return prefix, self._texts.body_ids(request.prompt, beginning=not prefix.ids)

    def warm(self, request: GenerationRequest) -> tuple[str, int, int, int]:
        """Tokenise what a robot's prompts begin with, and compile the grammar of its plans.

        Raises:
            EngineError: It is empty or the grammar cannot be compiled.
        """
        prefix, ids = self._tokens(request)
        rules = decoding_grammar(request.skill_set, request.scene, observations=self._observations)
        self._texts.matcher(request, rules, whole_plan=not self._observations, room=len(ids))
        name, kept = request.generation_id, 0
        scene = Sequence(prefix, ids, None, None)
        old = self._sequences.get(name)
        if old is not None and old.prefix is prefix:
            kept = common_start(old.ids[: old.computed], ids)
        if old is not None and kept:
            self._pool.free(old.slots.cut(len(prefix.ids) + kept))
            scene.slots = old.slots
        elif old is not None:
            self.close(name)
        self._prefixes[prefix.key], self._sequences[name] = prefix, scene
        return prefix.key, len(prefix.ids), len(ids), kept

    def common(self, giver: str, taker: str) -> int:
        """Return how many tokens of its own a generation could take over from another's KV.

        Queries that eviction asks for are the taker's own to compute.
        """
        one, other = self._sequences[giver], self._sequences[taker]
        if one.prefix is not other.prefix:
            return 0
        last = len(other.ids) if other.window is None else other.prompt - other.window.size
        return common_start(one.ids[: one.computed], other.ids[: max(0, last)])

    def move(self, giver: str, taker: str) -> None:
        """Make all of a generation's own KV another's, which has none."""
        one, other = self._sequences[giver], self._sequences[taker]
        one.slots, other.slots = other.slots, one.slots

    def observe(self, generation_id: str, text: str) -> int:
        """Append an observation.

        Raises:
            EngineError: The grammar does not allow it.
        """
        sequence = self._sequences[generation_id]
        ids = self._texts.encode(text)
        if sequence.grammar is not None:
            sequence.grammar.take(ids, observed=True)
        if sequence.written is not None:
            sequence.written.go_on(text)
        sequence.ids.extend(ids)
        return len(ids)

    def fork(self, generation_id: str, branch_id: str, observation: str) -> int:
        """Begin a branch behind an observation, whose prefix is what is computed of its plan.

        Raises:
            EngineError: The grammar does not allow the observation.
        """
        plan = self._sequences[generation_id]
        self._sequences[branch_id] = plan.fork(branch_id)
        try:
            return self.observe(branch_id, observation)
        except EngineError:
            del self._sequences[branch_id]
            raise

    def join(self, generation_id: str, branch_id: str) -> None:
        """Make what a branch wrote its plan's own, and its KV unless that was dropped."""
        self._sequences[generation_id].join(self._sequences.pop(branch_id))

    def evict(self, generation_id: str, tokens: int) -> None:
        """Keep a generation's own copy of what matters in its prompt, and free its part of it.

        Keys stay rotated to their positions, and what follows goes on from the prompt's length.
        """
        sequence = self._sequences[generation_id]
        if self._eviction is None:
            raise RuntimeError('eviction without a method: expected none to be asked for')
        old, window = sequence.slots.array.copy(), sequence.window
        with torch.inference_mode():
            if sequence.kept is None:
                sequence.kept = self._pool.select(old, self._eviction, window, len(old) - tokens)
                sequence.window = None
            copies = self._pool.gather(old, sequence.kept)
            self._pool.free(sequence.slots.cut(len(sequence.prefix.ids)))
            sequence.slots.cut(0)
            sequence.slots.extend(self._pool.allocate(len(old) - tokens))
            self._pool.scatter(sequence.slots.array, copies)
        sequence.evicted = tokens

    def drop(self, generation_id: str) -> None:
        """Free a generation's own KV."""
        sequence = self._sequences[generation_id]
        if sequence.slots:
            shared = 0 if sequence.evicted else len(sequence.prefix.ids)
            self._pool.free(sequence.slots.cut(shared))
            sequence.slots.cut(0)
            sequence.evicted = 0
        if sequence.window is not None:
            sequence.window = QueryWindow(sequence.window.size)

    def drop_prefix(self, key: str) -> None:
        """Free a prefix's KV and forget it where no generation uses it."""
        prefix = self._prefixes[key]
        self._pool.free(prefix.slots.cut(0))
        self._forget_unused(prefix)

    def close(self, generation_id: str) -> tuple[int, ...]:
        """Forget a generation and return what it generated."""
        self.drop(generation_id)
        sequence = self._sequences.pop(generation_id)
        if generation_id == sequence.name:
            self.drafter.learn(sequence)
        if not sequence.prefix.slots:
            self._forget_unused(sequence.prefix)
        return tuple(sequence.generated)

    def _forget_unused(self, prefix: Prefix) -> None:
        if not any(sequence.prefix is prefix for sequence in self._sequences.values()):
            del self._prefixes[prefix.key]

    def pad(self, generation_id: str) -> None:
        """Give an ended generation one more token to compute, which is no part of its text."""
        self._sequences[generation_id].ids.append(next(iter(self._texts.end_ids)))

    def execute(self, plan: StepPlan) -> list[Output]:
        """Compute one step; return an output for each row that samples."""
        names, rows, inputs = self._lay_out(plan)
        drafts = {row.generation.generation_id: row.drafted for row in plan.rows if row.drafted}
        places = dict(zip(names, rows, strict=True))
        behind = [places[name] + tokens for name, tokens in drafts.items()]
        with torch.inference_mode():
            logits = self._model.forward(*inputs, rows + behind)
            self.sampled = names, rows
            scores = self._scores(logits)
        self.drafter.computed(drafts, scores[len(names) :])
        return self._sample(names, scores[: len(names)])

    def advance(self, plan: StepPlan, stop: Callable[[], bool]) -> list[Output] | None:
        """Compute a step until ``stop`` interrupts it; return None where it did.

        The step goes on with the next call for the same plan. Other steps may be computed
        meanwhile, but none that reads what this one computes. A model that cannot pause computes
        the whole step.
        """
        model = self._model.fused
        if not self.pauses or model is None:
            return self.execute(plan)
        begun = self._begun
        if begun is None or begun.plan is not plan:
            names, rows, inputs = self._lay_out(plan)
            # Nobody asks for the states of what may be interrupted.
            begun = self._begun = _Begun(plan, names, model.begin(*inputs, rows))
        with torch.inference_mode():
            if not begun.work.advance(stop):
                return None
            self._begun = None
            scores = self._scores(begun.work.logits)
        return self._sample(begun.names, scores)

    def fast_forward(self, generation_id: str) -> Output | None:
        """Append the next token if its grammar allows no other; None where the model has a choice.

        What is appended is what a step would choose, likeliest or drawn.
        """
        sequence = self._sequences[generation_id]
        if not self._fast_forward or sequence.grammar is None:
            return None
        token = sequence.grammar.only
        return None if token is None else self._append(sequence, token, follows=True)

    def take_back(self, generation_id: str, tokens: int) -> None:
        """Free the KV of a generation's latest tokens, whose step was interrupted for good."""
        sequence = self._sequences[generation_id]
        if sequence.computed == tokens:
            self.drop(generation_id)
        else:
            self._pool.free(sequence.slots.cut(len(sequence.slots) - tokens))

    def _scores(self, logits: torch.Tensor) -> Scores:
        scores: Scores = logits[:, : self._texts.size].float().cpu().numpy()
        return scores

    def _lay_out(self, plan: StepPlan) -> tuple[list[str], list[int], Inputs]:
        """Give a step's tokens their KV slots and places.

        Returns the generations that sample, the places of their tokens, and the forward pass's
        inputs.
        """
        parts = [self._prefix_part(row.prefix.key, row.tokens) for row in plan.prefixes]
        parts += [self._own_part(row) for row in plan.rows]
        inputs, places = lay_out(parts, self._model.device)
        self.computed_tokens += len(inputs[0])
        names = [row.generation.generation_id for row in plan.rows if row.samples]
        return names, [places[name] for name in names], inputs

    def _prefix_part(self, key: str, tokens: int) -> Part:
        """Give a prefix slots for its next tokens."""
        prefix = self._prefixes[key]
        start = len(prefix.slots)
        self.computed_prefixes += not start
        prefix.slots.extend(self._pool.allocate(tokens))
        return Part(prefix.ids[start : start + tokens], start, prefix.slots)

    def _own_part(self, row: Row) -> Part:
        """Give a sequence slots for its next tokens."""
        name = row.generation.generation_id
        sequence = self._sequences[name]
        if not sequence.slots:
            sequence.slots.extend(sequence.prefix.slots.array)
        start, position = sequence.computed, sequence.position
        sequence.slots.extend(self._pool.allocate(row.tokens + row.drafted))
        ids = sequence.ids[start : start + row.tokens]
        return Part(
            ids if not row.drafted else [*ids, *sequence.draft.ids],
            position,
            sequence.slots,
            name if row.samples else None,
            sequence.observed_by,
            row.drafted,
        )

    def _sample(self, names: list[str], scores: Scores) -> list[Output]:
        """Choose each generation's next token."""
        return self._choose([self._sequences[name] for name in names], scores) if names else []

    def _choose(self, sequences: list[Sequence], scores: Scores) -> list[Output]:
        masks = np.full((len(sequences), self._texts.mask_words), -1, np.int32)
        for row, sequence in zip(masks, sequences, strict=True):
            if sequence.grammar is not None:
                row[:] = sequence.grammar.allowed
        sampling = self._sampling
        if sampling.greedy:
            chosen = choose(scores, masks)
        else:
            chances = [
                sampling.chance(sequence.name, len(sequence.generated)) for sequence in sequences
            ]
            chosen = draw(
                scores, masks, chances, temperature=sampling.temperature, top_p=sampling.top_p
            )
        return [
            self._append(sequence, token)
            for sequence, token in zip(sequences, chosen.tolist(), strict=True)
        ]

    def _append(self, sequence: Sequence, token: int, *, follows: bool = False) -> Output:
        """Append a token to its context: one that was chosen, or that must follow."""
        if sequence.forced is not None:
            if len(sequence.generated) == len(sequence.forced):
                return Output('', ended=True)
            token = sequence.forced[len(sequence.generated)]
        elif token < 0:
            return Output('', error='the grammar allows no token: expected at least an end')
        elif token in self._texts.end_ids:
            if sequence.written is not None:
                sequence.written.choose(token, '')
            return Output('', ended=True)
        sequence.ids.append(token)
        sequence.generated.append(token)
        if sequence.grammar is not None:
            try:
                sequence.grammar.take((token,))
            except EngineError as err:
                return Output('', error=str(err))
        text = sequence.text.push(self._texts.bytes_of(token))
        if (written := sequence.written) is not None:
            (written.follow if follows else written.choose)(token, text)
        return Output(text)
