"""A skill set whose calls take exactly the time that the plan says, and a scene for it."""

from __future__ import annotations

from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.skills.loading import parse_skill_set

EXACT_SKILLS = parse_skill_set("""
name: exact
description: a robot of exact times
safe_action: halt
skills:
  act:
    description: take a given time
    arguments: {duration: {kind: int, unit: ms, minimum: 0, maximum: 100000}}
    duration: {model: linear, base_s: 0.0, per: {duration: 1.0}}
  look:
    description: say whether it is there
    blocking: true
    returns: bool
    arguments: {target: {kind: object}}
    duration: {model: constant, seconds: 0.5}
  halt:
    description: stop
    duration: {model: constant, seconds: 0.0}
""")
"""``act(ms)`` takes that long. ``look(object)`` holds the plan up until it has said whether the
object is there. ``halt`` is the safe action."""

EXACT_SCENE = Scene((SceneObject('cup_1', 'cup'),))
"""A scene of one cup, which ``look(cup_1)`` may name."""


def acts(*durations_s: float) -> str:
    """Return a plan of ``act`` calls that take these times (s)."""
    return ''.join(f'act({round(duration_s * 1000)});' for duration_s in durations_s)
