"""Reads the arguments of a call, for drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import SkillFailedError

if TYPE_CHECKING:
    from timely_llm_ros.skills import Call, Scene, SceneObject


def number_of(call: Call, index: int = 0) -> float:
    """Return an argument that is a number.

    Raises:
        SkillFailedError: It is none, or the skill set gives the skill fewer arguments.
    """
    value = _value(call, index)
    if isinstance(value, str):
        raise SkillFailedError(f'{call.text}: {value!r}: expected a number')
    return float(value)


def object_of(call: Call, scene: Scene, index: int = 0) -> SceneObject:
    """Return the object that an argument names.

    Raises:
        SkillFailedError: The scene has none of this name, or the skill set gives the skill fewer
            arguments.
    """
    name = _value(call, index)
    item = scene.get(str(name))
    if item is None:
        raise SkillFailedError(f'{call.text}: {name!r}: expected an object of the scene')
    return item


def _value(call: Call, index: int) -> str | float:
    try:
        return call.arguments[index].value
    except IndexError:
        count = len(call.arguments)
        raise SkillFailedError(f'{call.text}: {count} arguments: expected more') from None
