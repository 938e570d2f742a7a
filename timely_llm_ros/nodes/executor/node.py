"""The executor node: hosts the executors of one robot or of a few."""

from __future__ import annotations

import asyncio
import itertools
import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import Header

from timely_llm_ros.clock import WallClock
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.execution import NoPerception, SegmentExecutor, SimulatedPerception
from timely_llm_ros.msg import TaskEvent
from timely_llm_ros.nodes.executor.driver_choice import robot_bodies
from timely_llm_ros.nodes.executor.metrics import executor_samples
from timely_llm_ros.nodes.executor.parameters import ExecutorParameters
from timely_llm_ros.nodes.executor.planner_watch import PERIOD_S
from timely_llm_ros.nodes.executor.robot_server import RobotServer
from timely_llm_ros.nodes.executor.segment_server import SegmentServer
from timely_llm_ros.nodes.executor.topic_perception import TopicPerception
from timely_llm_ros.processes import take_precedence
from timely_llm_ros.ros import (
    EVENTS_QOS,
    HEARTBEAT_QOS,
    HEARTBEAT_TOPIC,
    METRICS_PERIOD_S,
    REST_PERIOD_S,
    TASK_EVENTS_TOPIC,
    Exporter,
    IdentifiedSubscription,
    autostart,
    declare,
    run,
)
from timely_llm_ros.ros.conversions import uuid_text
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.execution import Guard, Perception
    from timely_llm_ros.nodes.executor.robot_body import RobotBody, SharedBodies
    from timely_llm_ros.ros import RosThread

_logger = logging.getLogger(__name__)


RIVAL_TURNS = 8
"""Each robot's rivals are looked for once in so many times that the watch is kept."""

TRANSITION_LIMIT_S = 2.0
"""How long the loop may take to note a transition (s)."""


class ExecutorNode(LifecycleNode):  # type: ignore[misc]
    """Serves the action of each of its robots while active; they are connected when configured.

    Args:
        ros: The thread that serves this node.
        guard: The process that watches over this one; None for none.
        shared: Makes the robots known to that process.

    Raises:
        ConfigurationError: A parameter or a skill set cannot be used.
    """

    def __init__(self, ros: RosThread, guard: Guard | None, shared: SharedBodies) -> None:
        super().__init__('executor')
        self._ros, self._guard, self._shared = ros, guard, shared
        self._doubled = self._configured = self._active = False
        self._touched = 0
        """How many of the robots, in their order, may have been moved."""
        self._deactivations: set[asyncio.Task[None]] = set()
        self.parameters = declare(self, ExecutorParameters)
        self._exporter = Exporter(self.parameters.metrics, 'executor')
        self._bodies = robot_bodies(self.parameters, self.get_namespace())
        self._segments = SegmentServer(
            self,
            ros,
            self._bodies[0].robot,
            result_timeout_s=self.parameters.result_timeout_s,
        )
        self.servers = [self._server(body) for body in self._bodies]
        self._heartbeats = IdentifiedSubscription(self, Header, HEARTBEAT_TOPIC, HEARTBEAT_QOS)
        self._events = IdentifiedSubscription(self, TaskEvent, TASK_EVENTS_TOPIC, EVENTS_QOS)

    def _server(self, body: RobotBody) -> RobotServer:
        parameters = self.parameters
        skill_set = find_skill_set(body.skill_set)
        driver = body.make_driver(skill_set, self._perception(body))
        executor = SegmentExecutor(driver, skill_set, WallClock(), parameters.limits, body.envelope)
        return RobotServer(
            self,
            self._ros,
            body.robot,
            executor,
            self._segments,
            planner_timeout_s=parameters.planner_timeout_s,
            state_period_s=parameters.state_period_s,
            begins=self._beat,
        )

    def _perception(self, body: RobotBody) -> Perception | None:
        match body.perception:
            case 'topic':
                return TopicPerception(self, self._ros, body.robot)
            case 'simulated':
                return SimulatedPerception(seed=body.seed)
            case 'none':
                return NoPerception()
            case None:
                return None

    async def serve(self, stop: asyncio.Event) -> int:
        """Connect the robots and serve until it is time to stop, then make them safe.

        Return the program's exit code: with any but 0 the guard makes the robots safe too.

        Raises:
            TimelyError: A robot cannot be connected; those that could be are released again.
        """
        if self._guard is not None:
            self._guard.on_lost(lambda: self._ros.call_loop(stop.set))
        watch: asyncio.Task[None] | None = None
        try:
            await asyncio.gather(*(server.claim() for server in self.servers))
            # Only now: it must find others of its name before it claims one.
            take_precedence()
            if self.parameters.autostart:
                await self._configure()
                # Before anybody can reach it: nothing that comes early is refused.
                self._activate()
            for server in self.servers:
                server.stops.open()
            self._segments.open(self.servers)
            self._ros.start(self)
            if self.parameters.autostart:
                self._ros.call(autostart, self)
            watch = asyncio.create_task(self._keep_watch(stop), name='watch')
            told_s = -METRICS_PERIOD_S
            while not stop.is_set():
                for server in self.servers:
                    server.publish_change()
                now_s = self._ros.loop.time()
                if self._exporter.serves and now_s - told_s >= METRICS_PERIOD_S:
                    told_s = now_s
                    self._exporter.show(executor_samples(self.servers))
                try:
                    async with asyncio.timeout(self.parameters.state_period_s):
                        await stop.wait()
                except TimeoutError:
                    continue
        finally:
            results = await asyncio.gather(
                *(server.close() for server in self.servers), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    _logger.error('while closing: %r', result)
            # What was never connected has not moved.
            safe = all(result is True for result in results[: self._touched])
            # It waits for its server's thread, and the guard for signs of this loop.
            await asyncio.to_thread(self._exporter.close)
            if watch is not None:
                watch.cancel()
                if safe and self._guard is not None:
                    self._guard.beat(next_within_s=0.0)
        return 0 if safe and not self._doubled else 1

    async def _keep_watch(self, stop: asyncio.Event) -> None:
        """Show the guard that the loop lives, and notice planners and robots that do not."""
        for turn in itertools.count():
            self._beat()
            for _, planner in self._heartbeats.take():
                heard = [server.planner.heard(planner) for server in self.servers]
                if not any(heard):
                    self._heartbeats.report(planner, 'the planner that the robots work for')
            for event, publisher in self._events.take():
                if event.event == TaskEvent.ENDED:
                    self._plan_ended(event, publisher)
            if self._configured:
                for server in self.servers:
                    server.check()
            # Each look costs, and of hundreds of robots it would be most of what a program does.
            for server in self.servers[turn % RIVAL_TURNS :: RIVAL_TURNS]:
                if rival := server.rival():
                    _logger.error('robot %s: %s: leaving', server.robot, rival)
                    self._doubled = True
                    stop.set()
            await asyncio.sleep(PERIOD_S)

    def _beat(self) -> None:
        """Show the guard that the loop lives; a robot that rests needs it less.

        A fleet that starts holds its programs up for longer than a robot may move unwatched.
        """
        if self._guard is not None:
            rests = all(server.rests for server in self.servers)
            rest_s = REST_PERIOD_S if rests else 0.0
            self._guard.beat(self.parameters.worker_timeout_s + rest_s)

    async def _configure(self) -> None:
        """Connect the robots, which makes them safe; done once, tried again where it failed.

        Raises:
            TimelyError: A robot cannot be connected.
        """
        if not self._configured:
            self._shared.remember(self._bodies)
            await self._connect()
            self._configured = True

    def _activate(self) -> None:
        self._active = True
        for server in self.servers:
            server.activate()

    def _deactivate(self) -> None:
        """Take no more segments; the robots are brought to their safe action meanwhile."""
        self._active = False
        for server in self.servers:
            task = server.deactivate()
            self._deactivations.add(task)
            task.add_done_callback(self._deactivations.discard)

    async def _connect(self) -> None:
        for count, server in enumerate(self.servers, start=1):
            if server.executor.connected:
                continue
            before, self._touched = self._touched, max(self._touched, count)
            try:
                await server.executor.start()
            except ConfigurationError:
                # This robot and those after it have heard nothing, unless an earlier time.
                self._touched = before
                self._shared.keep(before)
                raise

    def _plan_ended(self, event: TaskEvent, publisher: bytes) -> None:
        for server in self.servers:
            if server.robot != event.robot:
                continue
            if not server.plan_ended(uuid_text(event.plan_id), publisher):
                self._events.report(publisher, 'the planner that the robot works for')

    # On the ROS thread: the lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Connect the robots and make them safe; the transition takes as long."""
        try:
            asyncio.run_coroutine_threadsafe(self._configure(), self._ros.loop).result()
        except Exception as err:  # noqa: BLE001 - whatever it is, the transition has failed
            self.get_logger().error(f'not configured: {err}')
            return TransitionCallbackReturn.FAILURE
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take segments."""
        # An autostart has made the robots active before anybody could reach them.
        if not self._active and not self._on_loop(self._activate):
            return TransitionCallbackReturn.FAILURE
        names = ', '.join(server.robot for server in self.servers)
        self.get_logger().info(f'executing for {names}')
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take no more segments; robots are brought to their safe action, amid a segment too."""
        if not self._on_loop(self._deactivate):
            return TransitionCallbackReturn.FAILURE
        return super().on_deactivate(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take no more segments, for good."""
        if not self._on_loop(self._deactivate):
            # The node is finalized even so: what could not be done in time is done late.
            self._ros.call_loop(self._deactivate)
            return TransitionCallbackReturn.FAILURE
        return super().on_shutdown(state)

    def _on_loop(self, note: Callable[[], None]) -> bool:
        """Wait until the loop has noted a transition; it does not wait for this thread.

        Return whether it has. Where it takes too long it never will: the node stays as it is.
        """
        noted: Future[None] = Future()

        def run() -> None:
            if not noted.set_running_or_notify_cancel():
                return
            try:
                note()
            except Exception as err:  # noqa: BLE001 - it fails the transition, not the loop
                noted.set_exception(err)
            else:
                noted.set_result(None)

        self._ros.call_loop(run)
        try:
            noted.result(TRANSITION_LIMIT_S)
        except TimeoutError:
            if noted.cancel():
                self.get_logger().error(
                    f'expected the loop to note the transition within {TRANSITION_LIMIT_S:g} s: '
                    'it was withdrawn'
                )
                return False
            # It is just being noted.
            noted.result()
        return True


def serve(arguments: Sequence[str], guard: Guard | None, shared: SharedBodies) -> int:
    """Run the node until SIGINT or SIGTERM; return the program's exit code."""
    return run(
        'executor', arguments, lambda ros, stop: ExecutorNode(ros, guard, shared).serve(stop)
    )
