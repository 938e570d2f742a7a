"""Between what perception publishes and detections; scenes as markers.

Nothing of a message is checked here but its form: the scene refuses what it cannot use.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from timely_llm_ros.scene import Detection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.msg import Detections
    from timely_llm_ros.skills import Scene

MOST_DETECTIONS = 1000
"""Of one message; others are not looked at."""

MARKER_M = 0.1
"""Diameter of an object's marker (m): nobody tells how large things are."""

MARKERS_LAST_S = 3
"""A marker is shown for so long (s) unless it is sent again."""


def detections_of(message: Detections) -> list[Detection]:
    """Return what our own message says."""
    positions = message.positions
    found = []
    for number, (label, score) in enumerate(zip(message.labels, message.scores, strict=False)):
        if number >= MOST_DETECTIONS:
            break
        point = positions[number] if number < len(positions) else None
        if point is None or math.isnan(point.x + point.y + point.z):
            found.append(Detection(label, score, None))
        else:
            position_m = (point.x, point.y, point.z)
            found.append(Detection(label, score, position_m, message.header.frame_id))
    return found


def detections_of_vision(message: Any) -> list[Detection]:
    """Return what a ``Detection3DArray`` or ``Detection2DArray`` of vision_msgs says.

    An image says that something is seen, but not where.
    """
    return list(_vision(message))


def _vision(message: Any) -> Iterator[Detection]:
    for item in islice(message.detections, MOST_DETECTIONS):
        if not item.results:
            continue
        best = max(item.results, key=lambda result: result.hypothesis.score)
        label, score = best.hypothesis.class_id, best.hypothesis.score
        if not hasattr(item.bbox.center, 'orientation'):
            yield Detection(label, score, None)
            continue
        # Some detectors fill in the box, some the pose of the hypothesis.
        point = item.bbox.center.position
        if point.x == point.y == point.z == 0.0:
            point = best.pose.pose.position
        frame = item.header.frame_id or message.header.frame_id
        yield Detection(label, score, (point.x, point.y, point.z), frame)


def marker_array(scene: Scene, robot: str, frame: str) -> Any:
    """Return a scene as ``visualization_msgs/MarkerArray``; ``frame`` is where objects have none.

    Raises:
        ImportError: visualization_msgs is not installed.
    """
    from visualization_msgs.msg import Marker, MarkerArray

    markers = []
    for number, item in enumerate(scene.objects):
        for kind in (Marker.SPHERE, Marker.TEXT_VIEW_FACING):
            marker = Marker(ns=f'{robot}/{kind}', id=number, type=kind, text=item.name)
            marker.header.frame_id = item.frame or frame
            marker.lifetime.sec = MARKERS_LAST_S
            position = marker.pose.position
            position.x, position.y, position.z = item.x_m, item.y_m, item.z_m
            if kind == Marker.TEXT_VIEW_FACING:
                position.z += MARKER_M
            marker.pose.orientation.w = 1.0
            marker.scale.x = marker.scale.y = marker.scale.z = MARKER_M
            marker.color.r, marker.color.g, marker.color.a = 0.2, 0.6, 1.0
            markers.append(marker)
    return MarkerArray(markers=markers)
