"""An engine's generations, from submission to end: who is served next, and what comes of it.

All engines share this. An engine's core adds how its model's steps are made, and tells the
generations what each step brought.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import (
    Cancel,
    Reschedule,
    Resume,
    RobotIdleAt,
    Submit,
    Suspend,
)
from timely_llm_ros.engines.core.reading import read_cut, read_output
from timely_llm_ros.engines.core.remaining_lengths import RemainingLengths
from timely_llm_ros.engines.core.segment_forecast import SegmentForecast
from timely_llm_ros.engines.core.states import state_of
from timely_llm_ros.engines.core.step import Generation
from timely_llm_ros.engines.engine import EngineStateChanged, GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.tokens import StopText
from timely_llm_ros.errors import EngineError, TimelyError
from timely_llm_ros.scheduling import GenerationTable, Phase, StepTimes, drop_order, find_policy
from timely_llm_ros.skills import segmenter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.engines.core.kv_account import KvAccount
    from timely_llm_ros.engines.core.options import CoreOptions
    from timely_llm_ros.engines.core.reading import Reading
    from timely_llm_ros.engines.core.step import Backend, Output
    from timely_llm_ros.engines.engine import EndReason, EngineEvent, EngineState
    from timely_llm_ros.skills import Segment, TextSegmenter

STATE_PERIOD_S = 0.1
"""Least time between two state events."""

REPEATED = 'submitted a second time'
"""Error of a generation whose id is submitted again."""


class Generations:
    """The generations, their table and scheduler, their segments and their account of KV.

    ``segmenter`` makes a generation's segmenter; None for the one that its skill set asks for.

    Raises:
        ConfigurationError: There is no such policy.
    """

    def __init__(
        self,
        backend: Backend,
        kv: KvAccount,
        options: CoreOptions,
        *,
        context_limit: int,
        segmenter: Callable[[GenerationRequest], TextSegmenter] | None = None,
    ) -> None:
        self.mode = options.mode
        """The serving mode."""
        self.table = GenerationTable()
        """What the scheduler ranks by."""
        self.step_times = StepTimes()
        """How long steps take."""
        self.context_limit = context_limit
        """Most tokens that one context may have."""
        self.step_s = 0.0
        """Duration of the latest step (s)."""
        self.changed = False
        """Whether the state is another one than :meth:`take_state` last returned."""
        self.current: list[Generation] = []
        """Who is in the latest step and goes on if chosen again."""
        self.lost: dict[str, Generation] = {}
        """Plans that wait for a value and lost their KV; what they have of it again is spare."""
        self.restored = 0
        """How many of them had all of it again when the value came, so far."""
        self._backend = backend
        self._kv = kv
        self.stop_strings = options.stop_strings
        """Where one of them comes in a text, the text ends before it."""
        self._lengths = RemainingLengths(self.table, kv)
        self._forecast = SegmentForecast(
            self.table, options.scheduling.costs(), self.step_times, self._lengths
        )
        whole = self.mode == 'whole_plan'
        self._segmenter = segmenter or (
            lambda it: segmenter_for(it.skill_set, it.scene, whole_plan=whole)
        )
        self._by_id: dict[str, Generation] = {}
        self._schedule(options)
        self._events: list[EngineEvent] = []
        self._state_at_s = -math.inf

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Generation]:
        """Iterate over the generations in the order in which they came."""
        return iter(self._by_id.values())

    def get(self, generation_id: str) -> Generation | None:
        """Return a generation; None where it is not here."""
        return self._by_id.get(generation_id)

    def apply(self, command: Command) -> None:
        """Do what a command asks for; one that names no generation of these is ignored."""
        match command:
            case Submit(request):
                self._submit(request)
                return
            case Reschedule(policy, scheduling):
                self._schedule(replace(self._options, policy=policy, scheduling=scheduling))
        generation = self._by_id.get(command.generation_id)
        if generation is None:
            return
        match command:
            case Suspend():
                self.set_phase(generation, Phase.HELD)
            case Resume(_, observation):
                self._resume(generation, observation)
            case RobotIdleAt(name, idle_at_s):
                self.table.set(name, 'due_s', idle_at_s)
            case Cancel():
                self.end(generation, 'canceled')

    def predict(self, generation_id: str, tokens: float) -> None:
        """Take the first prediction of a plan's whole length (tokens)."""
        generation = self._by_id.get(generation_id)
        if generation is not None:
            self._lengths.predict(generation, tokens)

    def refine(self, remaining_tokens: Mapping[str, float]) -> None:
        """Take later predictions of how many tokens are left of plans."""
        self._lengths.refine(remaining_tokens)

    def _schedule(self, options: CoreOptions) -> None:
        self._options = options
        self._scheduler = options.scheduler(self.table, self.step_times)
        if find_policy(options.policy).ranks_plans:
            self._lengths.require(list(self))

    def _submit(self, request: GenerationRequest) -> None:
        """Queue a generation; one that cannot be served ends with ``error``."""
        name = request.generation_id
        # Ending the new one would read as the end of the old one, so the old one goes first.
        self.end_repeated(name)
        predicted = request.predicted_tokens
        if not (predicted is None or predicted > 0):
            error = f'predicted length {predicted!r}: expected a number > 0 or None'
            self._events.append(GenerationEnded(name, 'error', error, 0, 0.0, refused=True))
            return
        try:
            key, prefix_tokens, own_tokens = self._backend.open(request)
        except EngineError as err:
            self._events.append(GenerationEnded(name, 'error', str(err), 0, 0.0, refused=True))
            return
        context = self._kv.open(name, key, prefix_tokens, own_tokens)
        generation = Generation(request, context, self._segmenter(request))
        generation.stop = StopText(self.stop_strings if generation.segmenter.stops else ())
        if request.eviction is not None and self._backend.evicts:
            generation.evicted = None
        self.add(generation)
        if (tokens := prefix_tokens + own_tokens) >= self.context_limit:
            self.end(
                generation,
                'error',
                f'prompt of {tokens} tokens: expected fewer than {self.context_limit}, '
                'the limit of the model and of max_kv_tokens',
                refused=True,
            )

    def _resume(self, generation: Generation, observation: str | None) -> None:
        """Let a held generation compete again, with the value that it waits for."""
        lacks_kv = generation.lacks_kv
        if observation is not None and generation.awaits_value:
            try:
                text = generation.segmenter.observe(observation)
                added = self._backend.observe(generation.generation_id, text)
            except TimelyError as err:
                self.end(generation, 'error', f'observation {observation[:60]!r}: {err}')
                return
            generation.context.tokens += added
            generation.awaits_value, generation.observed = False, text
        if not generation.awaits_value and self.phase(generation) is Phase.HELD:
            context = generation.context
            begun = context.computed or context.hosted
            begun = begun or (generation.tokens and not generation.segments)
            if self.lost.pop(generation.generation_id, None) is not None:
                context.spare, begun = False, not lacks_kv
                self.restored += begun and not context.hosted
                generation.lent = context.computed if lacks_kv else 0
            self.set_phase(generation, Phase.SUSPENDED if begun else Phase.QUEUED)

    def add(self, generation: Generation, remaining_tokens: float | None = None) -> None:
        """Queue a generation whose context is open.

        Where it was predicted, ``remaining_tokens`` is how many tokens of its plan are left.
        """
        name, request = generation.generation_id, generation.request
        self._by_id[name] = generation
        self.table.add(name, request.utility, request.arrival_s)
        self._lengths.begin(generation, request.predicted_tokens)
        if remaining_tokens is not None:
            self._lengths.refine({name: remaining_tokens})
        self._forecast.begin_segment(generation, len(self.current))
        self.changed = True

    def remove(self, generation: Generation, *, complete: bool = False) -> None:
        """Forget a generation and free its KV; its plan's length is learned if it is complete."""
        name = generation.generation_id
        del self._by_id[name]
        self.lost.pop(name, None)
        self._lengths.end(generation, complete=complete)
        self.table.remove(name)
        self._kv.close(generation.context)
        if generation in self.current:
            self.current.remove(generation)
        self.changed = True

    def end(
        self, generation: Generation, reason: EndReason, error: str = '', *, refused: bool = False
    ) -> None:
        """Forget a generation, free its KV and tell of its end."""
        generation.ended = True
        self.remove(generation, complete=reason == 'stop')
        name, tokens, took_s = generation.generation_id, generation.tokens, generation.total_s
        made = tokens, took_s, self._backend.close(name), generation.forwarded
        self._events.append(GenerationEnded(name, reason, error, *made, refused))

    def end_repeated(self, generation_id: str) -> None:
        """End the generation whose id is submitted again, if there is one."""
        generation = self._by_id.get(generation_id)
        if generation is not None:
            self.end(generation, 'error', REPEATED)

    def choose(self, now_s: float) -> list[Generation]:
        """Return who is to run next, best rank first."""
        return [self._by_id[name] for name in self._scheduler.select(now_s)]

    def run(self, running: list[Generation]) -> None:
        """Note who is in the next step; whoever was in the latest one only is suspended."""
        phase = self.table.column('phase')
        phase[phase == Phase.RUNNING] = Phase.SUSPENDED
        ids = [generation.generation_id for generation in running]
        self.table.set_many(ids, 'phase', Phase.RUNNING)
        self.current = running

    def take(self, generation: Generation, output: Output, now_s: float) -> None:
        """Take what a step brought for a generation."""
        self._take(generation, read_output(generation, output, self.context_limit), now_s)

    def cut(self, generation: Generation, now_s: float) -> None:
        """End a generation with reason ``length``, and what was written with it."""
        self._take(generation, read_cut(generation, []), now_s)

    def _take(self, generation: Generation, reading: Reading, now_s: float) -> None:
        for segment in reading.segments:
            self._emit(generation, segment, now_s)
        if reading.end is not None:
            self.end(generation, reading.end, reading.error)
        elif reading.segments:
            self._pause(generation, awaits_value=reading.segments[-1].awaits_value)
        else:
            generation.segment_tokens += 1

    def spend(
        self, running: Sequence[Generation], step_s: float, begun: Sequence[Generation] = ()
    ) -> None:
        """Book a step's time to each that was in it, and what it costs where steps are full.

        A step that is half empty costs no more for that: others could have been in it, as many as
        there is KV for. What a prompt adds is the cost of whoever has ``begun`` with it.
        """
        fit = self._kv.capacity * len(running) // max(1, sum(it.context.held for it in running))
        row_s = self.step_times.row_s(min(self._options.max_running, fit))
        for generation in running:
            generation.segment_s += step_s
            generation.total_s += step_s
            generation.cost_s += row_s
        for generation in begun:
            generation.cost_s += self.step_times.prefill_s

    def count(self, served: Sequence[Generation]) -> None:
        """Count the tokens of those served, once all of a step's tokens are taken."""
        self._forecast.step(served, len(self.current))
        self.changed = True

    def tell(self, event: EngineEvent) -> None:
        """Add an event to those that :meth:`take_events` returns."""
        self._events.append(event)
        self.changed = True

    def drop_order(self, some: Sequence[Generation], missing: int) -> list[Generation]:
        """Return them in the order in which to drop KV; the first free ``missing`` tokens."""
        tokens, back_s = [one.context.held for one in some], [self.due_s(one) for one in some]
        ranks = [self.table.get(one.generation_id, 'rank') for one in some]
        return [some[place] for place in drop_order(tokens, back_s, ranks, missing)]

    def lose_kv(self, generation_id: str) -> None:
        """Note that KV is dropped: amid a plan, going on costs a prompt unless the host has it."""
        generation = self._by_id.get(generation_id)
        if generation is None or not generation.segments:
            return
        if self.phase(generation) is not Phase.HELD:
            if not generation.context.hosted:
                self.set_phase(generation, Phase.QUEUED)
        elif generation.awaits_value:
            self.lack_kv(generation)

    def lack_kv(self, generation: Generation) -> None:
        """Note a plan that waits for a value, without all of its KV."""
        self.lost[generation.generation_id] = generation
        generation.context.spare = True

    def phase(self, generation: Generation) -> Phase:
        """Return where a generation stands."""
        return self.table.phase(generation.generation_id)

    def set_phase(self, generation: Generation, phase: Phase) -> None:
        """Move a generation to another phase."""
        self.table.set(generation.generation_id, 'phase', phase)
        self.changed = True

    def due_s(self, generation: Generation) -> float:
        """Return when a generation's next segment is due (s)."""
        due_s = self.table.get(generation.generation_id, 'due_s')
        if not generation.segments:
            due_s += generation.request.utility.expected_response_s
        return due_s

    def remaining_tokens(self, generation_id: str) -> float | None:
        """Return what is predicted to be left of a plan (tokens); None without a prediction."""
        return self._lengths.remaining(generation_id)

    def _pause(self, generation: Generation, *, awaits_value: bool) -> None:
        """Begin the next segment, held until a value is there or suspended between segments."""
        self._forecast.begin_segment(generation, len(self.current))
        if awaits_value:
            generation.awaits_value = True
            self.set_phase(generation, Phase.HELD)
        elif self.mode == 'segmented' and self.phase(generation) is Phase.RUNNING:
            self.set_phase(generation, Phase.SUSPENDED)

    def _emit(self, generation: Generation, segment: Segment, now_s: float) -> None:
        name, made_s = generation.generation_id, generation.segment_s
        cost_s, generation.cost_s = generation.cost_s, 0.0
        sent = SegmentGenerated(name, segment, now_s, made_s, generation.kv_tokens, cost_s)
        self._events.append(sent)
        if self._forecast.end_segment(generation, segment, now_s):
            # A first burst comes before anything is known, and must not be judged by that.
            for other in self:
                self._forecast.renew(other, len(self.current))

    def take_events(self) -> list[EngineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def take_state(self, now_s: float, *, at_once: bool = False) -> EngineStateChanged | None:
        """Return the state where it changed and the last one is ``STATE_PERIOD_S`` ago.

        ``at_once`` does not wait for that, for an engine that goes to sleep.
        """
        due_s = self.state_due_s
        if due_s is None or (now_s < due_s and not at_once):
            return None
        self.changed = False
        self._state_at_s = now_s
        return EngineStateChanged(self.state(now_s))

    @property
    def state_due_s(self) -> float | None:
        """When :meth:`take_state` has something next; None where nothing changed."""
        return self._state_at_s + STATE_PERIOD_S if self.changed else None

    def state(self, now_s: float) -> EngineState:
        """Return a snapshot."""
        return state_of(self, self.table, self._lengths, self._kv, now_s, self.step_s)

    @property
    def waiting(self) -> int:
        """How many compete for the engine and are not in the latest step."""
        return self.table.count(Phase.QUEUED) + self.table.count(Phase.SUSPENDED)

    @property
    def running(self) -> list[str]:
        """The ids of those in the latest step that go on if they are chosen again."""
        return self.table.ids_in(Phase.RUNNING)
