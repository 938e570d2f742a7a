"""What the robots of a fleet know: fed by detections and goals, told to tasks and to people."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import replace
from functools import partial
from itertools import cycle, islice, product
from typing import TYPE_CHECKING, Any

from rclpy.qos import QoSProfile, ReliabilityPolicy

from timely_llm_ros.msg import Detections
from timely_llm_ros.ros import create_deferred_service, create_steady_timer, overridable
from timely_llm_ros.ros.conversions import (
    detections_of,
    detections_of_vision,
    marker_array,
    scene_messages,
)
from timely_llm_ros.scene import KnownScene
from timely_llm_ros.skills import spoken_of_m
from timely_llm_ros.srv import DescribeScene

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from rclpy.node import Node

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.nodes.planner.catalogue import Catalogue
    from timely_llm_ros.planner import Planner, Task
    from timely_llm_ros.ros import RosThread
    from timely_llm_ros.scene import Detection, SceneOptions
    from timely_llm_ros.skills import Scene

_logger = logging.getLogger(__name__)

DETECTIONS_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Best effort hears reliable senders too."""

REPORT_PERIOD_S = 10.0
"""What is refused of one robot's is told so often at most (s)."""

SUBSCRIBE_PERIOD_S = 2.0
"""How often the planner looks for detections that have come up (s)."""

WARM_ROUND = 20
"""In so many turns every scene is looked at once. A hundred changed scenes take a tenth of a second
to tell: in one turn, the loop would hold up everything else for as long."""

FRAME = 'map'
"""Frame of markers of objects whose frame is not known."""


class RobotScenes:
    """Keeps the scenes of all robots. Used on the loop's thread.

    Args:
        node: Subscribes, and serves ``describe_scene``.
        ros: Its thread.
        catalogue: The robots and their skill sets.
        options: How scenes are kept.
        clock: The planner's.
    """

    def __init__(
        self,
        node: Node,
        ros: RosThread,
        catalogue: Catalogue,
        options: SceneOptions,
        clock: Clock,
    ) -> None:
        self._ros, self._clock, self._stamps = ros, clock, node.get_clock()
        self._frame = options.frame or FRAME
        self._skill_sets, self._skill_set_of = catalogue.skill_sets, catalogue.skill_set_of
        self._known = {
            robot: KnownScene(options, self._skill_sets[name].skills)
            for robot, name in catalogue.skill_set_of.items()
        }
        self._warm_next = cycle(self._known.items())
        self._refused: dict[str, tuple[float, int]] = {}
        self.taken = 0
        """How many detections were heard."""
        self._unheard: dict[str, list[tuple[str, str]]] = {}
        """By the full name of a topic that nobody was seen to publish: robots, and their names."""
        self._kinds = _kinds()
        for robot, topic in product(self._known, self._kinds):
            name = node.resolve_topic_name(f'{robot}/{topic}')
            self._unheard.setdefault(name, []).append((robot, topic))
        create_steady_timer(node, SUBSCRIBE_PERIOD_S, partial(self._subscribe, node))
        create_deferred_service(node, DescribeScene, 'describe_scene', self._describe)
        self._markers = None
        if importlib.util.find_spec('visualization_msgs') is not None:
            from visualization_msgs.msg import MarkerArray

            self._markers = node.create_publisher(MarkerArray, 'scene_markers', 10)

    def configure(self, options: SceneOptions) -> None:
        """Keep scenes otherwise from now on."""
        self._frame = options.frame or FRAME
        for known in self._known.values():
            known.options = options

    def distance_m(self, task: Task, robot: str) -> float | None:
        """Return how far what a task speaks of is from a robot (m), by what that one knows."""
        return spoken_of_m(self.known()[robot], task.instruction)

    def complete(self, task: Task) -> Task:
        """Return a task with what its robot knows, if it comes without a scene; else learn it."""
        known = self._known[task.robot]
        if self._skill_sets[task.skill_set].free_text is not None:
            return task
        now_s = self._clock.now()
        if task.scene.objects:
            self._report(task.robot, known.learn(task.scene, now_s))
            return task
        return replace(task, scene=known.scene(now_s, self._stamp_s()))

    def known(self) -> dict[str, Scene]:
        """Return what each robot knows now."""
        now_s, stamp_s = self._clock.now(), self._stamp_s()
        return {robot: known.scene(now_s, stamp_s) for robot, known in self._known.items()}

    def warm(self, planner: Planner) -> None:
        """Have what changed of what some robots know computed before tasks come, in turn."""
        now_s, share = self._clock.now(), -(-len(self._known) // WARM_ROUND)
        for robot, known in islice(self._warm_next, share):
            skill_set = self._skill_sets[self._skill_set_of[robot]]
            planner.warm_scenes.tell(robot, skill_set, known.scene(now_s))

    def publish_markers(self) -> None:
        """Show every robot's scene to who looks at it."""
        if self._markers is None or not self._markers.get_subscription_count():
            return
        for robot, scene in self.known().items():
            self._markers.publish(marker_array(scene, robot, self._frame))

    def _see(self, robot: str, detections: list[Detection]) -> None:
        self.taken += len(detections)
        self._report(robot, self._known[robot].see(detections, self._clock.now()))

    def _report(self, robot: str, refused: Counter[str]) -> None:
        if not refused:
            return
        now_s = self._clock.now()
        told_s, untold = self._refused.get(robot, (-REPORT_PERIOD_S, 0))
        if now_s - told_s < REPORT_PERIOD_S:
            self._refused[robot] = told_s, untold + refused.total()
            return
        self._refused[robot] = now_s, 0
        reasons = '; '.join(f'{reason} ({times} times)' for reason, times in refused.items())
        since = f', and {untold} since the last such message' if untold else ''
        _logger.warning('scene of robot %s: refused: %s%s', robot, reasons[:1000], since)

    def _stamp_s(self) -> float:
        stamp_s: float = self._stamps.now().nanoseconds / 1e9
        return stamp_s

    def _answer(self, robot: str, send: Callable[[Any], None]) -> None:
        scene = self.known().get(robot)
        if scene is None:
            there = ', '.join(self._known) or 'none is known'
            message = f'robot {robot[:80]!r}: expected one of {there}'
            response = DescribeScene.Response(message=message)
        else:
            response = DescribeScene.Response(success=True, scene=scene_messages(scene))
        self._ros.call(send, response)

    # On the ROS thread

    def _subscribe(self, node: Node) -> None:
        """Subscribe to the detections that have come up, each by its own topic.

        Subscriptions to all that could come would be most of the endpoints of a large fleet's
        planner, and each is announced to every participant together with all before it.
        """
        for name, _ in node.get_topic_names_and_types():
            if name not in self._unheard or not node.count_publishers(name):
                continue
            for robot, topic in self._unheard.pop(name):
                kind, convert = self._kinds[topic]
                hear = partial(self._hear, robot, convert)
                try:
                    node.create_subscription(
                        kind, f'{robot}/{topic}', hear, **overridable(DETECTIONS_QOS)
                    )
                except Exception:
                    # For one a user's override; the planner is at work.
                    _logger.exception('topic %s is not heard: no subscription to it', name)

    def _hear(self, robot: str, convert: Callable[[Any], list[Detection]], message: Any) -> None:
        self._ros.call_loop(self._see, robot, convert(message))

    def _describe(self, request: Any, send: Callable[[Any], None]) -> None:
        self._ros.call_loop(self._answer, request.robot, send)


def _kinds() -> dict[str, tuple[Any, Callable[[Any], list[Detection]]]]:
    """Return the types of detections that are installed and how they are read, by their topics."""
    found: dict[str, tuple[Any, Callable[[Any], list[Detection]]]] = {
        'detections': (Detections, detections_of)
    }
    if importlib.util.find_spec('vision_msgs') is not None:
        from vision_msgs.msg import Detection2DArray, Detection3DArray

        found['detections_3d'] = Detection3DArray, detections_of_vision
        found['detections_2d'] = Detection2DArray, detections_of_vision
    return found
