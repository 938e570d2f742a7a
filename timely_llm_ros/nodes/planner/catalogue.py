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
    from timely_llm_ros.srv import DescribeSkills


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

    def describe(self, robot: str, response: DescribeSkills.Response) -> DescribeSkills.Response:
        """Fill in the skill set of a robot, or those of all for an empty name."""
        names = list(self.skill_sets)
        if robot:
            own = self.skill_set_of.get(robot)
            if own is None:
                known = ', '.join(self.skill_set_of) or 'none is known'
                response.message = f'robot {robot[:80]!r}: expected one of {known}'
                return response
            names = [own]
        response.success = True
        response.skill_sets = names
        response.yaml = [self.yaml[name] for name in names]
        response.fingerprints = [self.skill_sets[name].fingerprint() for name in names]
        return response
