"""How parameters name the robots of a fleet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from timely_llm_ros.errors import ConfigurationError

_ROBOT_NAME = re.compile(r'[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*')


@dataclass(frozen=True, slots=True)
class RobotEntry:
    """One robot of a fleet, and the name of a shipped skill set or the path of its own."""

    name: str
    skill_set: str


def robot_entries(entries: tuple[str, ...]) -> tuple[RobotEntry, ...]:
    """Read "name:skill_set" entries.

    Raises:
        ConfigurationError: One has another form, a name that no topic can have, or comes twice.
    """
    robots: dict[str, RobotEntry] = {}
    for entry in entries:
        name, separator, skill_set = entry.partition(':')
        if not (_ROBOT_NAME.fullmatch(name) and separator and skill_set):
            raise ConfigurationError(
                f'robot {entry!r}: expected "name:skill_set" with a name of letters and digits, '
                'joined by single underscores, for example "drone_1:tello"'
            )
        if name in robots:
            raise ConfigurationError(f'robot {entry!r}: expected each name once')
        robots[name] = RobotEntry(name, skill_set)
    return tuple(robots.values())
