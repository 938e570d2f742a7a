"""Where skills take a robot, as skill-set files say it."""

from __future__ import annotations

import pytest

from timely_llm_ros.errors import SkillSetError
from timely_llm_ros.skills import Approach, Climb, Land, Move, Still, Turn
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set

PROBE = """
name: probe
description: a rover
safe_action: hold
skills:
  hold:
    description: stand still
    duration: {{model: constant, seconds: 1.0}}
  go:
    description: go
    arguments:
      target: {{kind: object}}
      distance: {{kind: int, unit: cm, minimum: 1, maximum: 100}}
      angle: {{kind: int, unit: deg, minimum: 1, maximum: 360}}
      speed: {{kind: number, unit: m/s, minimum: 0.1, maximum: 2.5}}
    duration: {{model: constant, seconds: 1.0}}
    motion: {0}
"""


@pytest.mark.parametrize(
    ('text', 'motion'),
    [
        ('still', Still()),
        ('land', Land()),
        ('{turn: left, by: angle}', Turn('left', 'angle')),
        ('{turn: right, by: 1.5}', Turn('right', 1.5)),
        ('{turn: around}', Turn('around')),
        ('{move: up, by: distance, speed: speed}', Move('up', 'distance', 'speed')),
        ('{move: backward, by: 0.5, speed: 0.2}', Move('backward', 0.5, 0.2)),
        ('{climb_to: [0.5, 1.2]}', Climb(0.5, 1.2)),
        ('{to: target}', Approach('target')),
        ('{to: target, within_m: 0.7, height: object}', Approach('target', 0.7, True)),
    ],
)
def test_a_motion_is_read(text: str, motion: object) -> None:
    assert parse_skill_set(PROBE.format(text)).skills['go'].motion == motion


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('fly', "'fly': expected one of still, land"),
        ('{by: 1.0}', 'expected one of the keys turn, move, climb_to, to'),
        ('{move: up, to: target, by: 1.0}', 'expected one of the keys'),
        ('{move: sideways, by: 1.0}', 'expected one of forward, backward'),
        ('{move: up, by: angle}', "'angle': expected a number, or an argument in m or cm or mm"),
        ('{turn: left, by: distance}', 'expected a number, or an argument in rad or deg'),
        ('{turn: left}', 'expected by with left and right'),
        ('{turn: around, by: angle}', 'not with around'),
        ('{climb_to: [1.2, 0.5]}', 'expected at least 1.2'),
        ('{climb_to: [1.2, 2.0, 3.0]}', 'expected 1 to 2'),
        ('{to: distance}', "'distance': expected an object argument"),
        ('{to: target, within_m: -1}', 'expected a number from 0'),
        ('{to: target, speed: distance}', 'an argument in m/s or cm/s'),
    ],
)
def test_another_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(SkillSetError, match=r'skills\.go\.motion') as caught:
        parse_skill_set(PROBE.format(text))
    assert problem in str(caught.value)


def test_a_motion_changes_nothing_for_planners() -> None:
    with_motion = parse_skill_set(PROBE.format('still'))
    without = parse_skill_set(PROBE.replace('    motion: {0}\n', '').format())
    assert without.skills['go'].motion is None
    assert with_motion.fingerprint() == without.fingerprint()


@pytest.mark.parametrize('name', ['tello', 'nav2'])
def test_every_skill_of_mobile_robots_has_a_motion(name: str) -> None:
    assert all(skill.motion is not None for skill in find_skill_set(name).skills.values())
