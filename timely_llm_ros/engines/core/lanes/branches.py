"""Plans go on before the value is there that they wait for: once for each value that may come.

A robot is still on its way while its plan waits for what it will report. Where no robot's
generation can run, the text until the next segment's end is written behind each possible value, as
a branch that shares the KV of what is written. When the value comes, the plan takes over the tokens
of its branch and their KV, and the other branches are dropped.

A branch is a generation of its own to the backend and to a step, and to nobody else: it is in no
table, and what is learned of steps and segments is learned when its plan takes it over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from timely_llm_ros.engines.core.batching import Batcher
from timely_llm_ros.engines.core.kv_ledger import Context, Prefix
from timely_llm_ros.engines.core.reading import read_ahead
from timely_llm_ros.engines.core.step import Brought
from timely_llm_ros.errors import EngineError
from timely_llm_ros.scheduling import Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from timely_llm_ros.engines.core.core import EngineCore
    from timely_llm_ros.engines.core.options import CoreOptions
    from timely_llm_ros.engines.core.step import Generation, LanedBackend, Output, StepPlan


@dataclass(slots=True, eq=False)
class Branch:
    """A plan behind one value, which ``generation`` writes in these ``steps``.

    It is ``complete`` once its plan would send a segment, or end.
    """

    generation: Generation
    steps: list[Brought] = field(default_factory=list)
    complete: bool = False

    @property
    def tokens(self) -> int:
        """Tokens that were written."""
        return sum(len(step.outputs) for step in self.steps)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A plan that waits for a value.

    Its ``branches`` are by the text that the value will have in the plan; None before they were
    opened. They build on the first ``shared`` tokens of the plan's own KV.
    """

    plan: Generation
    branches: dict[str, Branch] | None = None
    shared: int = 0

    @property
    def complete(self) -> bool:
        """Whether steps would not help any more."""
        return self.branches is not None and all(it.complete for it in self.branches.values())

    @property
    def held(self) -> bool:
        """Whether the KV is there that branches build on."""
        context = self.plan.context
        if self.branches is not None:
            return context.computed == self.shared
        return context.computed > 0 and not (context.spare and self.plan.lacks_kv)


class Branches:
    """The branches of all plans that wait for a value.

    Args:
        backend: The model's side.
        robots: The core whose plans they are.
        options: That core's.
    """

    def __init__(self, backend: LanedBackend, robots: EngineCore, options: CoreOptions) -> None:
        self._backend, self._robots, self._kv = backend, robots, robots.kv
        self.generations = robots.generations
        """The robots' generations."""
        self._batcher = Batcher(robots.kv, backend, robots.generations, options.prefill_chunk)
        self._most = options.max_running
        self._waiting: dict[str, _Waiting] = {}
        self._incomplete: dict[str, _Waiting] = {}
        self._answered: dict[str, _Waiting] = {}
        self._by_name: dict[str, Branch] = {}
        self.taken_tokens = 0
        """Tokens that plans took over, so far."""
        self.dropped_tokens = 0
        """Tokens that were written for nothing, so far."""

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV is held for branches, without what they share."""
        return sum(context.computed for context in self.contexts())

    def contexts(self, plans: Collection[Generation] | None = None) -> list[Context]:
        """Return what may be dropped, of all plans or of some: before what it builds on."""
        return [
            branch.generation.context
            for waiting in self._waiting.values()
            if plans is None or waiting.plan in plans
            for branch in (waiting.branches or {}).values()
        ]

    # What becomes of plans -----------------------------------------------------------------------

    def wait(self, plan: Generation) -> None:
        """Note a plan that waits for a value from now on.

        What is left of a prompt that parts were evicted from is private, so nothing can share it.
        """
        if not plan.context.computed:
            self.generations.lack_kv(plan)
        if not plan.context.evicted:
            waiting = _Waiting(plan)
            self._waiting[plan.generation_id] = self._incomplete[plan.generation_id] = waiting

    def told(self, generation_id: str) -> None:
        """See whether a command has ended a plan's waiting; drop the branches of one that ended."""
        waiting = self._waiting.get(generation_id)
        if waiting is None:
            return
        if waiting.plan.ended:
            self._forget(waiting)
        elif not waiting.plan.awaits_value:
            self._answered[generation_id] = waiting

    def settle(self, now_s: float) -> None:
        """Let plans whose value has come take over what is written behind it.

        One that was suspended beside that takes it over when it goes on.
        """
        for waiting in list(self._answered.values()):
            plan = waiting.plan
            if self.generations.phase(plan) is Phase.HELD:
                continue
            branch = (waiting.branches or {}).pop(plan.observed, None)
            self._forget(waiting)
            if branch is not None and branch.steps:
                self._take_over(plan, branch, now_s)
            elif branch is not None:
                self._drop(branch)

    def _take_over(self, plan: Generation, branch: Branch, now_s: float) -> None:
        name = branch.generation.generation_id
        del self._by_name[name]
        self.taken_tokens += branch.tokens
        # Where the KV was dropped, what the tokens need is computed anew, as for any plan.
        self._kv.move(branch.generation.context, plan.context)
        self._backend.join(plan.generation_id, name)
        self._robots.take_steps(plan, branch.steps, now_s)
        if plan.awaits_value and not plan.ended:
            self.wait(plan)

    def _forget(self, waiting: _Waiting) -> None:
        del self._waiting[waiting.plan.generation_id]
        self._incomplete.pop(waiting.plan.generation_id, None)
        self._answered.pop(waiting.plan.generation_id, None)
        for branch in (waiting.branches or {}).values():
            self._drop(branch)

    def _drop(self, branch: Branch) -> None:
        generation = branch.generation
        # It may be in a step that is under way.
        generation.ended = True
        del self._by_name[generation.generation_id]
        self.dropped_tokens += branch.tokens
        self._kv.drop(generation.context)
        self._backend.close(generation.generation_id)

    # Steps ---------------------------------------------------------------------------------------

    def plan(self, amid: Collection[Generation]) -> StepPlan | None:
        """Choose the next step's work, of the values that are expected first.

        Plans ``amid`` a step that was interrupted have not all the KV that they are booked with.
        Nothing but prefixes that no robot has used goes for it. A step has no more generations than
        one of robots, so that whoever comes meanwhile waits no longer than for one of those.
        """
        incomplete = self._incomplete
        for name in [name for name, waiting in incomplete.items() if waiting.complete]:
            del incomplete[name]
        chosen: list[Generation] = []
        for waiting in sorted(
            (it for it in incomplete.values() if it.held and it.plan not in amid),
            key=lambda waiting: self.generations.due_s(waiting.plan),
        ):
            branches = self._opened(waiting)
            chosen += [it.generation for it in branches.values() if not it.complete]
            if len(chosen) >= self._most:
                break
        if not chosen:
            return None
        return self._batcher.fit(chosen[: self._most], (), self._kv.prefixes_of_robots())

    def complete(
        self, plan: StepPlan, outputs: Sequence[Output], started_s: float, ended_s: float
    ) -> None:
        """Take a step's tokens; what came of a plan that was cancelled meanwhile is forgotten."""
        names = [row.generation.generation_id for row in plan.rows if row.samples]
        for name, output in zip(names, outputs, strict=True):
            if (branch := self._by_name.get(name)) is not None:
                self._take(branch, output, ended_s - started_s)
        self.generations.changed = True

    def _take(self, branch: Branch, output: Output, step_s: float) -> None:
        generation = branch.generation
        outputs = chain((output,), self._robots.following(generation))
        taken, branch.complete = read_ahead(generation, outputs, self.generations.context_limit)
        generation.brought = len(taken)
        branch.steps.append(Brought(step_s, taken))

    def _opened(self, waiting: _Waiting) -> dict[str, Branch]:
        """Return a plan's branches, which are opened when a step could be made for them."""
        if waiting.branches is None:
            plan, waiting.branches = waiting.plan, {}
            waiting.shared = plan.context.computed
            for text, segmenter in plan.segmenter.foresee().items():
                name = f'{plan.generation_id} {text}'
                try:
                    added = self._backend.fork(plan.generation_id, name, text)
                except EngineError:
                    # The plan is told why if that value comes.
                    continue
                shared = plan.context.prefix.tokens + waiting.shared
                context = Context(
                    name,
                    Prefix(name, shared, computed=shared),
                    plan.context.missing + added,
                    spare=True,
                )
                branch = Branch(plan.branch(context, segmenter))
                waiting.branches[text] = self._by_name[name] = branch
        return waiting.branches
