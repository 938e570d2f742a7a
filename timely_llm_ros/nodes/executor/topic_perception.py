"""A robot's eyes, where a node of somebody else's sees and says so on a topic.

That node publishes ``<robot>/detections`` all the time, empty ones too, and takes a picture when
``<robot>/take_picture`` asks for one.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Header

from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.msg import Detections
from timely_llm_ros.ros import overridable
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from rclpy.node import Node

    from timely_llm_ros.ros import RosThread

DETECTIONS_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Only the newest matters; best effort hears reliable senders too."""

PATIENCE_S = 3.0
"""How long the next detections may take (s)."""

LEAST_SCORE = 0.5
"""A detection counts from this score on."""


REMEMBERS_S = 30.0
"""So long it is remembered where an object was seen (s): the robot's own hand may hide it."""

MOST_REMEMBERED = 1000
"""Labels of which the place is remembered; with more, only those of the newest detections."""


class _Sight(NamedTuple):
    """Where something was seen last (m), and when (s)."""

    x_m: float
    y_m: float
    z_m: float
    at_s: float


class TopicPerception:
    """What the detections of one robot say."""

    def __init__(self, node: Node, ros: RosThread, robot: str) -> None:
        self._ros = ros
        self._waiting: set[asyncio.Future[frozenset[str]]] = set()
        self._seen: dict[str, _Sight] = {}
        self._detections = node.create_subscription(
            Detections, f'{robot}/detections', self._on_detections, **overridable(DETECTIONS_QOS)
        )
        self._pictures = node.create_publisher(Header, f'{robot}/take_picture', 10)
        self._node, self._robot = node, robot

    async def look(self, scene: Scene) -> frozenset[str]:
        """Return what the next detections name, by an object's name or by its kind."""
        future: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(PATIENCE_S):
                labels = await future
        except TimeoutError as err:
            raise SkillFailedError(
                f'nothing on {self._detections.topic_name} for {PATIENCE_S:g} s: expected a '
                'perception node'
            ) from err
        finally:
            self._waiting.discard(future)
        return frozenset(o.name for o in scene.objects if o.name in labels or o.kind in labels)

    def locate(self, scene: Scene) -> Scene:
        """Return the scene with those objects moved that detections name, as they did last.

        A kind names no object, and detections in another frame than the robot's own move none.
        """
        since_s = time.monotonic() - REMEMBERS_S
        found = []
        for item in scene.objects:
            sight = self._seen.get(item.name)
            if sight is None or sight.at_s < since_s or item.frame:
                found.append(item)
            else:
                found.append(replace(item, x_m=sight.x_m, y_m=sight.y_m, z_m=sight.z_m))
        return Scene(tuple(found))

    async def take_picture(self) -> None:
        """Ask for a picture."""
        if not self._pictures.get_subscription_count():
            raise SkillFailedError(
                f'nobody listens to {self._pictures.topic_name}: expected a node that takes '
                'pictures'
            )
        stamp = self._node.get_clock().now().to_msg()
        self._pictures.publish(Header(stamp=stamp, frame_id=self._robot))

    # On the ROS thread

    def _on_detections(self, message: Any) -> None:
        now_s = time.monotonic()
        labels, sights = set(), {}
        for label, score, place in zip_longest(message.labels, message.scores, message.positions):
            if label is None or score is None or score < LEAST_SCORE:
                continue
            labels.add(label)
            # In another frame a place means something else.
            if place is not None and not message.header.frame_id:
                sight = _Sight(place.x, place.y, place.z, now_s)
                if all(map(math.isfinite, sight)):
                    sights[label] = sight
        self._ros.call_loop(self._note, frozenset(labels), sights)

    # On the loop's thread

    def _note(self, labels: frozenset[str], sights: dict[str, _Sight]) -> None:
        self._seen |= sights
        if len(self._seen) > MOST_REMEMBERED:
            self._seen = sights
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(labels)
