"""Two lanes on one engine: robots' generations, and a background that gets what they leave.

Each lane has a core of its own, so that a thousand offline generations cost robots' scheduling
nothing; both use one model and one account of KV. Before every step robots are asked first. Where
no robot's generation can run, plans that wait for a value are written ahead, and the background
computes one step at a time where that leaves nothing to do either.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import Resume, Submit, Warm
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.generations import STATE_PERIOD_S
from timely_llm_ros.engines.core.lanes.background_core import BackgroundCore
from timely_llm_ros.engines.core.lanes.branches import Branches
from timely_llm_ros.engines.engine import EngineStateChanged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.core.drafting import Drafter
    from timely_llm_ros.engines.core.kv_ledger import Context, KvLedger
    from timely_llm_ros.engines.core.options import CoreOptions
    from timely_llm_ros.engines.core.step import LanedBackend, Output, StepPlan
    from timely_llm_ros.engines.engine import EngineEvent, EngineState


class LanedCore:
    """Serves robots' generations first and the background's in the time that is left.

    It is driven as an :class:`EngineCore` is; a request's ``background`` says which lane it takes.
    The options are those of the robots' core; the account of KV, by default one of its own, is that
    of both. A ``drafter`` guesses robots' tokens.

    Raises:
        ConfigurationError: There is no such policy.
    """

    def __init__(
        self,
        backend: LanedBackend,
        options: CoreOptions,
        *,
        kv: KvLedger | None = None,
        drafter: Drafter | None = None,
    ) -> None:
        self._robots = EngineCore(backend, options, kv=kv, drafter=drafter)
        self._background = BackgroundCore(backend, self._robots, options.scheduling)
        self._branches = Branches(backend, self._robots, options)
        self._robots.batcher.spill_first = self._spare_first
        self._robots.kv.spare_tokens = lambda: (
            self._branches.kv_tokens
            + self._background.warm.kv_tokens
            + self._background.lost.kv_tokens
        )
        self._background.lost.spill_first = lambda later: (
            self._background.contexts() + self._branches.contexts(later)
        )
        self._latest: EngineCore | BackgroundCore | Branches = self._robots
        self._state_at_s = -math.inf
        self._busy_s = 0.0
        self.kv = self._robots.kv
        """The account of KV, of both lanes."""

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._robots or generation_id in self._background

    # Commands ------------------------------------------------------------------------------------

    def apply(self, command: Command) -> None:
        """Do what a command asks for, in the lane that it is about."""
        robots, background = self._robots, self._background
        if isinstance(command, Submit):
            # Where the other lane has the id, that one's end must not be taken for the new one's.
            if command.request.background:
                robots.generations.end_repeated(command.request.generation_id)
                background.apply(command)
            else:
                background.end_repeated(command.request.generation_id)
                robots.apply(command)
                task = robots.generations.get(command.request.generation_id)
                if task is not None:
                    background.lend(task)
        elif isinstance(command, Warm) or command.generation_id in background:
            background.apply(command)
        else:
            generation = robots.generations.get(command.generation_id)
            if isinstance(command, Resume) and generation is not None:
                background.give_up(generation.context)
            robots.apply(command)
        of = command.request if isinstance(command, Submit) else command
        self._branches.told(of.generation_id)

    def predict(self, generation_id: str, tokens: float) -> None:
        """Take the first prediction of a plan's whole length (tokens)."""
        lane = self._background if generation_id in self._background else self._robots
        lane.generations.predict(generation_id, tokens)

    def refine(self, remaining_tokens: Mapping[str, float]) -> None:
        """Take later predictions of how many tokens are left of robots' plans."""
        self._robots.refine(remaining_tokens)

    # Steps ---------------------------------------------------------------------------------------

    def plan(self, now_s: float) -> StepPlan | None:
        """Choose the next step's work, robots' if there is any; None where nothing can run.

        Segments that were written before the value came are among the events after it.

        Call :meth:`prepare` then: where it opens a generation, there may be a step after all.
        """
        background = self._background
        self._branches.settle(now_s)
        self._latest = self._robots
        plan = self._robots.plan(now_s)
        if plan is None and (plan := self._branches.plan(background.amid)) is not None:
            self._latest = self._branches
        if plan is None and background.has_work and (background.begun or not background.wants_more):
            self._latest = background
            plan = background.plan(now_s)
        return plan

    def may_interrupt(self, plan: StepPlan) -> bool:
        """Return whether :meth:`interrupt` may follow on :meth:`plan`, in place of the rest."""
        return self._latest is self._background and self._background.may_interrupt(plan)

    def interrupt(self, plan: StepPlan, started_s: float, ended_s: float) -> None:
        """Note that the step that was planned last gave way to robots in the middle.

        When no robot's generation can run, it is planned again, to go on.
        """
        self._busy_s += ended_s - started_s
        self._background.interrupt(plan, ended_s - started_s)

    def serves_robot(self, generation_id: str) -> bool:
        """Return whether a generation with that id is a robot's."""
        return generation_id in self._robots

    def prepare(self) -> bool:
        """Open one of the background's generations where it wants one; return whether it did."""
        if not self._background.wants_more:
            return False
        self._background.open_next()
        return True

    def complete(
        self, plan: StepPlan, outputs: Sequence[Output], started_s: float, ended_s: float
    ) -> None:
        """Take the tokens of the step that was planned last."""
        self._busy_s += ended_s - started_s
        self._latest.complete(plan, outputs, started_s, ended_s)
        if self._latest is self._robots:
            for row in plan.rows:
                if row.generation.awaits_value and not row.generation.ended:
                    self._branches.wait(row.generation)

    def _spare_first(self) -> list[Context]:
        """Return what robots may drop: what is written ahead, then what the background has."""
        return self._branches.contexts() + self._background.contexts()

    # Answers -------------------------------------------------------------------------------------

    def take_events(self) -> list[EngineEvent]:
        """Return the events since the last call, robots' first, each lane's oldest first."""
        return self._robots.take_events() + self._background.generations.take_events()

    def take_state(self, now_s: float) -> EngineStateChanged | None:
        """Return the state where it changed and the last one is ``STATE_PERIOD_S`` ago."""
        due_s = self.state_due_s
        if due_s is None or now_s < due_s:
            return None
        self._state_at_s = now_s
        self._robots.generations.changed = self._background.generations.changed = False
        return EngineStateChanged(self.state(now_s))

    @property
    def state_due_s(self) -> float | None:
        """When :meth:`take_state` has something next; None where nothing changed."""
        changed = self._robots.generations.changed or self._background.generations.changed
        return self._state_at_s + STATE_PERIOD_S if changed else None

    def state(self, now_s: float) -> EngineState:
        """Return a snapshot: of robots' generations, and how many the background has."""
        return replace(
            self._robots.state(now_s),
            step_s=self._latest.generations.step_s,
            background=len(self._background),
            busy_s=self._busy_s,
            interrupted=self._background.interruptions,
            warm_scenes=len(self._background.warm),
            warm_tokens=self._background.warm.kv_tokens,
            warm_hits=self._background.warm.hits,
            warm_hit_tokens=self._background.warm.hit_tokens,
            ahead_kv_tokens=self._branches.kv_tokens,
            ahead_tokens=self._branches.taken_tokens,
            ahead_dropped_tokens=self._branches.dropped_tokens,
            restored_kv_tokens=self._background.lost.kv_tokens,
            restored=self._robots.generations.restored,
        )

    @property
    def waiting(self) -> int:
        """Generations of the latest step's lane that compete and are not in that step."""
        return self._latest.generations.waiting

    @property
    def running(self) -> list[str]:
        """Generations of the latest step that go on if they are chosen again."""
        return self._latest.generations.running
