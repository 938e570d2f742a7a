"""The background's lane: generations that no robot waits for, in the time that robots leave.

One step of it at a time. Where the model can pause, a robot's task that comes meanwhile interrupts
it between two layers and it goes on later; elsewhere the task waits for its end, so it is kept
short. A new generation is opened between two steps, one at a time: its text and its grammar take
as long as a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.core.batching import Batcher
from timely_llm_ros.engines.core.core import REPEATED, EngineCore
from timely_llm_ros.engines.core.interrupted_step import InterruptedStep, may_be_interrupted
from timely_llm_ros.engines.core.step_size import ShortSteps
from timely_llm_ros.engines.engine import GenerationEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from timely_llm_ros.engines.core.kv_ledger import Context, KvLedger
    from timely_llm_ros.engines.core.step import Generation, LanedBackend, Output, StepPlan
    from timely_llm_ros.engines.engine import GenerationRequest
    from timely_llm_ros.scheduling import SchedulingOptions
    from timely_llm_ros.skills import TextSegmenter

_BACKGROUND_STEPS = -(1 << 62)
"""The background counts steps from here, so that its prefixes are the least recently used ones."""


class Lane(EngineCore):
    """An engine core of which another one exists for the same model."""

    def __len__(self) -> int:
        return len(self._generations)

    @property
    def kv(self) -> KvLedger:
        """The account of KV, which both share."""
        return self._kv

    @property
    def context_limit(self) -> int:
        """Most tokens that one context may have."""
        return self._context_limit

    @property
    def step_s(self) -> float:
        """Duration of its latest step (s)."""
        return self._step_s

    @property
    def changed(self) -> bool:
        """Whether its state is another one than :meth:`seen` last said."""
        return self._changed

    def seen(self) -> None:
        """Note that its present state is known."""
        self._changed = False

    def end_as_repeated(self, generation_id: str) -> None:
        """End a generation whose id is submitted again."""
        self._end(self._generations[generation_id], 'error', REPEATED)

    def may_drop(self, contexts: Callable[[], Iterable[Context]]) -> None:
        """Let it drop these contexts before any of its own."""
        self._batcher.spill_first = contexts


class BackgroundLane(Lane):
    """Generations that no robot waits for: first come first served, whole plans.

    It drops no robot's KV. A prefix that robots use stays as long as they have any generation;
    only where they have none and nothing else makes room, it goes.

    Args:
        backend: The model's side.
        robots: The lane that goes first; its bounds on KV and contexts hold for both.
        options: ``background_batch``, ``background_chunk`` and ``background_step_s``, the last for
            steps that cannot be interrupted.
        segmenter: As for :class:`EngineCore`.
    """

    def __init__(
        self,
        backend: LanedBackend,
        robots: Lane,
        options: SchedulingOptions,
        segmenter: Callable[[GenerationRequest], TextSegmenter] | None = None,
    ) -> None:
        kv = robots.kv
        super().__init__(
            backend,
            mode='whole_plan',
            max_running=options.background_batch,
            max_kv_tokens=kv.capacity,
            context_limit=robots.context_limit,
            segmenter=segmenter,
            kv=kv,
        )
        self._robots = robots
        self._unopened: dict[str, GenerationRequest] = {}
        self._model = backend
        self._batch, self._chunk = options.background_batch, options.background_chunk
        bound_s = options.background_step_s
        self._decoding = ShortSteps(bound_s, self._batch)
        self._prompts = ShortSteps(bound_s, self._chunk)
        self._batcher = Batcher(kv, backend, self._table, self._chunk, _BACKGROUND_STEPS)
        self._interrupted: InterruptedStep | None = None
        self.interruptions = 0
        """Times that a step was interrupted so far."""

    def __len__(self) -> int:
        return len(self._generations) + len(self._unopened)

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._generations or generation_id in self._unopened

    # Commands ------------------------------------------------------------------------------------

    def submit(self, request: GenerationRequest, now_s: float) -> None:
        """Queue a generation; it is opened when its turn is near."""
        if request.generation_id in self:
            self.end_as_repeated(request.generation_id)
        self._unopened[request.generation_id] = request
        self._changed = True

    def cancel(self, generation_id: str, now_s: float) -> None:
        """End a generation with ``canceled``."""
        if self._unopened.pop(generation_id, None) is None:
            super().cancel(generation_id, now_s)
        else:
            self._events.append(GenerationEnded(generation_id, 'canceled', '', 0, 0.0))
            self._changed = True

    def end_as_repeated(self, generation_id: str) -> None:
        """End a generation whose id is submitted again."""
        if self._unopened.pop(generation_id, None) is None:
            super().end_as_repeated(generation_id)
        else:
            self._events.append(GenerationEnded(generation_id, 'error', REPEATED, 0, 0.0))

    @property
    def wants_more(self) -> bool:
        """Whether one more is to be opened before its next step."""
        return bool(self._unopened) and len(self._generations) < self._batch

    def open_next(self, now_s: float) -> None:
        """Open the generation that came first; one that cannot be served ends with ``error``."""
        name = next(iter(self._unopened))
        super().submit(self._unopened.pop(name), now_s)

    # Steps ---------------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        """Whether one of its steps was interrupted and has not gone on."""
        return self._interrupted is not None

    def plan(self, now_s: float) -> StepPlan | None:
        """Choose the next step's work; None where nothing can run beside what robots hold.

        A step that was interrupted comes first.
        """
        if self._interrupted is not None:
            if not self._interrupted.lost:
                return self._interrupted.plan
            self._take_back(self._interrupted)
        chosen = [self._generations[name] for name in self._scheduler.select(now_s)]
        if not chosen:
            return None
        for some in self._steps_of(chosen):
            self._batcher.prefill_chunk = (
                self._chunk if self._pauses(some) else self._prompts.tokens
            )
            plan = self._batcher.fit(some, self._later_than(some[0]), self._kv.prefixes_of_robots())
            if plan is not None:
                self._mark_running(list(plan.running))
                return plan
        return None if len(self._robots) else super().plan(now_s)

    def may_interrupt(self, plan: StepPlan) -> bool:
        """Return whether its step may be interrupted."""
        return self._model.pauses and may_be_interrupted(plan)

    def interrupt(self, plan: StepPlan, spent_s: float) -> None:
        """Note that a step gave way to robots after so long (s)."""
        if self._interrupted is not None:
            spent_s += self._interrupted.spent_s
        self._interrupted = InterruptedStep(plan, spent_s)
        self.interruptions += 1

    def complete(
        self, plan: StepPlan, outputs: Sequence[Output], started_s: float, ended_s: float
    ) -> None:
        """Take a step's tokens, and how long it, or what was left of it, took."""
        if self._interrupted is not None:
            started_s -= self._interrupted.spent_s
            self._interrupted = None
        of_its_kind = self._decoding if plan.decodes_only else self._prompts
        of_its_kind.observe(plan.tokens, ended_s - started_s)
        super().complete(plan, outputs, started_s, ended_s)

    def _take_back(self, step: InterruptedStep) -> None:
        """Undo a step that cannot go on."""
        self._interrupted = None
        for row in step.intact():
            self._kv.take_back(row.generation.context, row.tokens)
            self._model.take_back(row.generation.generation_id, row.tokens)

    def _pauses(self, chosen: list[Generation]) -> bool:
        """Return whether a step of these can be interrupted."""
        return self._model.pauses and not any(
            generation.evicts or not generation.context.prefix.ready for generation in chosen
        )

    def _steps_of(self, chosen: list[Generation]) -> list[list[Generation]]:
        """Return two steps, each shorter than one for all: a prompt, and what others decode.

        Those that decode wait until they are as many as a step takes, since a step for few lasts
        about as long; nobody waits for them. Of more than that the first come go on.
        """
        prompts = [
            generation
            for generation in chosen
            if generation.context.missing > 1 or not generation.context.prefix.ready
        ]
        decoding = [generation for generation in chosen if generation not in prompts]
        most = self._batch if self._pauses(decoding) else self._decoding.tokens
        steps = [prompts[:1], decoding[:most]]
        return [step for step in steps[:: -1 if len(decoding) >= most else 1] if step]

    def _later_than(self, generation: Generation) -> list[Generation]:
        """Return those that came after it: it may drop their KV, so that the first gets on."""
        order = list(self._generations.values())
        return order[order.index(generation) + 1 :]

    def contexts(self) -> list[Context]:
        """Return what robots may drop, the last come first."""
        return [generation.context for generation in reversed(self._generations.values())]
