"""Shortens a scene to what an instruction speaks of, then to what is near."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from timely_llm_ros.skills.scene import Scene

if TYPE_CHECKING:
    from timely_llm_ros.skills.scene import SceneObject

_WORD = re.compile(r'[a-z0-9_]+')


def trim_scene(scene: Scene, instruction: str, objects: int) -> Scene:
    """Return a scene of at most so many objects, in their order.

    Those stay first whose name, kind, attribute or support the instruction has, more words first;
    then those that are nearest to the robot's start.
    """
    words = set(_WORD.findall(instruction.lower()))
    words |= {word[:-1] for word in words if word.endswith('s')}

    def harm(item: SceneObject) -> tuple[int, float]:
        said = sum(value in words for value in (item.name, item.kind, item.attribute, item.support))
        return -said, math.hypot(item.x_m, item.y_m)

    kept = {item.name for item in sorted(scene.objects, key=harm)[: max(0, objects)]}
    return Scene(tuple(item for item in scene.objects if item.name in kept))
