"""Two lanes on one engine: robots' generations, and a background that gets what they leave.

Each lane is an engine core of its own, so that a thousand offline generations cost robots'
scheduling nothing; both use one model and one account of KV. Before every step robots are asked
first. The background computes only where none of theirs can run, one step at a time. A robot's
task that comes meanwhile interrupts that step where the engine can go on with it later; elsewhere
it waits for the step's end, and steps are kept short.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from timely_llm_ros.engines.core.background_lane import BackgroundLane, Lane
from timely_llm_ros.engines.core.core import STATE_PERIOD_S
from timely_llm_ros.engines.engine import EngineStateChanged
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from timely_llm_ros.engines.core.step import LanedBackend, Output, StepPlan
    from timely_llm_ros.engines.engine import EngineEvent, EngineState, GenerationRequest
    from timely_llm_ros.scheduling import ServingMode
    from timely_llm_ros.skills import TextSegmenter


class CoreOptions(TypedDict, total=False):
    """What an :class:`EngineCore` is made with."""

    mode: ServingMode
    policy: str
    max_running: int
    max_kv_tokens: int
    context_limit: int
    prefill_chunk: int
    segmenter: Callable[[GenerationRequest], TextSegmenter] | None
    scheduling: SchedulingOptions | None


class LanedCore:
    """An engine core that serves robots first and the background in the time that is left.

    It has the methods of :class:`EngineCore`; a request's ``background`` says which lane it takes.

    Args:
        backend: The model's side.
        options: As for :class:`EngineCore`, of the robots' lane; the KV is that of both.

    Raises:
        ConfigurationError: There is no such policy.
    """

    def __init__(self, backend: LanedBackend, **options: Unpack[CoreOptions]) -> None:
        self._robots = Lane(backend, **options)
        self._background = BackgroundLane(
            backend,
            self._robots,
            options.get('scheduling') or SchedulingOptions(),
            options.get('segmenter'),
        )
        self._robots.may_drop(self._background.contexts)
        self._latest: Lane = self._robots
        self._state_at_s = -math.inf
        self._busy_s = 0.0

    # Commands ------------------------------------------------------------------------------------

    def submit(self, request: GenerationRequest, now_s: float) -> None:
        """Queue a generation; one that cannot be served ends with ``error``."""
        name = request.generation_id
        lanes: tuple[Lane, Lane] = (self._robots, self._background)
        lane, other = lanes[::-1] if request.background else lanes
        if name in other:
            # Its end must not be taken for the new one's.
            other.end_as_repeated(name)
        lane.submit(request, now_s)

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._robots or generation_id in self._background

    def predict(self, generation_id: str, tokens: float) -> None:
        """Take the first prediction of a plan's whole length (tokens)."""
        self._of(generation_id).predict(generation_id, tokens)

    def refine(self, remaining_tokens: Mapping[str, float]) -> None:
        """Take later predictions of how many tokens are left of robots' plans."""
        self._robots.refine(remaining_tokens)

    def suspend(self, generation_id: str, now_s: float) -> None:
        """Hold a generation until it is resumed."""
        self._of(generation_id).suspend(generation_id, now_s)

    def resume(self, generation_id: str, observation: str | None, now_s: float) -> None:
        """Let a held generation compete again, with the value that it waits for."""
        self._of(generation_id).resume(generation_id, observation, now_s)

    def robot_idle_at(self, generation_id: str, idle_at_s: float) -> None:
        """Correct when the generation's robot runs out of work."""
        self._of(generation_id).robot_idle_at(generation_id, idle_at_s)

    def cancel(self, generation_id: str, now_s: float) -> None:
        """End a generation with ``canceled``."""
        self._of(generation_id).cancel(generation_id, now_s)

    def _of(self, generation_id: str) -> Lane:
        return self._background if generation_id in self._background else self._robots

    # Steps ---------------------------------------------------------------------------------------

    def plan(self, now_s: float) -> StepPlan | None:
        """Choose the next step's work, robots' if there is any; None where nothing can run.

        Where :meth:`prepare` has something to do, it is to be called then.
        """
        self._latest = self._robots
        plan = self._robots.plan(now_s)
        background = self._background
        if plan is None and len(background) and (background.begun or not background.wants_more):
            self._latest = background
            plan = background.plan(now_s)
        return plan

    def may_interrupt(self, plan: StepPlan) -> bool:
        """Return whether :meth:`interrupt` may follow on :meth:`plan`, in place of the rest."""
        return plan.background and self._background.may_interrupt(plan)

    def interrupt(self, plan: StepPlan, started_s: float, ended_s: float) -> None:
        """Note that the step that was planned last gave way to robots in the middle.

        It is planned again, to go on, when none of theirs can run; never, if it cannot.
        """
        self._busy_s += ended_s - started_s
        self._background.interrupt(plan, ended_s - started_s)

    def serves_robot(self, generation_id: str) -> bool:
        """Return whether a generation with that id is a robot's."""
        return generation_id in self._robots

    def prepare(self, now_s: float) -> bool:
        """Open one of the background's generations where it wants one; return whether it did.

        To be called where :meth:`plan` found no step: as long as robots have one, it can wait.
        """
        if not self._background.wants_more:
            return False
        self._background.open_next(now_s)
        return True

    def complete(
        self, plan: StepPlan, outputs: Sequence[Output], started_s: float, ended_s: float
    ) -> None:
        """Take the tokens of the step that was planned last."""
        self._busy_s += ended_s - started_s
        self._latest.complete(plan, outputs, started_s, ended_s)

    # Answers -------------------------------------------------------------------------------------

    def take_events(self) -> list[EngineEvent]:
        """Return the events since the last call, robots' first, each lane's oldest first."""
        return self._robots.take_events() + self._background.take_events()

    def take_state(self, now_s: float) -> EngineStateChanged | None:
        """Return the state where it changed and the last one is ``STATE_PERIOD_S`` ago."""
        due_s = self.state_due_s
        if due_s is None or now_s < due_s:
            return None
        self._state_at_s = now_s
        self._robots.seen()
        self._background.seen()
        return EngineStateChanged(self.state(now_s))

    @property
    def state_due_s(self) -> float | None:
        """When :meth:`take_state` has something next; None where nothing changed."""
        changed = self._robots.changed or self._background.changed
        return self._state_at_s + STATE_PERIOD_S if changed else None

    def state(self, now_s: float) -> EngineState:
        """Return a snapshot: of robots' generations, and how many the background has."""
        state = self._robots.state(now_s)
        return replace(
            state,
            step_s=self._latest.step_s,
            background=len(self._background),
            busy_s=self._busy_s,
            interrupted=self._background.interruptions,
        )

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV is held, by both lanes."""
        return self._robots.kv_tokens

    @property
    def waiting(self) -> int:
        """Generations of the latest step's lane that compete and are not in that step."""
        return self._latest.waiting

    @property
    def running(self) -> list[str]:
        """Generations of the latest step that go on if they are chosen again."""
        return self._latest.running

    @property
    def spilled(self) -> int:
        """Times that a generation's KV was dropped for lack of room."""
        return self._robots.spilled
