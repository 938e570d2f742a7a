"""Reads the arguments of a call, for drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import SkillFailedError

if TYPE_CHECKING:
    from timely_llm_ros.skills import Call, Scene, SceneObject


def number_of(call: Call, index: int = 0) -> float:
    """Return an argument that is a number.

    Raises:
        SkillFailedError: It is none.
    """
    value = call.arguments[index].value
    if isinstance(value, str):
        raise SkillFailedError(f'argument {value!r}: expected a number')
    return float(value)


def object_of(call: Call, scene: Scene, index: int = 0) -> SceneObject:
    """Return the object that an argument names.

    Raises:
        SkillFailedError: The scene has none of this name.
    """
    name = call.arguments[index].value
    item = scene.get(str(name))
    if item is None:
        raise SkillFailedError(f'object {name!r}: expected one of the scene')
    return item
