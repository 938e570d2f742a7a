"""What robots know, told to the engine a few robots at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.nodes.planner.robot_scenes import WARM_ROUND, RobotScenes
from timely_llm_ros.scene import SceneOptions
from timely_llm_ros.skills.loading import find_skill_set


@pytest.mark.parametrize('count', [0, 1, WARM_ROUND, 101])
async def test_each_turn_tells_few_scenes_and_each_round_all(count: int) -> None:
    robots = [f'drone_{number}' for number in range(count)]
    skills: Any = SimpleNamespace(
        skill_sets={'tello': find_skill_set('tello')}, skill_set_of=dict.fromkeys(robots, 'tello')
    )
    scenes = RobotScenes(MagicMock(), MagicMock(), skills, SceneOptions(), LoopClock())
    planner, told = MagicMock(), []
    planner.warm_scenes.tell = lambda robot, *_: told.append(robot)
    for turn in range(1, WARM_ROUND + 1):
        scenes.warm(planner)
        assert len(told) <= turn * (count // WARM_ROUND + 1)
    assert set(told) == set(robots)
    assert len(told) < count + WARM_ROUND
