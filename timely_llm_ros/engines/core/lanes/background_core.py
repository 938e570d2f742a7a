"""The background's core: generations that no robot waits for, in the time that robots leave.

It makes one step at a time. Where the model can pause, a robot's task that comes meanwhile
interrupts that step between two layers, and the step goes on later. Elsewhere the task waits for
the step's end, so steps are kept short. A new generation is opened between two steps, one at a
time, because its text and its grammar take as long as a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import Cancel, Submit, Warm
from timely_llm_ros.engines.core.batching import Batcher
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.generations import REPEATED
from timely_llm_ros.engines.core.lanes.lost_kv import LostKv
from timely_llm_ros.engines.core.lanes.warm_scenes import WarmScenes
from timely_llm_ros.engines.core.options import CoreOptions
from timely_llm_ros.engines.core.step_size import StepSize
from timely_llm_ros.engines.engine import GenerationEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.engines.core.kv_ledger import Context
    from timely_llm_ros.engines.core.step import (
        Generation,
        LanedBackend,
        Output,
        Row,
        StepPlan,
    )
    from timely_llm_ros.engines.engine import EndReason
    from timely_llm_ros.scheduling import SchedulingOptions

_FIRST_STEP = -(1 << 62)
"""The background counts steps from here, so that its prefixes are the least recently used ones."""


@dataclass(slots=True, eq=False)
class InterruptedStep:
    """A step of the background that gave way to robots, and the time that it has taken so far (s).

    Its tokens' KV has its place and is accounted for, but not all of it is computed, and the step
    has brought no token yet.
    """

    plan: StepPlan
    spent_s: float
    _computed: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._computed = tuple(row.generation.context.computed for row in self.plan.rows)

    def intact(self) -> list[Row]:
        """Return the rows whose KV is as it was: whose generations have not ended or lost it."""
        return [
            row
            for row, computed in zip(self.plan.rows, self._computed, strict=True)
            if row.generation.context.computed == computed
        ]

    @property
    def lost(self) -> bool:
        """Whether it cannot go on, because one of its generations has ended or lost its KV."""
        return len(self.intact()) < len(self.plan.rows)


class BackgroundCore:
    """Generations that no robot waits for: first come first served, whole plans.

    It drops no robot's KV, but for that of a robot that is expected sooner. A prefix that robots
    use goes only where they have no generation and nothing else makes room. ``robots`` is the core
    that goes first; its account of KV and its limit on contexts hold for both.
    """

    def __init__(
        self, backend: LanedBackend, robots: EngineCore, options: SchedulingOptions
    ) -> None:
        self._batch, self._chunk = options.background_batch, options.background_chunk
        self._core = EngineCore(
            backend,
            CoreOptions(
                mode='whole_plan',
                max_running=self._batch,
                context_limit=robots.generations.context_limit,
                prefill_chunk=self._chunk,
                stop_strings=robots.generations.stop_strings,
            ),
            kv=robots.kv,
            first_step=_FIRST_STEP,
        )
        self.generations = self._core.generations
        """The generations that are open."""
        self._robots = robots.generations
        self.warm = WarmScenes(backend, robots.kv, robots.generations.context_limit)
        """Robots' scenes whose KV is computed ahead."""
        self.lost = LostKv(backend, robots, _FIRST_STEP)
        """The KV that robots' plans lost."""
        self._warmer = Batcher(
            robots.kv, backend, self.generations, self._chunk, first_step=_FIRST_STEP
        )
        self._core.batcher.spill_first = self.warm.contexts
        robots.kv.before_close = self._take_leave
        self._kv = robots.kv
        self._unopened: dict[str, GenerationRequest] = {}
        self._backend = backend
        self._decoding = StepSize(options.background_step_s, self._batch)
        self._prompts = StepSize(options.background_step_s, self._chunk)
        self._interrupted: InterruptedStep | None = None
        self.interruptions = 0
        """Times that a step was interrupted so far."""

    def __len__(self) -> int:
        return len(self.generations) + len(self._unopened)

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self.generations or generation_id in self._unopened

    # Commands ------------------------------------------------------------------------------------

    def apply(self, command: Command) -> None:
        """Do what a command asks for; a new generation is opened when its turn is near."""
        match command:
            case Submit(request):
                self.end_repeated(request.generation_id)
                self._unopened[request.generation_id] = request
                self.generations.changed = True
            case Warm():
                self.warm.apply(command)
                self.generations.changed = True
            case Cancel(name) if name in self._unopened:
                self._end_unopened(name, 'canceled', '')
            case _:
                self.generations.apply(command)

    def end_repeated(self, generation_id: str) -> None:
        """End the generation whose id is submitted again, if there is one."""
        if generation_id in self._unopened:
            self._end_unopened(generation_id, 'error', REPEATED)
        else:
            self.generations.end_repeated(generation_id)

    @property
    def wants_more(self) -> bool:
        """Whether it opens one more generation before its next step."""
        opens = bool(self._unopened) and len(self.generations) < self._batch
        return opens or self.warm.wants_more

    @property
    def has_work(self) -> bool:
        """Whether there is something to compute, if there is room for it."""
        return bool(
            len(self) or self.begun or self.warm.unfinished() or self.lost.first is not None
        )

    def lend(self, task: Generation) -> None:
        """Give a robot's task that has just come its warm scene."""
        scene = self.warm.get(task.request.scene_of)
        if scene is not None:
            self.give_up(scene.context)
        self.warm.lend(task)

    def open_next(self) -> None:
        """Open the generation that came first; one that cannot be served ends with ``error``.

        Scenes come before generations, because robots will wait for them.
        """
        if self.warm.wants_more:
            self.warm.open_next()
            self.generations.changed = True
            return
        name = next(iter(self._unopened))
        self.generations.apply(Submit(self._unopened.pop(name)))

    def _end_unopened(self, generation_id: str, reason: EndReason, error: str) -> None:
        del self._unopened[generation_id]
        self.generations.tell(GenerationEnded(generation_id, reason, error, 0, 0.0))

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
        plan = self._plan_restoring() or self._plan_warming()
        if plan is not None:
            return plan
        chosen = self.generations.choose(now_s)
        if not chosen:
            return None
        batcher, robots_prefixes = self._core.batcher, self._kv.prefixes_of_robots()
        for some in self._steps_of(chosen):
            batcher.prefill_chunk = self._chunk if self._pauses(some) else self._prompts.tokens
            plan = batcher.fit(some, self._later_than(some[0]), robots_prefixes)
            if plan is not None:
                self.generations.run(list(plan.running))
                return plan
        return None if len(self._robots) else self._core.plan(now_s)

    def _plan_restoring(self) -> StepPlan | None:
        """Choose the next part of the KV that a robot's plan lost."""
        lost = self.lost.first
        if lost is None:
            return None
        chunk = self._chunk if self._pauses([lost]) else self._prompts.tokens
        plan = self.lost.fit(lost, chunk)
        if plan is not None:
            self.generations.run([])
        return plan

    def _plan_warming(self) -> StepPlan | None:
        """Choose the next part of a robot's scene; nothing but unused prefixes goes for it."""
        for scene in self.warm.unfinished():
            self._warmer.prefill_chunk = (
                self._chunk if self._pauses([scene]) else self._prompts.tokens
            )
            plan = self._warmer.fit([scene], (), self._kv.prefixes_of_robots())
            if plan is not None:
                self.generations.run([])
                rows = tuple(row._replace(samples=False) for row in plan.rows)
                return replace(plan, rows=rows)
        return None

    @property
    def amid(self) -> list[Generation]:
        """Those of an interrupted step, of whose KV not all is computed that is accounted for."""
        step = self._interrupted
        return [] if step is None else [row.generation for row in step.plan.rows]

    def give_up(self, context: Context) -> None:
        """Give up an interrupted step that computes a context, so that what it has is certain."""
        step = self._interrupted
        if step is not None and any(it.context is context for it in self.amid):
            self._take_back(step)

    def _take_leave(self, context: Context) -> None:
        """Keep what others can use of a context that is about to be closed."""
        self.give_up(context)
        self.warm.take_back(context)

    def may_interrupt(self, plan: StepPlan) -> bool:
        """Return whether others may run in the middle of its step.

        Robots may need a prefix that the step computes, and what is evicted depends on what the
        step looks at; so a step with either may not be split or repeated.
        """
        evicts = any(row.generation.evicts for row in plan.rows)
        return self._backend.pauses and not plan.prefixes and not evicts

    def interrupt(self, plan: StepPlan, spent_s: float) -> None:
        """Note that a step gave way to robots after so long (s)."""
        if self._interrupted is not None:
            spent_s += self._interrupted.spent_s
        self._interrupted = InterruptedStep(plan, spent_s)
        self.interruptions += 1

    def complete(
        self, plan: StepPlan, outputs: Sequence[Output], started_s: float, ended_s: float
    ) -> None:
        """Take a step's tokens and its time; of an interrupted one, that of its latest part."""
        if self._interrupted is not None:
            started_s -= self._interrupted.spent_s
            self._interrupted = None
        if plan.running[0].context.spare or not plan.running[0].request.background:
            if plan.tokens:  # What is only copied back tells nothing of prompts.
                self._prompts.observe(plan.tokens, ended_s - started_s)
            self.generations.changed = True
            return
        if plan.decodes_only:
            self._decoding.observe(len(plan.rows), ended_s - started_s)
        else:
            self._prompts.observe(plan.tokens, ended_s - started_s)
        self._core.complete(plan, outputs, started_s, ended_s)

    def _take_back(self, step: InterruptedStep) -> None:
        self._interrupted = None
        for row in step.intact():
            self._kv.take_back(row.generation.context, row.tokens)
            self._backend.take_back(row.generation.generation_id, row.tokens)

    def _pauses(self, chosen: list[Generation]) -> bool:
        """Return whether a step of these can be interrupted."""
        return self._backend.pauses and not any(
            generation.evicts or not generation.context.prefix.ready for generation in chosen
        )

    def _steps_of(self, chosen: list[Generation]) -> list[list[Generation]]:
        """Return two steps, each shorter than one for all: a prompt, and what others decode.

        Those that decode wait until they are as many as a step takes: a step for few lasts about as
        long, and nobody waits for them. Of more than that, those that came first go on.
        """
        prompts = [
            generation
            for generation in chosen
            if generation.context.missing > generation.brought
            or not generation.context.prefix.ready
        ]
        decoding = [generation for generation in chosen if generation not in prompts]
        most = self._batch if self._pauses(decoding) else self._decoding.tokens
        steps = [prompts[:1], decoding[:most]]
        return [step for step in steps[:: -1 if len(decoding) >= most else 1] if step]

    def _later_than(self, generation: Generation) -> list[Generation]:
        """Return those that came after it; it may drop their KV."""
        order = list(self.generations)
        return order[order.index(generation) + 1 :]

    def contexts(self) -> list[Context]:
        """Return what robots may drop, the last come first."""
        generations = [generation.context for generation in reversed(list(self.generations))]
        return self.warm.contexts() + generations
