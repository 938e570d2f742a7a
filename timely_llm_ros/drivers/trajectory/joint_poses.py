"""Reads an arm's YAML file: the limits of its joints, named poses, and the poses of its skills."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from timely_llm_ros.errors import ConfigurationError, SkillFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.skills import Call

_KEYS = ('joints', 'poses', 'skills')
_PLACE = re.compile(r'\{(\w+)\}')


@dataclass(frozen=True, slots=True)
class Joint:
    """The limits of one joint, in rad and s; in m and s for a sliding one."""

    max_velocity: float
    max_acceleration: float = math.inf
    lower: float = -math.inf
    upper: float = math.inf

    def least_s(self, way: float) -> float:
        """Return the least time (s) of a cubic motion over a way (rad or m) from rest to rest.

        Such a motion is at most 1.5 times as fast as on average, and accelerates by at most 6 ways
        over the time squared.
        """
        way = abs(way)
        return max(1.5 * way / self.max_velocity, math.sqrt(6.0 * way / self.max_acceleration))


@dataclass(frozen=True, slots=True)
class JointPoses:
    """The content of an arm's file.

    Attributes:
        source: Path of the file.
        joints: The joints by name, in the order of trajectories.
        poses: Positions by joint (rad or m) of each pose; joints that a pose leaves out stay.
        skills: The poses that each skill goes through; ``{name}`` stands for that argument.
    """

    source: str
    joints: Mapping[str, Joint]
    poses: Mapping[str, Mapping[str, float]]
    skills: Mapping[str, tuple[str, ...]]

    def steps(self, call: Call) -> list[Mapping[str, float]]:
        """Return the positions that a call goes through.

        Raises:
            SkillFailedError: Its arguments name a pose that there is not.
        """
        words = {argument.name: argument.text for argument in call.arguments}
        found = []
        for template in self.skills[call.skill]:
            name = _PLACE.sub(lambda match: words[match.group(1)], template)
            if name not in self.poses:
                raise SkillFailedError(
                    f'{call.text}: pose {name!r}: expected it among the poses of {self.source}'
                )
            found.append(self.poses[name])
        return found


def read_joint_poses(path: str, arguments: Mapping[str, tuple[str, ...]]) -> JointPoses:
    """Read an arm's file.

    Args:
        path: The file.
        arguments: The argument names of each skill that the arm is to have. A skill that the file
            does not mention goes to the pose of its own name.

    Raises:
        ConfigurationError: The file cannot be read, or does not say what each skill does.
    """
    where = f'poses file {path!r}'
    try:
        content = yaml.safe_load(Path(path).expanduser().read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as err:
        raise ConfigurationError(f'{where}: expected a readable YAML file: {err}') from err
    if not isinstance(content, dict):
        raise ConfigurationError(f'{where}: expected mappings joints and poses')
    for key in ('joints', 'poses'):
        if key not in content:
            raise ConfigurationError(f'{where}: expected a key {key!r}')
    for key, entries in content.items():
        if key not in _KEYS:
            raise ConfigurationError(f'{where}: key {key!r}: expected one of {", ".join(_KEYS)}')
        if not isinstance(entries, dict) and (key, entries) != ('skills', None):
            raise ConfigurationError(f'{where}: {key}: expected a mapping')
    joints = {str(name): _joint(where, name, entry) for name, entry in content['joints'].items()}
    if not joints:
        raise ConfigurationError(f'{where}: joints: expected at least one')
    poses = {
        str(name): _pose(where, name, entry, joints) for name, entry in content['poses'].items()
    }
    given, skills = content.get('skills') or {}, {}
    for skill, names in arguments.items():
        steps = given.get(skill, [skill])
        if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
            raise ConfigurationError(
                f'{where}: skills.{skill}: {steps!r}: expected a list of poses'
            )
        for step in steps:
            unknown = set(_PLACE.findall(step)) - set(names)
            if unknown or ('{' not in step and step not in poses):
                what = f'{{{min(unknown)}}}' if unknown else step
                raise ConfigurationError(
                    f'{where}: skills.{skill}: {what!r}: expected a pose or an argument of it'
                )
        skills[skill] = tuple(steps)
    return JointPoses(path, joints, poses, skills)


def _joint(where: str, name: object, entry: object) -> Joint:
    known = {'max_velocity', 'max_acceleration', 'lower', 'upper'}
    if not isinstance(entry, dict) or not set(entry) <= known or 'max_velocity' not in entry:
        raise ConfigurationError(
            f'{where}: joints.{name}: {entry!r}: expected max_velocity, and perhaps '
            'max_acceleration, lower, upper'
        )
    numbers = {key: _number(f'{where}: joints.{name}.{key}', value) for key, value in entry.items()}
    for key in ('max_velocity', 'max_acceleration'):
        if numbers.get(key, 1.0) <= 0:
            raise ConfigurationError(
                f'{where}: joints.{name}.{key}: {numbers[key]!r}: expected a number above 0'
            )
    return Joint(**numbers)


def _pose(
    where: str, name: object, entry: object, joints: Mapping[str, Joint]
) -> Mapping[str, float]:
    if isinstance(entry, list) and len(entry) == len(joints):
        entry = dict(zip(joints, entry, strict=True))
    if not isinstance(entry, dict) or not entry or not set(entry) <= set(joints):
        raise ConfigurationError(
            f'{where}: poses.{name}: {entry!r}: expected {len(joints)} positions, '
            f'or some by joint: {", ".join(joints)}'
        )
    found = {}
    for joint, value in entry.items():
        position = _number(f'{where}: poses.{name}.{joint}', value)
        if not joints[joint].lower <= position <= joints[joint].upper:
            raise ConfigurationError(
                f'{where}: poses.{name}.{joint}: {position:g}: expected '
                f'{joints[joint].lower:g} to {joints[joint].upper:g}'
            )
        found[joint] = position
    return found


def _number(where: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ConfigurationError(f'{where}: {value!r}: expected a finite number')
    return float(value)
