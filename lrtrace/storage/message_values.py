"""Values of recorded messages as plain Python values; none of them is trusted."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.skills import Scene, SceneObject

if TYPE_CHECKING:
    from collections.abc import Iterable


FOREIGN = (AttributeError, TypeError, ValueError, OverflowError)
"""What messages raise whose definition has this package's name and other fields."""


def plan_id_of(message: Any) -> str:
    """Return the id of the plan that a message is about, as hexadecimal digits."""
    found = message.plan_id.uuid
    if not isinstance(found, bytes) or len(found) != 16:
        raise TypeError('plan_id: expected 16 bytes')
    return found.hex()


def nanoseconds(time: Any) -> int:
    """Return a time or duration message in ns."""
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


def seconds(duration: Any) -> float:
    """Return a time or duration message in s."""
    return nanoseconds(duration) / 1e9


def finite(value: float) -> float:
    """Return a number, 0 in place of one that is not finite."""
    return value if math.isfinite(value) else 0.0


def scene(objects: Iterable[Any]) -> Scene:
    """Return the scene of ``SceneObject`` messages; malformed ones are left out."""
    found = {}
    for item in objects:
        with suppress(InvalidTaskError):
            found[item.name] = SceneObject(
                name=item.name,
                kind=item.kind,
                attribute=item.attribute or 'plain',
                relation=item.relation or 'on',
                support=item.support or 'floor',
                x_m=item.position.x,
                y_m=item.position.y,
                z_m=item.position.z,
            )
    return Scene(tuple(found.values()))
