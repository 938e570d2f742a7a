"""The heart that engines share: commands in, one step's plan out, its tokens in, events out.

It has no thread, no clock and no model. An engine drives it::

    core.submit(request, now_s)
    plan = core.plan(now_s)
    outputs = ...                       # compute plan.prefixes and plan.rows, in that order
    core.complete(plan, outputs, started_s, ended_s)
    for event in core.take_events(): ...
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timely_llm_ros.engines.core.batching import PREFILL_CHUNK, Batcher
from timely_llm_ros.engines.core.kv_ledger import KvLedger
from timely_llm_ros.engines.core.remaining_lengths import PlanLengths
from timely_llm_ros.engines.core.segment_forecast import Outlook
from timely_llm_ros.engines.core.snapshot import states_of
from timely_llm_ros.engines.core.step import Generation
from timely_llm_ros.engines.engine import (
    EngineState,
    EngineStateChanged,
    EvictionDecided,
    GenerationEnded,
    SegmentGenerated,
)
from timely_llm_ros.errors import EngineError, PlanError, TimelyError
from timely_llm_ros.scheduling import GenerationTable, Phase, SchedulingOptions, StepTimes
from timely_llm_ros.skills import segmenter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from timely_llm_ros.engines.core.step import Backend, Output, StepPlan
    from timely_llm_ros.engines.engine import EndReason, EngineEvent, GenerationRequest
    from timely_llm_ros.scheduling import ServingMode
    from timely_llm_ros.skills import Segment, TextSegmenter

STATE_PERIOD_S = 0.1
"""Least time between two state events."""

REPEATED = 'submitted a second time'
"""Error of a generation whose id is submitted again."""


class EngineCore:
    """Generations, their scheduling, their segments and the KV account.

    Args:
        backend: The model's side.
        mode: The serving mode.
        policy: Name of the policy in mode ``segmented``.
        max_running: Most generations in one step.
        max_kv_tokens: The bound on KV.
        context_limit: Most tokens that one context may have.
        prefill_chunk: Most prompt tokens computed in one step, so that decoding goes on.
        segmenter: Makes a generation's segmenter; by default the one that its skill set asks for.
        scheduling: Further options of the scheduler.
        kv: The account of KV, where another core shares it.

    Raises:
        ConfigurationError: There is no such policy.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        mode: ServingMode = 'segmented',
        policy: str = 'utility',
        max_running: int = 8,
        max_kv_tokens: int = 65536,
        context_limit: int = 1 << 30,
        prefill_chunk: int = PREFILL_CHUNK,
        segmenter: Callable[[GenerationRequest], TextSegmenter] | None = None,
        scheduling: SchedulingOptions | None = None,
        kv: KvLedger | None = None,
    ) -> None:
        self._backend = backend
        self._mode: ServingMode = mode
        self._table = GenerationTable()
        self._step_times = StepTimes()
        options = scheduling or SchedulingOptions()
        self._scheduler = options.scheduler(
            self._table, self._step_times, policy=policy, max_running=max_running, mode=mode
        )
        self._kv = KvLedger(max_kv_tokens) if kv is None else kv
        self._lengths = PlanLengths(self._table, self._kv, needed=policy == 'srpt')
        self._outlook = Outlook(self._table, options.costs(), self._step_times, self._lengths)
        self._context_limit = min(context_limit, max_kv_tokens)
        self._batcher = Batcher(self._kv, backend, self._table, prefill_chunk)
        self._segmenter = segmenter or self._default_segmenter
        self._generations: dict[str, Generation] = {}
        self._running: list[Generation] = []
        self._events: list[EngineEvent] = []
        self._step_s = 0.0
        self._changed = False
        self._state_at_s = -math.inf

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._generations

    # Commands ------------------------------------------------------------------------------------

    def submit(self, request: GenerationRequest, now_s: float) -> None:
        """Queue a generation; one that cannot be served ends with ``error``."""
        generation_id = request.generation_id
        if generation_id in self._generations:
            # Ending the new one would read as the end of the old one, so the old one goes first.
            self._end(self._generations[generation_id], 'error', REPEATED)
        try:
            if not (request.predicted_tokens is None or request.predicted_tokens > 0):
                raise EngineError(
                    f'predicted length {request.predicted_tokens!r}: expected a number > 0 or None'
                )
            key, prefix_tokens, own_tokens = self._backend.open(request)
        except EngineError as err:
            self._events.append(GenerationEnded(generation_id, 'error', str(err), 0, 0.0))
            return
        generation = Generation(
            request,
            self._kv.open(generation_id, key, prefix_tokens, own_tokens),
            self._segmenter(request),
        )
        if request.eviction is not None and self._backend.evicts:
            generation.evicted = None
        self._generations[generation_id] = generation
        self._table.add(generation_id, request.utility, request.arrival_s)
        self._lengths.begin(generation, request.predicted_tokens)
        self._outlook.begin_segment(generation, len(self._running))
        self._changed = True
        if prefix_tokens + own_tokens >= self._context_limit:
            self._end(
                generation,
                'error',
                f'prompt of {prefix_tokens + own_tokens} tokens: expected fewer than '
                f'{self._context_limit}, the limit of the model and of max_kv_tokens',
            )

    def predict(self, generation_id: str, tokens: float) -> None:
        """Take the first prediction of a plan's whole length (tokens)."""
        generation = self._generations.get(generation_id)
        if generation is not None:
            self._lengths.predict(generation, tokens)

    def refine(self, remaining_tokens: Mapping[str, float]) -> None:
        """Take later predictions of how many tokens are left of plans."""
        self._lengths.refine(remaining_tokens)

    def suspend(self, generation_id: str, now_s: float) -> None:
        """Hold a generation until it is resumed."""
        generation = self._generations.get(generation_id)
        if generation is not None:
            self._set_phase(generation, Phase.HELD)

    def resume(self, generation_id: str, observation: str | None, now_s: float) -> None:
        """Let a held generation compete again, with the value that it waits for."""
        generation = self._generations.get(generation_id)
        if generation is None:
            return
        if observation is not None and generation.awaits_value:
            try:
                text = generation.segmenter.observe(observation)
                generation.context.tokens += self._backend.observe(generation_id, text)
            except TimelyError as err:
                self._end(generation, 'error', f'observation {observation[:60]!r}: {err}')
                return
            generation.awaits_value = False
        if not generation.awaits_value and self._phase(generation) is Phase.HELD:
            started = generation.context.computed or generation.tokens
            self._set_phase(generation, Phase.SUSPENDED if started else Phase.QUEUED)

    def robot_idle_at(self, generation_id: str, idle_at_s: float) -> None:
        """Correct when the generation's robot runs out of work."""
        if generation_id in self._generations:
            self._table.set(generation_id, 'due_s', idle_at_s)

    def cancel(self, generation_id: str, now_s: float) -> None:
        """End a generation with ``canceled``."""
        generation = self._generations.get(generation_id)
        if generation is not None:
            self._end(generation, 'canceled', '')

    # Steps ---------------------------------------------------------------------------------------

    def plan(self, now_s: float) -> StepPlan | None:
        """Choose the next step's work; None where nothing can run."""
        while True:
            chosen = [self._generations[name] for name in self._scheduler.select(now_s)]
            plan = self._batcher.fit(chosen, self._generations.values())
            if plan is not None:
                self._mark_running(list(plan.running))
            if plan is not None or not chosen:
                return plan
            # Even the best-ranked one alone does not fit.
            self._end(
                chosen[0],
                'error',
                f'context of {chosen[0].context.prefix.tokens + chosen[0].context.tokens} tokens: '
                f'expected at most {self._kv.capacity}, max_kv_tokens',
            )

    def complete(
        self, plan: StepPlan, outputs: Sequence[Output], started_s: float, ended_s: float
    ) -> None:
        """Take a step's tokens.

        Args:
            plan: The step.
            outputs: One for each row that samples, in the rows' order.
            started_s: When the step began.
            ended_s: When its tokens were known.
        """
        self._step_s = ended_s - started_s
        self._outlook.observe(plan, self._step_s)
        for generation in self._running:
            generation.segment_s += self._step_s
            generation.total_s += self._step_s
        sampling = [row.generation for row in plan.rows if row.samples]
        for generation, output in zip(sampling, outputs, strict=True):
            # An engine may take commands while a step is under way, so it may have ended.
            if not generation.ended:
                self._take(generation, output, ended_s)
        for row in plan.rows:
            if row.generation.evicts and not row.generation.ended:
                self._evict(row.generation, ended_s)
        self._outlook.step(self._running, len(self._running))
        self._changed = True

    # Answers -------------------------------------------------------------------------------------

    def take_events(self) -> list[EngineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def take_state(self, now_s: float, *, at_once: bool = False) -> EngineStateChanged | None:
        """Return the state where it changed and the last one is ``STATE_PERIOD_S`` ago.

        ``at_once`` does not wait for that, for an engine that goes to sleep.
        """
        if not self._changed or not (at_once or now_s >= self._state_at_s + STATE_PERIOD_S):
            return None
        self._changed = False
        self._state_at_s = now_s
        return EngineStateChanged(self.state(now_s))

    @property
    def state_due_s(self) -> float | None:
        """When :meth:`take_state` has something next; None where nothing changed."""
        return self._state_at_s + STATE_PERIOD_S if self._changed else None

    def state(self, now_s: float) -> EngineState:
        """Return a snapshot."""
        return EngineState(
            self._table.count(Phase.RUNNING),
            self._table.count(Phase.SUSPENDED),
            self._table.count(Phase.HELD),
            self._table.count(Phase.QUEUED),
            self._kv.used,
            self._kv.capacity,
            self._step_s,
            states_of(self._generations.values(), self._table, self._lengths, now_s),
            self._kv.spilled,
        )

    def due_s(self, generation_id: str) -> float:
        """Return when a generation's next segment is due (s)."""
        generation = self._generations[generation_id]
        due_s = self._table.get(generation_id, 'due_s')
        if not generation.segments:
            due_s += generation.request.utility.expected_response_s
        return due_s

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV is held."""
        return self._kv.used

    @property
    def waiting(self) -> int:
        """Generations that compete for the engine and are not in the latest step."""
        return self._table.count(Phase.QUEUED) + self._table.count(Phase.SUSPENDED)

    @property
    def running(self) -> list[str]:
        """Generations of the latest step that go on if they are chosen again."""
        return self._table.ids_in(Phase.RUNNING)

    @property
    def spilled(self) -> int:
        """Times that a generation's KV was dropped for lack of room."""
        return self._kv.spilled

    # The parts -----------------------------------------------------------------------------------

    def _default_segmenter(self, request: GenerationRequest) -> TextSegmenter:
        whole_plan = self._mode == 'whole_plan'
        return segmenter_for(request.skill_set, request.scene, whole_plan=whole_plan)

    def _mark_running(self, running: list[Generation]) -> None:
        """Give those in the step their phase; interrupted ones are suspended."""
        phase = self._table.column('phase')
        phase[phase == Phase.RUNNING] = Phase.SUSPENDED
        ids = [generation.generation_id for generation in running]
        self._table.set_many(ids, 'phase', Phase.RUNNING)
        self._running = running

    def _take(self, generation: Generation, output: Output, now_s: float) -> None:
        """Take one new token."""
        try:
            if output.error:
                self._end(generation, 'error', output.error)
                return
            if output.ended and not output.text:
                for segment in generation.segmenter.finish():
                    self._emit(generation, segment, now_s)
                self._end(generation, 'stop', '')
                return
            generation.tokens += 1
            generation.context.tokens += 1
            segments = generation.segmenter.push(output.text, 1)
            if output.ended:
                segments += generation.segmenter.finish()
        except PlanError as err:
            self._end(generation, 'invalid_plan', str(err))
            return
        for segment in segments:
            self._emit(generation, segment, now_s)
        if generation.segmenter.error is not None:
            self._end(generation, 'invalid_plan', str(generation.segmenter.error))
            return
        if output.ended:
            self._end(generation, 'stop', '')
            return
        context = generation.context
        limit = self._context_limit
        if (
            generation.tokens >= generation.request.max_tokens
            or context.prefix.tokens + context.tokens > limit
        ):
            self._end(generation, 'length', '')
        elif segments:
            self._outlook.begin_segment(generation, len(self._running))
            if segments[-1].awaits_value:
                generation.awaits_value = True
                self._set_phase(generation, Phase.HELD)
            elif self._mode == 'segmented' and self._phase(generation) is Phase.RUNNING:
                self._set_phase(generation, Phase.SUSPENDED)
        else:
            generation.segment_tokens += 1

    def _evict(self, generation: Generation, now_s: float) -> None:
        """Give up a part of a prompt's KV once all of it is computed."""
        context, rule = generation.context, generation.request.eviction
        if rule is None or context.computed != generation.prompt_tokens:
            return
        prompt_tokens = context.prefix.tokens + generation.prompt_tokens
        asked = generation.evicted is None
        if generation.evicted is None:
            generation.evicted = prompt_tokens - min(prompt_tokens, rule.keep(prompt_tokens, now_s))
        if generation.evicted and self._kv.evict(context, generation.evicted):
            self._backend.evict(generation.generation_id, generation.evicted)
        else:
            generation.evicted = 0
        if asked:
            name = generation.generation_id
            self._events.append(EvictionDecided(name, now_s, prompt_tokens, generation.evicted))

    def _emit(self, generation: Generation, segment: Segment, now_s: float) -> None:
        """Send a segment."""
        name, made_s = generation.generation_id, generation.segment_s
        sent = SegmentGenerated(name, segment, now_s, made_s, generation.kv_tokens)
        self._events.append(sent)
        self._outlook.end_segment(generation, segment, now_s)

    def _end(self, generation: Generation, reason: EndReason, error: str) -> None:
        """Forget a generation, free its KV and say so."""
        name = generation.generation_id
        generation.ended = True
        del self._generations[name]
        self._lengths.end(generation, complete=reason == 'stop')
        self._table.remove(name)
        self._kv.close(generation.context)
        if generation in self._running:
            self._running.remove(generation)
        token_ids = self._backend.close(name)
        self._events.append(
            GenerationEnded(name, reason, error, generation.tokens, generation.total_s, token_ids)
        )
        self._changed = True

    def _phase(self, generation: Generation) -> Phase:
        return self._table.phase(generation.generation_id)

    def _set_phase(self, generation: Generation, phase: Phase) -> None:
        self._table.set(generation.generation_id, 'phase', phase)
        self._changed = True
