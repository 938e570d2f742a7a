"""What drivers say of a call whose arguments they cannot use."""

from __future__ import annotations

import pytest

from timely_llm_ros.drivers.call_arguments import number_of, object_of
from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.skills import Argument, Call, Scene, SceneObject

SCENE = Scene((SceneObject('cat_3', 'cat', support='floor'),))


def call(*values: str | float) -> Call:
    return Call(
        'skill',
        tuple(Argument('value', str(value), value) for value in values),
    )


def test_arguments_are_read_by_their_place() -> None:
    assert number_of(call('cat_3', 20), 1) == 20.0
    assert object_of(call(20, 'cat_3'), SCENE, -1).name == 'cat_3'


def test_an_argument_that_cannot_be_used_is_named_with_its_call() -> None:
    with pytest.raises(SkillFailedError, match=r"skill\(cat_3\): 'cat_3': expected a number"):
        number_of(call('cat_3'))
    with pytest.raises(SkillFailedError, match=r"'dog_1': expected an object of the scene"):
        object_of(call('dog_1'), SCENE)
    with pytest.raises(SkillFailedError, match=r'skill: 0 arguments: expected more'):
        number_of(call())
