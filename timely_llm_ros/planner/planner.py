"""The planning service: tasks in, segments out. asyncio, no ROS, time only through ``Clock``."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from timely_llm_ros.engines import (
    EngineFailed,
    EngineReady,
    EngineStateChanged,
    EvictionDecided,
    GenerationEnded,
    SegmentGenerated,
)
from timely_llm_ros.errors import (
    Ending,
    InvalidTaskError,
    RobotUnavailableError,
    ShutdownError,
    SupersededError,
    TaskCanceledError,
    TaskRefusedError,
    TimelyError,
)
from timely_llm_ros.planner.background_tasks import BackgroundLane
from timely_llm_ros.planner.budgets import Budgets
from timely_llm_ros.planner.context import Services
from timely_llm_ros.planner.robot_queue import Lane
from timely_llm_ros.planner.task_group import Background
from timely_llm_ros.planner.task_run import TaskRun
from timely_llm_ros.prediction.lengths import EmpiricalLengths, learn_length
from timely_llm_ros.skills import build_prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.budget import BudgetOptions
    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine, EngineEvent, EngineInfo
    from timely_llm_ros.execution import RobotLink
    from timely_llm_ros.planner.background_tasks import BackgroundHandle, BackgroundTask
    from timely_llm_ros.planner.budgets import BudgetedTask
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.task import Task, TaskFeedback, TaskPhase, TaskResult
    from timely_llm_ros.prediction.lengths import LengthPredictor
    from timely_llm_ros.prediction.times import ExecutionTimeModel
    from timely_llm_ros.skills import Prompt, SkillSet

_logger = logging.getLogger(__name__)


class TaskHandle:
    """An accepted task."""

    def __init__(self, run: TaskRun) -> None:
        self._run = run

    @property
    def task(self) -> Task:
        """The task."""
        return self._run.task

    @property
    def received_s(self) -> float:
        """When it was received, on the planner's clock (s)."""
        return self._run.received_s

    @property
    def phase(self) -> TaskPhase:
        """Where it is in its life."""
        return self._run.phase

    @property
    def feedback(self) -> TaskFeedback:
        """How far it is."""
        return self._run.feedback

    async def result(self) -> TaskResult:
        """Return how it ended, once it has; never raises for a task that failed."""
        return await asyncio.shield(self._run.result)

    def cancel(self) -> None:
        """End it as CANCELED; no-op if it is ending already. Its robot is made safe first."""
        self._run.end(Ending.of(TaskCanceledError('cancelled by the client')))


class Planner:
    """Plans for a fleet. Used from one asyncio loop; no method but start and close waits.

    Args:
        engine: Produces the segments; started and closed by the planner.
        robots: Links by robot name; may grow while the planner runs.
        skill_sets: Skill sets by name.
        clock: The only time the planner sees.
        on_event: Called with every planner event, on the loop's thread.
        on_engine_event: Called with every engine event, on the loop's thread.
        estimate_generation_s: Predicts how long (s) a task's generation takes, None if it cannot;
            a task whose budget is smaller is refused. Asked where there are no ``times``.
        max_queue_per_robot: Tasks that may queue behind a robot's current one.
        max_tokens: Length limit of a generation.
        constrained: Whether the skill set's grammar masks the model's choices.
        stop_limit_s: How long a robot may take to confirm that it stopped (s).
        times: How long the engine's prompts and steps take; None for what the engine itself says.
        budgets: How careful time budgets are checked; None, or where nobody knows the times, to
            keep them by the clock alone.
        predictor: Predicts response lengths for them, and for an engine that ranks by them.
        predicts_lengths: Whether the engine is told each plan's predicted length, to rank by it.
        max_running: Most generations in one engine step.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        robots: Mapping[str, RobotLink],
        skill_sets: Mapping[str, SkillSet],
        clock: Clock,
        on_event: Callable[[PlannerEvent], None] | None = None,
        on_engine_event: Callable[[EngineEvent], None] | None = None,
        estimate_generation_s: Callable[[Task], float | None] | None = None,
        max_queue_per_robot: int = 8,
        max_tokens: int = 512,
        constrained: bool = True,
        stop_limit_s: float = 5.0,
        times: ExecutionTimeModel | None = None,
        budgets: BudgetOptions | None = None,
        predictor: LengthPredictor | None = None,
        predicts_lengths: bool = False,
        max_running: int = 8,
    ) -> None:
        self._times, self._max_running = times, max_running
        self._budget_options = budgets
        self._predictor = predictor or EmpiricalLengths()
        self._predicts_lengths = predicts_lengths
        self._budgets: Budgets | None = None
        self._robots, self._skill_sets, self._clock = robots, skill_sets, clock
        self._on_event, self._on_engine_event_seen = on_event, on_engine_event
        self._estimate_generation_s = estimate_generation_s
        self._max_queue_per_robot = max_queue_per_robot
        self._engine = engine
        self._background = Background()
        self._services = Services(
            engine=engine,
            clock=clock,
            background=self._background,
            emit=self._emit,
            max_tokens=max_tokens,
            constrained=constrained,
            stop_limit_s=stop_limit_s,
        )
        self._background_lane = BackgroundLane(self._services, skill_sets)
        self._runs: dict[str, TaskRun] = {}
        self._lanes: dict[str, Lane] = {}
        self._engine_ready = False
        self._open = False

    @property
    def tasks(self) -> tuple[TaskHandle, ...]:
        """Every task that has not ended, in the order of acceptance."""
        return tuple(map(TaskHandle, self._runs.values()))

    @property
    def engine_ready(self) -> bool:
        """Whether the engine takes generations; tasks accepted meanwhile wait for it."""
        return self._engine_ready

    async def start(self) -> EngineInfo:
        """Start the engine, then take tasks.

        Raises:
            ModelLoadError: The engine's model cannot be loaded.
        """
        info = await self._engine.start(self._on_engine_event)
        times = self._times or info.times
        if times is not None and self._budget_options is not None:
            self._budgets = Budgets(
                info,
                times,
                predictor=self._predictor,
                options=self._budget_options,
                max_running=self._max_running,
                max_tokens=self._services.max_tokens,
            )
        self._engine_ready = self._open = True
        self._background_lane.engine_ready()
        return info

    def end_all(self, error: TimelyError) -> None:
        """End every task for that reason; their robots are made safe first."""
        # The newest first, so that none begins because the one before it ended.
        for run in tuple(self._runs.values())[::-1]:
            run.end(Ending.of(error))

    async def close(self) -> None:
        """End every task as SHUTDOWN with its robot safe, then close the engine; idempotent."""
        self._open = False
        self._background_lane.close()
        self.end_all(ShutdownError('the planner is going down'))
        # A run's end takes at most two stop limits: one for its segments, one for the safe action.
        await self._background.join(2.5 * self._services.stop_limit_s)
        self._engine_ready = False
        await self._engine.close()

    def validate(self, task: Task) -> Prompt:
        """Check a task without accepting it; return its prompt. Only reads, on any thread.

        Raises:
            InvalidTaskError: It names something unknown, its id is taken, or it has a bad text.
            RobotUnavailableError: Its robot's executor does not answer.
            TaskRefusedError: Its budget is too small or its robot's queue is full.
            ShutdownError: The planner is not running.
        """
        return self._check(task)[0]

    def _check(self, task: Task) -> tuple[Prompt, BudgetedTask | None]:
        """Return a task's prompt, and how it is generated within its budget where it has one."""
        if not self._open:
            raise ShutdownError(f'task {task.task_id}: the planner is not running')
        link = self._robots.get(task.robot)
        if link is None:
            raise InvalidTaskError(f'robot {task.robot!r}: expected {_one_of(self._robots)}')
        skill_set = self._skill_sets.get(task.skill_set)
        if skill_set is None:
            raise InvalidTaskError(
                f'skill set {task.skill_set!r}: expected {_one_of(self._skill_sets)}'
            )
        if task.task_id in self._runs:
            raise InvalidTaskError(f'task id {task.task_id!r}: expected one that is not in use')
        prompt = build_prompt(skill_set, task.scene, task.instruction)
        if not link.available:
            raise RobotUnavailableError(
                f'robot {task.robot!r}: its executor does not answer, expected it to'
            )
        lane = self._lanes.get(task.robot)
        if (
            task.when_busy == 'queue'
            and lane is not None
            and lane.current is not None
            and len(lane.queue) >= self._max_queue_per_robot
        ):
            raise TaskRefusedError(
                f'robot {task.robot!r} has {len(lane.queue)} tasks queued: '
                f'expected less than {self._max_queue_per_robot}'
            )
        if self._budgets is not None:
            return prompt, self._budgets.decide(task, skill_set, prompt)
        if task.time_budget_s is not None and self._estimate_generation_s is not None:
            estimate_s = self._estimate_generation_s(task)
            if estimate_s is not None and estimate_s > task.time_budget_s:
                raise TaskRefusedError(
                    f'time budget {task.time_budget_s:g} s: '
                    f'expected at least the estimated {estimate_s:.3f} s of generation'
                )
        return prompt, None

    def submit(
        self, task: Task, *, on_feedback: Callable[[TaskFeedback], None] | None = None
    ) -> TaskHandle:
        """Accept a task; it then ends exactly once.

        Args:
            task: The task.
            on_feedback: Called on the loop's thread at a change of phase, at a new segment and
                at each progress that its robot reports.

        Raises:
            TimelyError: As :meth:`validate`; nothing was started then.
        """
        prompt, budgeted = self._check(task)
        lane = self._lanes.setdefault(task.robot, Lane())
        prompt = prompt if budgeted is None else budgeted.prompt
        run = TaskRun(
            task,
            prompt=prompt,
            budgeted=budgeted,
            predicted_tokens=self._predicted(prompt),
            skill_set=self._skill_sets[task.skill_set],
            link=self._robots[task.robot],
            services=self._services,
            robot_free=lane.wait_free,
            on_late_generation=self._skip_queued,
            on_ended=self._on_ended,
            on_feedback=on_feedback,
        )
        self._runs[task.task_id] = run
        run.accept()
        if lane.current is not None and task.when_busy == 'queue':
            lane.queue.append(run)
            return TaskHandle(run)
        superseded = lane.take_over(run)
        if superseded is not None:
            superseded.end(
                Ending.of(SupersededError(f'task {task.task_id} took over robot {task.robot!r}'))
            )
        self._begin(run)
        return TaskHandle(run)

    def generate(self, task: BackgroundTask) -> BackgroundHandle:
        """Have a plan made for nobody, in the engine time that no robot needs.

        Raises:
            InvalidTaskError: It names something unknown, its id is taken, or it has a bad text.
            ShutdownError: The planner is not running.
        """
        if not self._open:
            raise ShutdownError(f'background task {task.task_id}: the planner is not running')
        return self._background_lane.submit(task)

    def _predicted(self, prompt: Prompt) -> float | None:
        """Return a plan's expected length (tokens) where the engine is to be told."""
        if not self._predicts_lengths:
            return None
        found = self._predictor.predict(prompt.fixed, prompt.body)
        return float(found.predicted(self._services.max_tokens))

    def _begin(self, run: TaskRun) -> None:
        if self._engine_ready and self._open:
            run.begin()

    def _skip_queued(self, late: TaskRun) -> None:
        """Refuse the tasks that queued behind a late generation before it ended."""
        now_s = self._clock.now()
        for run in tuple(self._lanes[late.task.robot].queue):
            if run.received_s < now_s:
                run.end(
                    Ending.of(
                        TaskRefusedError(
                            f'skipped: task {late.task.task_id} of the same robot overran its '
                            f'time budget of {late.task.time_budget_s:g} s'
                        )
                    )
                )

    def _on_ended(self, run: TaskRun) -> None:
        del self._runs[run.task.task_id]
        robot = run.task.robot
        lane = self._lanes[robot]
        lane.leave(run)
        if lane.empty:
            del self._lanes[robot]
        elif lane.current is not None:
            self._begin(lane.current)

    def _on_engine_event(self, event: EngineEvent) -> None:
        match event:
            case SegmentGenerated():
                self._background_lane.on_event(event)
                self._of_generation(event.generation_id, lambda run: run.on_segment(event))
            case GenerationEnded():
                self._background_lane.on_event(event)
                run = self._runs.get(event.generation_id)
                if run is not None and event.reason == 'stop':
                    fixed, body = run.prompt.fixed, run.prompt.body
                    learn_length(self._predictor, fixed, body, event.tokens + 1)
                self._of_generation(event.generation_id, lambda run: run.on_generation_ended(event))
            case EvictionDecided():
                self._of_generation(event.generation_id, lambda run: run.on_eviction(event))
            case EngineFailed():
                self._engine_ready = False
                self._background_lane.engine_failed(event.error)
                for run in tuple(self._runs.values()):
                    run.on_engine_failed(event.error)
            case EngineReady():
                self._engine_ready = self._open
                for lane in tuple(self._lanes.values()):
                    if lane.current is not None:
                        self._begin(lane.current)
                if self._open:
                    self._background_lane.engine_ready()
            case EngineStateChanged():
                if self._budgets is not None:
                    self._budgets.on_engine_event(event)
        if self._on_engine_event_seen is not None:
            try:
                self._on_engine_event_seen(event)
            except Exception:
                _logger.exception('observer of engine events')

    def _of_generation(self, generation_id: str, handle: Callable[[TaskRun], None]) -> None:
        run = self._runs.get(generation_id)
        if run is None:
            return
        try:
            handle(run)
        except Exception as err:
            _logger.exception('task %s', generation_id)
            run.end(Ending(TimelyError.code, f'fault in the planner: {err!r}'))

    def _emit(self, event: PlannerEvent) -> None:
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                _logger.exception('observer of planner events')


def _one_of(names: Mapping[str, object]) -> str:
    return f'one of {", ".join(map(repr, sorted(names)))}' if names else 'none is known yet'
