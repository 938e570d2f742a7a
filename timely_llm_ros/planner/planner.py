"""The planner takes tasks, has their plans generated and sends the segments to robots.

It runs on asyncio, knows nothing of ROS and reads the time only from its ``Clock``.
"""

from __future__ import annotations

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
    ShutdownError,
    SupersededError,
    TaskRefusedError,
    TimelyError,
)
from timely_llm_ros.planner.background_tasks import BackgroundTasks
from timely_llm_ros.planner.budgets import Budgets
from timely_llm_ros.planner.config import PlannerConfig
from timely_llm_ros.planner.context import EngineEar, PlannerContext
from timely_llm_ros.planner.events import tell
from timely_llm_ros.planner.experience import Experience
from timely_llm_ros.planner.gate import Gate, require_known, require_robot
from timely_llm_ros.planner.permission import Approvals
from timely_llm_ros.planner.prepared_task import PreparedTask
from timely_llm_ros.planner.robot_queue import RobotQueue
from timely_llm_ros.planner.task_group import TaskGroup
from timely_llm_ros.planner.task_handle import TaskHandle
from timely_llm_ros.planner.task_prompts import TaskPrompts, WarmScenes
from timely_llm_ros.planner.task_run import TaskRun
from timely_llm_ros.planner.tries import Tries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine, EngineEvent, EngineInfo, Reschedule
    from timely_llm_ros.execution import RobotLink
    from timely_llm_ros.planner.background_tasks import BackgroundHandle, BackgroundTask
    from timely_llm_ros.planner.budgets import BudgetedTask
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.permission import AllowList
    from timely_llm_ros.planner.task import Task, TaskFeedback
    from timely_llm_ros.planner.worth import AdmissionState
    from timely_llm_ros.prediction.lengths import LengthPredictor
    from timely_llm_ros.prediction.times import ExecutionTimeModel
    from timely_llm_ros.skills import Prompt, SkillSet

_logger = logging.getLogger(__name__)


class Planner:
    """Plans for a fleet. Used from one asyncio loop; no method but start and close waits.

    The planner starts and closes its engine. Robots may be added to ``robots`` while it runs.
    Events are told on the loop's thread.

    Args:
        engine: Generates the plans.
        robots: Links by name of the robot.
        skill_sets: Skill sets by name.
        clock: The only time that the planner sees.
        config: Its options.
        on_event: Called with every event of the planner.
        on_engine_event: Called with every event of the engine.
        times: How long the engine's prompts and steps take; None for what the engine itself says.
        predictor: Predicts plan lengths for time budgets, and for an engine that ranks by them;
            None to learn them from the plans that end.
        allows: Which client may command which robot; None for every client every one.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        robots: Mapping[str, RobotLink],
        skill_sets: Mapping[str, SkillSet],
        clock: Clock,
        config: PlannerConfig | None = None,
        on_event: Callable[[PlannerEvent], None] | None = None,
        on_engine_event: Callable[[EngineEvent], None] | None = None,
        times: ExecutionTimeModel | None = None,
        predictor: LengthPredictor | None = None,
        allows: AllowList | None = None,
    ) -> None:
        self._config = PlannerConfig() if config is None else config
        self._engine = engine
        self._robots, self._skill_sets, self._clock = robots, skill_sets, clock
        self._on_event, self._on_engine_event_seen = on_event, on_engine_event
        self._times, self._experience = times, Experience(predictor)
        self._budgets: Budgets | None = None
        self._group = TaskGroup()
        self._gate = Gate(clock, self._config, allows)
        self.approvals = Approvals(
            clock, self._config.approval_above, self._config.approval_limit_s, self._emit
        )
        """The segments that wait for somebody's approval."""
        self._context = PlannerContext(
            engine=engine,
            clock=clock,
            group=self._group,
            emit=self._emit,
            config=self._config,
            demand=self._gate.demand,
            approvals=self.approvals,
            ear=EngineEar(clock),
        )
        self.prompts = TaskPrompts()
        """What makes the prompts of its tasks."""
        self.warm_scenes = WarmScenes(engine, self.prompts)
        """What the engine knows of robots' scenes before tasks come."""
        self._background = BackgroundTasks(self._context, skill_sets, self.prompts.build)
        self._runs: dict[str, TaskRun] = {}
        self._queues: dict[str, RobotQueue] = {}
        self._engine_ready = False
        self._open = False

    @property
    def tasks(self) -> tuple[TaskHandle, ...]:
        """Every task that has not ended, in the order of acceptance."""
        return tuple(map(TaskHandle, self._runs.values()))

    @property
    def admission(self) -> AdmissionState:
        """What was taken and refused, and what came of what was promised."""
        return self._gate.state

    async def start(self) -> EngineInfo:
        """Start the engine, then take tasks.

        Raises:
            ModelLoadError: The engine's model cannot be loaded.
            ConfigurationError: The template of its prompts cannot be used.
        """
        info = await self._engine.start(self._on_engine_event)
        try:
            await self.prompts.load(self._config.prompt, info, self._skill_sets)
        except BaseException:
            await self._engine.close()
            raise
        times = self._times or info.times
        if times is not None and self._config.budgets is not None:
            self._budgets = Budgets(
                info, times, self._experience.predictor, self._config, self.prompts
            )
        self._engine_ready = self._open = True
        self.warm_scenes.engine_ready(info)
        self._background.engine_ready()
        return info

    def configure(self, config: PlannerConfig, schedule: Reschedule) -> None:
        """Decide by other options from now on; what was learned stays."""
        self._gate.configure(config)
        if self._budgets is not None:
            self._budgets.configure(config)
        self._config = config
        self._engine.send(schedule)

    def end_all(self, error: TimelyError) -> None:
        """End every task for that reason; their robots are made safe first."""
        # The newest first, so that none begins because the one before it ended.
        for run in tuple(self._runs.values())[::-1]:
            run.end(Ending.of(error))

    async def close(self) -> None:
        """End every task as SHUTDOWN with its robot safe, then close the engine; idempotent."""
        self._open = False
        self._background.close()
        self.end_all(ShutdownError('the planner is going down'))
        # A run's end takes at most two stop limits: one for its segments, one for the safe action.
        await self._group.join(2.5 * self._config.stop_limit_s)
        self._engine_ready = False
        self.warm_scenes.engine_stopped()
        await self._engine.close()

    def choose(
        self, task: Task, distance_m: Callable[[str], float | None] = lambda _: None
    ) -> Task:
        """Return a task with the robot that is expected to earn most by it, of those it allows.

        ``distance_m`` says how far what it is about is from a robot (m), where that is known.

        Raises:
            NotAllowedError: Its client may command none of them.
            RobotUnavailableError: None of those is there, released and has room for it.
        """
        if not task.alternatives:
            return task
        return self._gate.choose(task, self._robots, self._queues, distance_m)

    def tries(self, task: Task, came_s: float) -> Tries:
        """Return what says whether a task that came then (s) is planned again where it fails."""
        return Tries(task, came_s, self._config.replans)

    def prepare(self, task: Task) -> PreparedTask:
        """Check whether a task can be served now, and work out how; nothing waits for it yet.

        What is asked for counts for what later tasks are told: a task is prepared once.

        Raises:
            InvalidTaskError: It names something unknown, its id is taken, or its instruction holds
                a mark of the model's prompts.
            NotAllowedError: Its client may not command that robot.
            RobotUnavailableError: Its robot is halted, or its executor silent or not active.
            TaskRefusedError: Its budget is too small or its robot's queue is full.
            ShutdownError: The planner is not running.
        """
        self._require_new(task)
        task = self.choose(task)
        skill_set = require_known(task, self._robots, self._skill_sets)
        self._gate.require_allowed(task)
        link = require_robot(self._robots, task.robot)
        queue = self._queues.get(task.robot)
        takes_over = self._gate.takes_over(task, queue)
        if not (takes_over or task.goal_id):
            # A further plan has the place of the one before it.
            self._gate.require_room(task.robot, queue)
        prompt = self.prompts.build(skill_set, task.scene, task.instruction, task.history)
        max_tokens = self._config.max_tokens
        budgeted = self._budget(task, skill_set, prompt)
        if budgeted is not None:
            prompt, max_tokens = budgeted.prompt, budgeted.budget.max_tokens
        return PreparedTask(
            task,
            skill_set,
            link,
            prompt,
            max_tokens,
            budgeted,
            self._expected_tokens(prompt),
            self._gate.judge(task, None if takes_over else queue),
            takes_over,
        )

    def submit(
        self,
        prepared: PreparedTask,
        *,
        received_s: float | None = None,
        on_feedback: Callable[[TaskFeedback], None] | None = None,
    ) -> TaskHandle:
        """Accept a task; it then ends exactly once.

        Args:
            prepared: The task, prepared just before: nothing but its id is checked again.
            received_s: When it came (s), from which its response counts; None for now. Whoever
                keeps tasks back, until a robot is free for instance, says when they came.
            on_feedback: Called on the loop's thread at a change of phase, at a new segment and
                when its robot reports progress.

        Raises:
            InvalidTaskError: Its id was taken since.
            ShutdownError: The planner was closed since.
        """
        task = prepared.task
        self._require_new(task)
        queue = self._queues.setdefault(task.robot, RobotQueue(self._gate.rank))
        run = TaskRun(
            prepared,
            self._context,
            received_s=self._clock.now() if received_s is None else received_s,
            robot_free=queue.wait_free,
            on_late_generation=self._skip_queued,
            on_ended=self._on_ended,
            on_feedback=on_feedback,
        )
        self._runs[task.task_id] = run
        self._gate.accepted(run)
        run.accept()
        if queue.current is not None and not prepared.takes_over:
            queue.waiting.append(run)
            return TaskHandle(run)
        superseded = queue.take_over(run)
        if superseded is not None:
            taken_over = SupersededError(f'task {task.task_id} took over robot {task.robot!r}')
            superseded.end(Ending.of(taken_over))
        self._begin(run)
        return TaskHandle(run)

    def _require_new(self, task: Task) -> None:
        if not self._open:
            raise ShutdownError(f'task {task.task_id}: the planner is not running')
        if task.task_id in self._runs:
            raise InvalidTaskError(f'task id {task.task_id!r}: expected one that is not in use')

    def _budget(self, task: Task, skill_set: SkillSet, prompt: Prompt) -> BudgetedTask | None:
        """Return how a task is generated within its time budget, where that can be planned."""
        if self._budgets is not None:
            return self._budgets.decide(task, skill_set, prompt)
        if self._config.learns_least_time:
            self._experience.require_time(task)
        return None

    def generate(self, task: BackgroundTask) -> BackgroundHandle:
        """Have a plan made for nobody, in the engine time that no robot needs.

        Raises:
            InvalidTaskError: It names something unknown, its id is taken, or it has a bad text.
            ShutdownError: The planner is not running.
        """
        if not self._open:
            raise ShutdownError(f'background task {task.task_id}: the planner is not running')
        return self._background.submit(task)

    def _expected_tokens(self, prompt: Prompt) -> float | None:
        """Return a plan's expected length (tokens) where the engine is to be told."""
        if not self._config.predicts_lengths:
            return None
        return self._experience.expected_tokens(prompt, self._config.max_tokens)

    def _begin(self, run: TaskRun) -> None:
        if self._open and not self._engine_ready:
            run.await_engine()
        elif self._open and run.begin():
            self._gate.began(run)

    def _skip_queued(self, late: TaskRun) -> None:
        """Refuse the tasks that queued behind a late generation before it ended."""
        now_s = self._clock.now()
        skipped = TaskRefusedError(
            f'skipped: task {late.task.task_id} of the same robot overran its '
            f'time budget of {late.task.time_budget_s:g} s'
        )
        for run in tuple(self._queues[late.task.robot].waiting):
            if run.received_s < now_s:
                run.end(Ending.of(skipped))

    def _on_ended(self, run: TaskRun) -> None:
        del self._runs[run.task.task_id]
        self._gate.ended(run)
        (queue := self._queues[run.task.robot]).leave(run)
        if queue.empty:
            del self._queues[run.task.robot]
        elif queue.current is not None:
            self._begin(queue.current)

    def _on_engine_event(self, event: EngineEvent) -> None:
        self._context.ear.hear(event)
        match event:
            case SegmentGenerated():
                self._background.on_event(event)
                self._gate.on_segment(event, self._runs.get(event.generation_id))
                self._of_generation(event.generation_id, lambda run: run.on_segment(event))
            case GenerationEnded():
                self._background.on_event(event)
                run = self._runs.get(event.generation_id)
                if run is not None and event.reason == 'stop':
                    self._experience.learn(run.task.skill_set, run.prompt, event)
                    if self._budgets is not None:
                        tokens, forwarded = event.tokens + 1, event.forwarded
                        self._budgets.learn(run.task.skill_set, tokens, forwarded)
                    self._gate.on_plan(run)
                self._of_generation(event.generation_id, lambda run: run.on_generation_ended(event))
            case EvictionDecided():
                self._of_generation(event.generation_id, lambda run: run.on_eviction(event))
            case EngineFailed():
                self._engine_ready = False
                self.warm_scenes.engine_stopped()
                self._background.engine_failed(event.error)
                for run in tuple(self._runs.values()):
                    run.on_engine_failed(event.error)
            case EngineReady(info):
                self._engine_ready = self._open
                self.warm_scenes.engine_ready(info)
                for run in [queue.current for queue in self._queues.values() if queue.current]:
                    self._begin(run)
                if self._open:
                    self._background.engine_ready()
            case EngineStateChanged() if self._budgets is not None:
                self._budgets.on_engine_event(event)
        tell(self._on_engine_event_seen, event)

    def _of_generation(self, generation_id: str, handle: Callable[[TaskRun], None]) -> None:
        if (run := self._runs.get(generation_id)) is None:
            return
        try:
            handle(run)
        except Exception as err:
            _logger.exception('task %s', generation_id)
            run.end(Ending(TimelyError.code, f'fault in the planner: {err!r}'))

    def _emit(self, event: PlannerEvent) -> None:
        tell(self._on_event, event)
