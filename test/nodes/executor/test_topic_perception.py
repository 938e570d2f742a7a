"""What a robot takes from the detections that it hears."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from geometry_msgs.msg import Point
from timely_llm_ros.msg import Detections

from timely_llm_ros.nodes.executor import topic_perception
from timely_llm_ros.nodes.executor.topic_perception import TopicPerception
from timely_llm_ros.skills import Scene, SceneObject

SCENE = Scene(
    (
        SceneObject('cup_1', 'cup', x_m=1.0),
        SceneObject('cup_2', 'cup', x_m=2.0, frame='map'),
        SceneObject('cat_1', 'cat', x_m=3.0),
    )
)


class Eyes:
    """A perception, and what it hears."""

    def __init__(self) -> None:
        node = MagicMock()
        ros = SimpleNamespace(call_loop=lambda function, *arguments: function(*arguments))
        self.perception = TopicPerception(node, ros, 'arm_1')  # type: ignore[arg-type]
        self._hear = node.create_subscription.call_args.args[2]

    def hear(self, *seen: tuple[str, float, float], frame: str = '', **more: Any) -> None:
        message = Detections(
            labels=[label for label, _, _ in seen],
            scores=[score for _, score, _ in seen],
            positions=[Point(x=x_m, y=0.5, z=0.1) for _, _, x_m in seen],
        )
        message.header.frame_id = frame
        for name, value in more.items():
            setattr(message, name, value)
        self._hear(message)

    def places(self) -> list[float]:
        return [item.x_m for item in self.perception.locate(SCENE).objects]


def test_objects_are_where_they_were_seen_last() -> None:
    eyes = Eyes()
    assert eyes.perception.locate(SCENE) == SCENE
    eyes.hear(('cup_1', 0.9, 0.7), ('cat_1', 0.9, 0.8))
    eyes.hear(('cup_1', 0.9, 0.6))
    moved = eyes.perception.locate(SCENE)
    assert [item.x_m for item in moved.objects] == [0.6, 2.0, 0.8]
    cup = moved.get('cup_1')
    assert cup is not None
    assert (cup.y_m, cup.z_m, cup.kind) == (0.5, 0.1, 'cup')


@pytest.mark.parametrize(
    ('seen', 'more'),
    [
        (('cup', 0.9, 0.7), {}),
        (('cup_1', 0.4, 0.7), {}),
        (('cup_2', 0.9, 0.7), {}),
        (('cup_1', 0.9, math.nan), {}),
        (('cup_1', 0.9, 0.7), {'frame': 'camera'}),
        (('cup_1', 0.9, 0.7), {'positions': []}),
        (('cup_1', 0.9, 0.7), {'scores': []}),
        (('cup_1', 0.9, 0.7), {'labels': []}),
    ],
    ids=['kind', 'unsure', 'other frame', 'nowhere', 'camera', 'no places', 'no scores', 'nothing'],
)
def test_what_does_not_tell_where_an_object_is_moves_none(
    seen: tuple[str, float, float], more: dict[str, Any]
) -> None:
    eyes = Eyes()
    eyes.hear(seen, **more)
    assert eyes.places() == [1.0, 2.0, 3.0]


def test_a_place_is_remembered_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    eyes, now_s = Eyes(), 10.0
    monkeypatch.setattr(time, 'monotonic', lambda: now_s)
    eyes.hear(('cup_1', 0.9, 0.7))
    now_s += topic_perception.REMEMBERS_S - 0.1
    assert eyes.places()[0] == 0.7
    now_s += 0.2
    assert eyes.places()[0] == 1.0


def test_not_more_is_remembered_than_anybody_needs() -> None:
    eyes = Eyes()
    most = topic_perception.MOST_REMEMBERED
    eyes.hear(*((f'thing_{number}', 0.9, 0.7) for number in range(most)))
    eyes.hear(('cup_1', 0.9, 0.7))
    assert eyes.places()[0] == 0.7
    assert len(eyes.perception._seen) <= most
