"""The skill sets of a fleet, loaded, together with the text of their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills.loading import find_skill_file, find_skill_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.ros import RobotEntry
    from timely_llm_ros.skills import SkillSet


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What the robots of a fleet can do.

    Attributes:
        skill_sets: By name.
        yaml: The text of each one's file, by name.
        skill_set_of: Name of each robot's skill set.
    """

    skill_sets: dict[str, SkillSet]
    yaml: dict[str, str]
    skill_set_of: dict[str, str]

    @classmethod
    def load(cls, robots: Iterable[RobotEntry]) -> Catalogue:
        """Read the robots' skill sets.

        Raises:
            ConfigurationError: One cannot be read, or two have one name and different content.
        """
        skill_sets: dict[str, SkillSet] = {}
        texts: dict[str, str] = {}
        skill_set_of: dict[str, str] = {}
        loaded: dict[str, SkillSet] = {}
        for robot in robots:
            source = robot.skill_set
            if source not in loaded:
                loaded[source] = find_skill_set(source)
                name = loaded[source].name
                known = skill_sets.setdefault(name, loaded[source])
                if known.fingerprint() != loaded[source].fingerprint():
                    raise ConfigurationError(
                        f'skill set {source!r} of robot {robot.name!r}: expected another name than '
                        f'{name!r}, which a different skill set of this fleet has'
                    )
                texts.setdefault(name, find_skill_file(source).read_text(encoding='utf-8'))
            skill_set_of[robot.name] = loaded[source].name
        return cls(skill_sets, texts, skill_set_of)

    def as_yaml(self) -> str:
        """Return robots and skill sets as one YAML document."""
        return yaml.safe_dump(
            {
                'robots': self.skill_set_of,
                'fingerprints': {
                    name: skill_set.fingerprint() for name, skill_set in self.skill_sets.items()
                },
                'skill_sets': self.yaml,
            },
            sort_keys=False,
        )
