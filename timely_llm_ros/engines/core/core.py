"""An engine core for a model whose steps are ours: commands and tokens in, plans and events out.

It has no thread, no clock and no model. An engine drives it::

    core.apply(Submit(request))
    plan = core.plan(now_s)
    outputs = ...                       # compute plan.prefixes and plan.rows, in that order
    core.complete(plan, outputs, started_s, ended_s)
    for event in core.take_events(): ...
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.engines.core.batching import Batcher
from timely_llm_ros.engines.core.drafting import Drafting
from timely_llm_ros.engines.core.generations import Generations
from timely_llm_ros.engines.core.kv_ledger import KvLedger
from timely_llm_ros.engines.core.options import CoreOptions
from timely_llm_ros.engines.engine import EvictionDecided
from timely_llm_ros.scheduling import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.core.drafting import Drafter
    from timely_llm_ros.engines.core.step import (
        Backend,
        Brought,
        Generation,
        Output,
        Row,
        StepPlan,
    )
    from timely_llm_ros.engines.engine import EngineEvent, EngineState


class EngineCore:
    """Generations, and the steps in which a model computes them within the bound on KV.

    Args:
        backend: The model's side.
        options: How generations are scheduled, and the bounds.
        kv: The account of KV, where another core shares it; None for an account of its own.
        first_step: Number of the step before the first one.
        drafter: Guesses tokens, so that some take no step of their own; None for nobody.

    Raises:
        ConfigurationError: There is no such policy.
    """

    def __init__(
        self,
        backend: Backend,
        options: CoreOptions | None = None,
        *,
        kv: KvLedger | None = None,
        first_step: int = 0,
        drafter: Drafter | None = None,
    ) -> None:
        options = options or CoreOptions()
        self.kv = KvLedger(options.max_kv_tokens) if kv is None else kv
        """The account of KV."""
        self.generations = Generations(
            backend,
            self.kv,
            options,
            context_limit=min(options.context_limit, self.kv.capacity),
        )
        """The generations."""
        self.batcher = Batcher(
            self.kv, backend, self.generations, options.prefill_chunk, first_step
        )
        """Makes the steps."""
        self._backend = backend
        self._drafting: Drafting | None = None
        if drafter is not None:
            self._drafting = Drafting(drafter, self.kv, self.generations.context_limit)

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self.generations

    def apply(self, command: Command) -> None:
        """Do what a command asks for; one that names no generation of these is ignored."""
        self.generations.apply(command)

    def refine(self, remaining_tokens: Mapping[str, float]) -> None:
        """Take later predictions of how many tokens are left of plans."""
        self.generations.refine(remaining_tokens)

    def plan(self, now_s: float) -> StepPlan | None:
        """Choose the next step's work; None where nothing can run."""
        self._drop_worthless(now_s)
        while True:
            chosen = self.generations.choose(now_s)
            plan = self.batcher.fit(chosen, self.generations)
            if plan is not None:
                self.generations.run(list(plan.running))
                if self._drafting is not None:
                    plan = self._drafting.extend(plan)
            if plan is not None or not chosen:
                return plan
            # Even the best-ranked one alone does not fit.
            context = chosen[0].context
            self.generations.end(
                chosen[0],
                'error',
                f'context of {context.prefix.tokens + context.tokens} tokens: '
                f'expected at most {self.kv.capacity}, max_kv_tokens',
            )

    def complete(
        self, plan: StepPlan, outputs: Sequence[Output], started_s: float, ended_s: float
    ) -> None:
        """Take a step's tokens: an output for each row that samples, in the rows' order."""
        generations = self.generations
        step_s = generations.step_s = ended_s - started_s
        if self._drafting is not None:
            self._drafting.take_back(plan)
        begun = [
            row.generation
            for row in plan.rows
            if row.generation.context.computed - row.tokens in (0, row.generation.lent)
        ]
        self._observe(plan, step_s, len(begun))
        generations.spend(generations.current, step_s, begun)
        sampling = [row for row in plan.rows if row.samples]
        for row, output in zip(sampling, outputs, strict=True):
            generation = row.generation
            # An engine may take commands while a step is under way, so it may have ended.
            if not generation.ended:
                self._take(
                    generation, chain((output,), self._behind(row, generation.segments)), ended_s
                )
                if self._drafting is not None:
                    self._drafting.settle(row)
        for row in plan.rows:
            if row.generation.evicts and not row.generation.ended:
                self._evict(row.generation, ended_s)
        generations.count(generations.current)

    def take_steps(self, generation: Generation, steps: Sequence[Brought], now_s: float) -> None:
        """Take what steps brought ahead of the value that was waited for, as if they came now.

        What is learned from steps and segments is what it would be if the value had come first.
        """
        for step in steps:
            self.generations.spend([generation], step.step_s)
            outputs = iter(step.outputs)
            if step is steps[-1]:
                outputs = chain(outputs, self.following(generation))
            self._take(generation, outputs, now_s)
            if not generation.ended:
                self.generations.count([generation])

    def take_events(self) -> list[EngineEvent]:
        """Return the events since the last call, oldest first."""
        return self.generations.take_events()

    def state(self, now_s: float) -> EngineState:
        """Return a snapshot."""
        return self.generations.state(now_s)

    def following(self, generation: Generation) -> Iterator[Output]:
        """Append the tokens that must follow; the next step computes them with the latest one."""
        while (output := self._backend.fast_forward(generation.generation_id)) is not None:
            yield output

    def _behind(self, row: Row, segments: int) -> Iterator[Output]:
        """Append what comes behind a step's first token.

        Nothing is chosen behind a segment's end: so many ``segments`` were complete before.
        """
        generation = row.generation
        yield from self.following(generation)
        if row.drafted and self._drafting is not None and generation.segments == segments:
            output = self._drafting.verified(generation.generation_id)
            if output is not None:
                yield output
                yield from self.following(generation)

    def _drop_worthless(self, now_s: float) -> None:
        """End those that are not begun and whose first segment would not be wanted any more.

        One that has the engine to itself is tried whatever is expected: its time is nobody else's,
        and what was learned of others or under load may not hold for it.
        """
        generations, table = self.generations, self.generations.table
        if not np.isfinite(table.column('worthless_s')).any():
            return
        ready_s = now_s + table.column('expected_generation_s') * (len(generations) > 1)
        late = (ready_s >= table.column('worthless_s')) & (table.column('phase') == Phase.QUEUED)
        late &= table.column('segment_index') == 0
        for generation in [one for one in generations if late[table.row(one.generation_id)]]:
            utility = generation.request.utility
            least_s = now_s - generation.request.arrival_s + generation.expected_s
            generations.end(
                generation,
                'worthless',
                f'not begun after {now_s - generation.request.arrival_s:.2f} s: its first action '
                f'would come after {least_s:.2f} s at the soonest, worth '
                f'{utility.first(least_s):.2f}: expected more than {utility.floor:g}',
            )

    def _take(self, generation: Generation, outputs: Iterable[Output], now_s: float) -> None:
        """Take what a step brought: a token that was chosen, and those that follow it."""
        generation.brought = 0
        for output in outputs:
            follows = generation.brought > 0 and not output.drafted
            generation.forwarded += follows
            generation.segment_forwarded += follows
            generation.brought += 1
            self.generations.take(generation, output, now_s)
            if generation.ended or generation.awaits_value:
                return

    def _observe(self, plan: StepPlan, step_s: float, begun: int) -> None:
        """Learn from how long a step took."""
        if plan.decodes_only:
            self.generations.step_times.observe(len(plan.rows), step_s)
            if self._drafting is not None:
                self._drafting.observe(plan, step_s)
        else:
            batch = sum(row.samples for row in plan.rows)
            self.generations.step_times.observe_prefill(batch, begun, step_s)

    def _evict(self, generation: Generation, now_s: float) -> None:
        """Give up a part of a prompt's KV once all of it is computed."""
        context, rule = generation.context, generation.request.eviction
        if rule is None or context.computed != generation.prompt_tokens:
            return
        prompt_tokens = context.prefix.tokens + generation.prompt_tokens
        asked = generation.evicted is None
        if generation.evicted is None:
            generation.evicted = prompt_tokens - min(prompt_tokens, rule.keep(prompt_tokens, now_s))
        if generation.evicted and self.kv.evict(context, generation.evicted):
            self._backend.evict(generation.generation_id, generation.evicted)
        else:
            generation.evicted = 0
        if asked:
            name = generation.generation_id
            self.generations.tell(EvictionDecided(name, now_s, prompt_tokens, generation.evicted))
