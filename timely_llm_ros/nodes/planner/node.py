"""The planner as a managed node: task goals in, segments out to the robots' executors."""

from __future__ import annotations

import asyncio
import itertools
import logging
from functools import partial
from typing import TYPE_CHECKING

from rcl_interfaces.msg import SetParametersResult
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import Header, String

from timely_llm_ros.clock import WallClock
from timely_llm_ros.engines import OpenAIConfig, OpenAIEngine, Reschedule, create_engine
from timely_llm_ros.errors import ConfigurationError, ShutdownError, TimelyError
from timely_llm_ros.nodes.planner.approvals import ApprovalServer
from timely_llm_ros.nodes.planner.audit import PlannerAudit
from timely_llm_ros.nodes.planner.catalogue import Catalogue
from timely_llm_ros.nodes.planner.diagnostics import PlannerDiagnostics
from timely_llm_ros.nodes.planner.loading import start_within, work_off
from timely_llm_ros.nodes.planner.metrics import planner_samples
from timely_llm_ros.nodes.planner.options import (
    allow_list,
    background_file,
    budgets_text,
    default_utility,
    engine_config,
    length_predictor,
    planner_config,
    profiled_times,
)
from timely_llm_ros.nodes.planner.parameter_changes import ParameterChanges
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.nodes.planner.robot_scenes import RobotScenes
from timely_llm_ros.nodes.planner.ros_robot_link import (
    CHECK_PERIOD_S,
    IDLE_TURNS,
    hear,
    robot_links,
)
from timely_llm_ros.nodes.planner.spans import PlannerSpans
from timely_llm_ros.nodes.planner.task_server import TaskServer
from timely_llm_ros.nodes.planner.topics import PlannerTopics
from timely_llm_ros.planner import Planner, TaskAccepted
from timely_llm_ros.processes import take_precedence
from timely_llm_ros.ros import (
    STATE_QOS,
    Exporter,
    SolePublisher,
    autostart,
    declare,
    read,
    robot_entries,
    set_level,
)
from timely_llm_ros.srv import DescribeSkills

if TYPE_CHECKING:
    from rclpy.parameter import Parameter

    from timely_llm_ros.engines import Engine, EngineInfo
    from timely_llm_ros.planner import PlannerEvent
    from timely_llm_ros.ros import EarlyClaim, RosThread

_logger = logging.getLogger(__name__)

DIAGNOSTICS_PERIOD_S = 1.0


class PlannerNode(LifecycleNode):  # type: ignore[misc]
    """Serves ``plan_task`` while active; the model is loaded when the node is configured.

    Args:
        ros: The thread that serves this node.
        stop: Set when the program is to end.
        claim: Claims its heartbeat already.

    Raises:
        ConfigurationError: A parameter or a skill set cannot be used.
    """

    def __init__(self, ros: RosThread, stop: asyncio.Event, claim: EarlyClaim) -> None:
        super().__init__('planner')
        self._ros, self._stop, self._claim = ros, stop, claim
        self.parameters = declare(self, PlannerParameters)
        self.catalogue = Catalogue.load(robot_entries(self.parameters.robots))
        self._exit_code = 0
        self._planner: Planner | None = None
        self._engine: Engine | None = None
        self._configuring: asyncio.Task[EngineInfo] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._background: asyncio.Task[None] | None = None
        self._heartbeat = SolePublisher(self, claim.sole)
        self.links = robot_links(
            self, ros, self.catalogue, self._heartbeat, self.parameters.robot_timeout_s
        )
        self.topics = PlannerTopics(self)
        self._exporter = Exporter(self.parameters.metrics, 'planner')
        self._spans = PlannerSpans(
            self.parameters.otlp_endpoint,
            self.get_fully_qualified_name(),
            lambda: self.get_clock().now().nanoseconds,
        )
        self._audit = PlannerAudit(self.parameters.audit_file)
        self._health = PlannerDiagnostics(
            self.get_fully_qualified_name().lstrip('/'), self.topics, self.links
        )
        self._catalogue = self.create_publisher(String, 'skill_catalogue', STATE_QOS)
        self._catalogue.publish(String(data=self.catalogue.as_yaml()))
        self.create_service(DescribeSkills, 'describe_skills', self._describe_skills)
        self._scenes = RobotScenes(self, ros, self.catalogue, self.parameters.scene, WallClock())
        self._approvals = ApprovalServer(self, ros, WallClock())
        self._tasks = TaskServer(
            self,
            ros,
            self.catalogue,
            self.topics,
            result_timeout_s=self.parameters.result_timeout_s,
            clock=WallClock(),
            default_utility=default_utility(self.parameters),
            heartbeat=self._heartbeat,
            audit=self._audit,
            spans=self._spans,
            scenes=self._scenes,
            links=self.links,
        )
        self._changes = ParameterChanges(self)
        set_level(self, self.parameters.log_level)
        self.add_on_set_parameters_callback(self._on_parameters)
        self.add_post_set_parameters_callback(self._on_parameters_set)

    # On the loop's thread

    async def serve(self) -> int:
        """Serve until it is time to stop, then end every task; return the exit code.

        Raises:
            ConfigurationError: Another planner serves these names.
        """
        # They may be met before it is known whose they are.
        meeting = asyncio.create_task(hear(self.links.values()), name='meet robots')
        try:
            await self._heartbeat.claim(self._claim)
        finally:
            meeting.cancel()
        # Robots stop when they do not hear it. An engine that computes must not hold it up.
        take_precedence(alone=True)
        self._ros.call(partial(take_precedence, alone=True))
        self._audit.begin(dict(self.catalogue.skill_set_of))
        self._tasks.open()
        self._ros.start(self)
        if self.parameters.autostart:
            self._ros.call(self._autostart)
        signs_of_life = asyncio.create_task(self._give_signs_of_life(), name='signs of life')
        signs_of_life.add_done_callback(self._on_last_sign)
        await self._stop.wait()
        self._tasks.planner = None
        if self._configuring is not None:
            self._configuring.cancel()
        await self._close_planner()
        signs_of_life.cancel()
        self._exporter.close()
        await self._spans.close()
        await self._audit.close()
        return self._exit_code

    async def _give_signs_of_life(self) -> None:
        """Show that both threads live, and notice robots that do not."""
        diagnosed_s = 0.0
        for turn in itertools.count():
            self._ros.call(self._beat)
            if rival := self._heartbeat.rival():
                self.get_logger().error(f'{rival}: leaving')
                self._exit_code = 1
                self._stop.set()
            for number, link in enumerate(self.links.values()):
                # Each look costs, and a robot that does nothing has little to say.
                if link.busy or (turn + number) % IDLE_TURNS == 0:
                    link.check()
            now_s = self._ros.loop.time()
            if now_s - diagnosed_s >= DIAGNOSTICS_PERIOD_S:
                diagnosed_s = now_s
                self._tell_health()
                self._scenes.publish_markers()
            if self._planner is not None:
                self._scenes.warm(self._planner)
            await asyncio.sleep(CHECK_PERIOD_S)

    def _on_last_sign(self, signs_of_life: asyncio.Task[None]) -> None:
        """Leave where the signs end by a fault: nobody serves a planner that nobody hears."""
        if not signs_of_life.cancelled():
            _logger.error('no more signs of life: leaving', exc_info=signs_of_life.exception())
            self._exit_code = 1
            self._stop.set()

    def _tell_health(self) -> None:
        """Publish the diagnostics, and the same figures for Prometheus where it asks for them."""
        active, tasks = self._tasks.planner is not None, len(self._tasks)
        admission = None if self._planner is None else self._planner.admission
        message = self._health.message(active=active, tasks=tasks, admission=admission)
        message.status.append(self._changes.status(self._health))
        message.header.stamp = self.get_clock().now().to_msg()
        self.topics.diagnostics.publish(message)
        if self._exporter.serves:
            self._exporter.show(
                planner_samples(
                    self.topics, self.links, active=active, tasks=tasks, admission=admission
                )
            )

    async def _configure(self, parameters: PlannerParameters) -> EngineInfo:
        """Make a planner and load its engine.

        Raises:
            ConfigurationError: A parameter cannot be used.
            ModelLoadError: The model cannot be loaded.
        """
        if self._closing is not None:
            await self._closing
        for link in self.links.values():
            link.silence_limit_s = parameters.robot_timeout_s
        self._scenes.configure(parameters.scene)
        file = background_file(parameters)
        engine = create_engine(engine_config(parameters))
        planner = Planner(
            engine=engine,
            robots=self.links,
            skill_sets=self.catalogue.skill_sets,
            clock=WallClock(),
            config=planner_config(parameters),
            on_event=self._on_planner_event,
            on_engine_event=self.topics.on_engine_event,
            times=profiled_times(parameters),
            predictor=length_predictor(parameters),
            allows=allow_list(parameters, self.catalogue),
        )
        try:
            info = await start_within(planner, engine, parameters, self.get_logger().info)
        except BaseException:
            await planner.close()
            raise
        self._spans.policy = policy = parameters.engine.policy
        self.topics.engine_started(info, mode=parameters.engine.mode, policy=policy)
        self._audit.engine_loaded(info)
        if planner.prompts.tokens:
            costs = ', '.join(f'{name} {size}' for name, size in planner.prompts.tokens.items())
            self.get_logger().info(f'tokens of prompts that all tasks share: {costs}')
        for name, skills in planner.prompts.untaught.items():
            self.get_logger().warning(
                f'skill set {name!r}: model {info.model} was never taught {", ".join(skills)}: '
                'expect wrong plans; expected a model that can read instructions, see model_path'
            )
        self._planner, self._engine = planner, engine
        self._approvals.planner = planner
        if file is not None:
            self._background = asyncio.create_task(
                work_off(planner, file, self.get_logger()), name='background'
            )
        return info

    def _apply(self, parameters: PlannerParameters) -> None:
        """Have the planner decide by other parameters from now on."""
        if self._planner is None:
            return
        engine = parameters.engine
        self._planner.configure(
            planner_config(parameters), Reschedule(engine.policy, engine.scheduling)
        )
        self.topics.policy_changed(engine.policy)
        self._spans.policy = engine.policy
        if isinstance(self._engine, OpenAIEngine) and isinstance(engine, OpenAIConfig):
            self._engine.set_servers(engine.servers.urls)

    async def _configure_as_task(self, parameters: PlannerParameters) -> EngineInfo:
        self._configuring = asyncio.create_task(self._configure(parameters), name='configure')
        try:
            return await self._configuring
        except asyncio.CancelledError:
            raise ShutdownError('the planner is going down') from None
        finally:
            self._configuring = None

    async def _close_planner(self) -> None:
        planner, self._planner, self._engine = self._planner, None, None
        if self._background is not None:
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)
            self._background = None
        if planner is not None:
            await planner.close()
        self.topics.engine_stopped()

    def _begin_closing(self) -> None:
        self._closing = asyncio.create_task(self._close_planner(), name='close the planner')

    def _end_tasks(self, error: TimelyError) -> None:
        if self._planner is not None:
            self._planner.end_all(error)

    def _on_planner_event(self, event: PlannerEvent) -> None:
        if isinstance(event, TaskAccepted) and event.budgeted is not None:
            self.get_logger().info(
                f'task {event.task_id}, time budget {event.task.time_budget_s:g} s: '
                f'{event.budgeted.text}'
            )
        self.topics.on_planner_event(event)
        self._spans.on_planner_event(event)
        self._approvals.on_planner_event(event)
        self._tasks.on_planner_event(event)

    # On the ROS thread: the lifecycle

    def _autostart(self) -> None:
        if not autostart(self) and not self._stop.is_set():
            self._exit_code = 1
            self._ros.call_loop(self._stop.set)

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model; the transition takes as long."""
        try:
            self.parameters = read(self, PlannerParameters)
            self._tasks.default_utility = default_utility(self.parameters)
            self.get_logger().info(f'loading engine {self.parameters.engine.name}')
            info = asyncio.run_coroutine_threadsafe(
                self._configure_as_task(self.parameters), self._ros.loop
            ).result()
        except TimelyError as err:
            self.get_logger().error(f'not configured: {err}')
            return TransitionCallbackReturn.FAILURE
        except BaseException as err:  # noqa: BLE001 - whatever it is, the transition has failed
            self.get_logger().error(f'not configured: {err!r}')
            return TransitionCallbackReturn.FAILURE
        self.get_logger().info(
            f'engine {info.engine} with model {info.model} ({info.size}) '
            f'loaded in {info.load_s:.1f} s'
        )
        self.get_logger().info(budgets_text(self.parameters, info))
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take goals."""
        self._tasks.planner = self._planner
        robots = ', '.join(self.links) or 'no robots'
        self.get_logger().info(f'planning for {robots}')
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take no more goals and abort those under way; their robots are made safe."""
        self._tasks.planner = None
        self._ros.call_loop(self._end_tasks, ShutdownError('the planner was deactivated'))
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release the engine."""
        self._ros.call_loop(self._begin_closing)
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take no more goals, abort those under way and release the engine."""
        self._tasks.planner = None
        self._ros.call_loop(self._begin_closing)
        return super().on_shutdown(state)

    # On the ROS thread: services

    def _beat(self) -> None:
        beat = Header()
        self._heartbeat.publish(beat, beat)

    def _on_parameters(self, changes: list[Parameter]) -> SetParametersResult:
        try:
            running = None if self._planner is None else self.topics.info
            self._changes.check({change.name: change.value for change in changes}, running)
        except ConfigurationError as err:
            return SetParametersResult(successful=False, reason=str(err))
        return SetParametersResult(successful=True)

    def _on_parameters_set(self, changes: list[Parameter]) -> None:
        told = self._changes.note({change.name: change.value for change in changes})
        if not told:
            return
        set_level(self, self.get_parameter('log_level').value)
        self.get_logger().info(f'parameters: {told}')
        if self._planner is not None:
            self.parameters = read(self, PlannerParameters)
            self._ros.call_loop(self._apply, self.parameters)

    def _describe_skills(
        self, request: DescribeSkills.Request, response: DescribeSkills.Response
    ) -> DescribeSkills.Response:
        return self.catalogue.describe(request.robot, response)
