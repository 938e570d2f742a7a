"""Leads one task from acceptance to result, between its generation and its robot."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import Ending, EngineError, ExecutionError, PlanError, WorthlessError
from timely_llm_ros.execution import TimedSegment
from timely_llm_ros.planner.delivery import Delivery
from timely_llm_ros.planner.events import PhaseChanged, SegmentReady, TaskAccepted, TaskEnded
from timely_llm_ros.planner.task import TaskFeedback, TaskPhase, TaskResult
from timely_llm_ros.skills import expected_execution_s, fallback_segments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from timely_llm_ros.engines import EvictionDecided, GenerationEnded, SegmentGenerated
    from timely_llm_ros.execution import SegmentOutcome
    from timely_llm_ros.planner.context import PlannerContext
    from timely_llm_ros.planner.prepared_task import PreparedTask
    from timely_llm_ros.skills import Segment

_logger = logging.getLogger(__name__)

BUDGET_TOLERANCE_S = 1e-6
"""A generation that ends exactly at its budget is in time, whatever the clock's rounding."""


class TaskRun:
    """One accepted task. Every method is called on the loop's thread and returns at once.

    Args:
        prepared: The task, and what its generation needs.
        context: What the planner's tasks share.
        received_s: When it came (s).
        robot_free: Waits until the tasks that this one took over from have left the robot.
        on_late_generation: Called when a generation ended after its budget under ``skip_next``.
        on_ended: Called once, when the result is known.
        on_feedback: Called with feedback; what it raises is logged.
    """

    def __init__(
        self,
        prepared: PreparedTask,
        context: PlannerContext,
        *,
        received_s: float,
        robot_free: Callable[[], Awaitable[object]],
        on_late_generation: Callable[[TaskRun], None],
        on_ended: Callable[[TaskRun], None],
        on_feedback: Callable[[TaskFeedback], None] | None,
    ) -> None:
        self.task, self.prompt, self.expected = prepared.task, prepared.prompt, prepared.expected
        self.result: asyncio.Future[TaskResult] = asyncio.get_running_loop().create_future()
        self._prepared, self._context = prepared, context
        self._evicted = self._generation_s = 0.0
        self._on_late_generation, self._on_ended = on_late_generation, on_ended
        self._on_feedback = on_feedback
        self._delivery = Delivery(
            prepared.task,
            prepared.link,
            prepared.skill_set,
            context,
            received_s=received_s,
            robot_free=robot_free,
            on_progress=self._on_progress,
            on_success=self._on_success,
            on_failure=self.end,
        )
        self._began = self._generating = self._scripted_response = False
        self._owed: Ending | None = None
        """How it ends once its robot has done what it has, where that is no success."""
        self._fallback: str | None = None
        """Why its robot does its fallback plan; None where it does not."""
        self._ending: Ending | None = None
        self._generated = self._executed = self._tokens = 0
        self._asked_s: float | None = None  # since when it is the engine's turn
        self._watches: list[asyncio.Task[None]] = []
        self._last_phase: TaskPhase | None = None

    # What it is doing

    @property
    def received_s(self) -> float:
        """When it was received (s)."""
        return self._delivery.timeline.received_s

    @property
    def response_s(self) -> float | None:
        """From when it came to the first action that an engine planned (s); None before."""
        return None if self._scripted_response else self._delivery.timeline.response_s

    @property
    def remaining_s(self) -> float:
        """Expected time (s) until its robot has done what was generated so far."""
        return self._delivery.remaining_s

    @property
    def generated(self) -> bool:
        """Whether its plan is complete."""
        return self._began and not self._generating

    @property
    def phase(self) -> TaskPhase:
        """Where it is in its life."""
        if self.result.done():
            return TaskPhase.ENDED
        if self._ending is not None:
            return TaskPhase.STOPPING
        if not self._began:
            return TaskPhase.QUEUED
        if self._delivery.awaits_approval:
            return TaskPhase.UNAPPROVED
        if self._delivery.busy:
            held = self._generating and self._delivery.awaits_value
            return TaskPhase.HELD if held else TaskPhase.EXECUTING
        return TaskPhase.WAITING if self._generated else TaskPhase.GENERATING

    @property
    def feedback(self) -> TaskFeedback:
        """How far it is."""
        delivery = self._delivery
        return TaskFeedback(
            self.phase,
            self._generated,
            delivery.remaining_s,
            delivery.call,
            self.expected,
            self._context.demand(),
        )

    # What happens to it

    def accept(self) -> None:
        """Announce it and start the watch over its time budget."""
        task, budgeted = self.task, self._prepared.budgeted
        now_s = self._context.clock.now()
        self._context.emit(
            TaskAccepted(
                task.task_id, task.robot, now_s, task, self.received_s, budgeted, self.expected
            )
        )
        if task.time_budget_s is not None:
            self._watch(self._watch_budget(task.time_budget_s), 'budget')
        if math.isfinite(task.utility.worthless_after_s):
            self._watch(self._watch_worth(), 'worth')
        self._touch()

    def begin(self) -> bool:
        """Have its plan generated, now that it is its turn; return whether that begins here."""
        if self._began or self._ending is not None:
            return False
        if not self._prepared.link.available:
            self.end(self._prepared.robot_lost())
            return False
        self._began = self._generating = True
        self.await_engine()
        try:
            request = self._prepared.request(self.received_s, self._context.config)
            self._context.engine.submit(request)
        except Exception as err:
            _logger.exception('engine')
            self.end(Ending(EngineError.code, f'the engine refused the generation: {err!r}'))
        self._touch()
        return self._generating

    def on_segment(self, event: SegmentGenerated) -> None:
        """Send a new segment to the robot."""
        if not self._generating:
            return
        segment = event.segment
        if segment.index != self._generated:
            wrong = f'segment {segment.index}: expected segment {self._generated}'
            self.end(Ending.of(EngineError(wrong)))
            return
        self._tokens += segment.tokens
        self._send(segment, event.token_at_s, event.generation_s, event.kv_tokens)
        self._tell_idle()
        self._touch(feedback=True)

    def _send(self, segment: Segment, token_at_s: float, generation_s: float, kv: int) -> None:
        self._generated += 1
        task = self.task
        expected_s = expected_execution_s(segment.statements, self._prepared.skill_set, task.scene)
        times, now_s = (token_at_s, generation_s, expected_s), self._context.clock.now()
        why = self._fallback or ''
        self._context.emit(SegmentReady(task.task_id, task.robot, now_s, segment, *times, kv, why))
        self._delivery.send(TimedSegment(task.task_id, segment, task.scene, *times))

    def on_eviction(self, event: EvictionDecided) -> None:
        """Note how much of the prompt's KV was evicted."""
        self._evicted = event.share

    def on_generation_ended(self, event: GenerationEnded) -> None:
        """Note that no further segment comes."""
        self._tokens = max(self._tokens, event.tokens)
        if not self._generating:
            return
        self._note_generation_end()
        self._stop_watches()
        if self.task.overrun == 'skip_next' and self._is_late():
            self._on_late_generation(self)
        match event.reason:
            case 'stop' if self._generated:
                self._finish_if_done()
            case 'stop':
                self.end(Ending(PlanError.code, 'plan is empty: expected at least one statement'))
            case 'length' if self._generated and self._prepared.skill_set.free_text is not None:
                # An answer may be cut off, and is read as far as it goes.
                self._finish_if_done()
            case 'length':
                self.end(self._prepared.without_end(event.tokens, self._context.config))
            case 'invalid_plan':
                self.end(Ending(PlanError.code, event.error))
            case 'worthless':
                self.end(Ending(WorthlessError.code, event.error))
            case 'canceled' | 'error':
                text = event.error or 'the engine dropped the generation'
                given_up = event.reason == 'error' and not event.refused
                self._fall_back(text) if given_up else self.end(Ending(EngineError.code, text))
        self._touch()

    def on_engine_failed(self, error: str) -> None:
        """Note that the engine lost the generation."""
        if self._generating:
            self._generating = False
            self._fall_back(f'engine failed: {error}')

    # Its fallback plan

    def await_engine(self) -> None:
        """Have its fallback plan done where the engine is silent for too long."""
        if self._context.config.fallback_after_s and self._asked_s is None:
            self._asked_s = self._context.clock.now()
            self._watch(self._watch_engine(), 'engine')

    async def _watch_engine(self) -> None:
        limit_s = self._context.config.fallback_after_s
        await self._context.ear.silence(limit_s, self._silent_since_s)
        if self._ending is None and not self.generated:
            self._fall_back(f'no engine answered for {limit_s:g} s')

    def _silent_since_s(self) -> float:
        asked_s, now_s = self._asked_s, self._context.clock.now()
        return now_s if asked_s is None or self._delivery.awaits_value else asked_s

    def _fall_back(self, why: str) -> None:
        """Have the fallback plan done after what its robot has; without one, end it."""
        prepared, kind = self._prepared, self.task.task_kind
        segments = fallback_segments(prepared.skill_set, kind, self._generated)
        if not (segments and self._context.config.fallback_after_s and prepared.link.available):
            self.end(Ending(EngineError.code, why))
            return
        self._stop_watches()
        self._stop_generation()
        self._began, self._scripted_response, self._fallback = True, not self._generated, why
        plan = ''.join(segment.text for segment in segments)
        self._owed = Ending(EngineError.code, f'{why}; its robot did the fallback plan {plan!r}')
        for segment in segments:
            self._send(segment, self._context.clock.now(), 0.0, 0)
        self._touch(feedback=True)

    def end(self, ending: Ending) -> None:
        """End it; the first reason counts. The robot is brought to its safe action first."""
        if self._ending is not None:
            return
        self._ending = ending
        self._stop_watches()
        self._stop_generation()
        if self._delivery.busy or (self._delivery.touched_robot and not ending.succeeded):
            self._touch()
            self._context.group.spawn(self._wind_down(), f'end of {self.task.task_id}')
        else:
            self._conclude()

    # Its robot

    def _on_progress(self) -> None:
        self._tell_idle()
        self._touch(feedback=True)

    def _on_success(self, segment: Segment, outcome: SegmentOutcome) -> None:
        self._executed += 1
        if self._ending is not None:
            return
        if segment.awaits_value and self._generating:
            if outcome.value is None:
                text = f'segment {segment.index}, {segment.text!r}: expected a value, got none'
                self.end(Ending(ExecutionError.code, text))
                return
            self._asked_s = self._context.clock.now()
            self._context.engine.resume(self.task.task_id, outcome.value)
        self._tell_idle()
        self._finish_if_done()
        self._touch()

    def _tell_idle(self) -> None:
        if self._generating:
            self._context.engine.robot_idle_at(self.task.task_id, self._delivery.idle_at_s)

    # Its end

    def _stop_generation(self) -> None:
        if self._generating:
            self._note_generation_end()
            self._context.engine.cancel(self.task.task_id)

    def _note_generation_end(self) -> None:
        self._generating = False
        self._generation_s = self._context.clock.now() - self.received_s

    def _finish_if_done(self) -> None:
        if not self._generating and not self._delivery.busy and self._ending is None:
            self.end(self._owed or Ending())

    async def _wind_down(self) -> None:
        try:
            await self._delivery.stop()
        finally:
            self._conclude()

    def _conclude(self) -> None:
        timeline, response_s = self._delivery.timeline, self.response_s
        result = TaskResult(
            ending=self._ending or Ending(),
            response_s=response_s,
            waiting_s=timeline.waiting_s,
            execution_s=timeline.execution_s,
            completion_s=timeline.completion_s,
            utility=0.0 if response_s is None else self.task.utility.first(response_s),
            tokens=self._tokens,
            segments=self._executed,
            waits_s=timeline.waits_s,
            eviction_ratio=self._evicted,
            generation_s=self._generation_s,
            budget=None if self._prepared.budgeted is None else self._prepared.budgeted.budget,
            skill_failed=self._delivery.skill_failed,
        )
        self.result.set_result(result)
        self._touch()
        self._context.emit(
            TaskEnded(self.task.task_id, self.task.robot, self._context.clock.now(), result)
        )
        self._on_ended(self)
        self._delivery.leave()

    # Its time budget

    def _is_late(self) -> bool:
        budget_s = self.task.time_budget_s
        elapsed_s = self._context.clock.now() - self.received_s
        return budget_s is not None and elapsed_s > budget_s + BUDGET_TOLERANCE_S

    async def _watch_budget(self, budget_s: float) -> None:
        deadline_s = self.received_s + budget_s + 2 * BUDGET_TOLERANCE_S
        await self._context.clock.sleep(deadline_s - self._context.clock.now())
        if self.task.overrun != 'kill' or self._ending is not None:
            return
        self._owed = self._prepared.overran(self._tokens, self._generated)
        self._stop_generation()
        # The robot finishes what it has; a task that still queues has nothing and ends at once.
        self._finish_if_done()

    def _watch(self, coroutine: Coroutine[Any, Any, None], what: str) -> None:
        self._watches.append(self._context.group.spawn(coroutine, f'{what} of {self.task.task_id}'))

    def _stop_watches(self) -> None:
        for watch in self._watches:
            # The one that ends the task has yet to see to its end.
            if watch is not asyncio.current_task():
                watch.cancel()

    # Its worth

    async def _watch_worth(self) -> None:
        """End it when its first segment is not there by the time it would not be wanted."""
        limit_s = self.task.utility.worthless_after_s
        await self._context.clock.sleep(self.received_s + limit_s - self._context.clock.now())
        if self._generated:
            return
        waited = 'no segment was there' if self._began else 'its robot had not come to it'
        self.end(self._prepared.worthless(waited))

    def _touch(self, *, feedback: bool = False) -> None:
        """Tell of a new phase, and how far the task is then or where ``feedback`` asks for it."""
        phase = self.phase
        if not ((changed := phase is not self._last_phase) or feedback):
            return
        if changed:
            now_s = self._context.clock.now()
            self._last_phase = phase
            self._context.emit(PhaseChanged(self.task.task_id, self.task.robot, now_s, phase))
        if self._on_feedback is not None:
            try:
                self._on_feedback(self.feedback)
            except Exception:
                _logger.exception('feedback callback of task %s', self.task.task_id)
