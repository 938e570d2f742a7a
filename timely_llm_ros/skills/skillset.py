"""Skill sets: what a robot can do, with typed and bounded arguments, read from YAML."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import ConfigurationError, SkillSetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.skills.durations import DurationModel

ArgumentKind = Literal['int', 'number', 'object', 'string', 'choice']
"""What an argument is in plan text."""

ReturnKind = Literal['none', 'bool', 'text']
"""What a skill gives back to the plan."""

SegmentEnd = Literal['sentence', 'paragraph']
"""Where a segment of free text ends."""

UNITS: dict[str, tuple[float, float]] = {
    '': (1, 1),
    'm': (1, 1),
    'cm': (1, 100),
    'mm': (1, 1000),
    'rad': (1, 1),
    'deg': (math.pi, 180),
    's': (1, 1),
    'ms': (1, 1000),
    'min': (60, 1),
    'm/s': (1, 1),
    'cm/s': (1, 100),
    'rad/s': (1, 1),
    'deg/s': (math.pi, 180),
    'kg': (1, 1),
    'g': (1, 1000),
    'N': (1, 1),
    'percent': (1, 100),
}
"""Language unit -> (multiplier, divisor) to SI; a division keeps 29 cm exactly 0.29 m."""

MAX_FILE_BYTES = 262_144
"""A larger skill-set file is refused."""


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """One argument of a skill.

    Attributes:
        name: What messages and duration models call it.
        kind: What it is in plan text.
        unit: Unit of the number in plan text, a key of ``UNITS``; empty for other kinds.
        minimum: Least number, in ``unit``.
        maximum: Greatest number, in ``unit``.
        choices: The words of a ``choice``.
        max_length: Characters that a ``string`` may have.
        object_kinds: Kinds that an ``object`` may have; empty for any.
    """

    name: str
    kind: ArgumentKind
    unit: str = ''
    minimum: float = 0.0
    maximum: float = 0.0
    choices: tuple[str, ...] = ()
    max_length: int = 0
    object_kinds: tuple[str, ...] = ()

    def si(self, number: float) -> float:
        """Convert a number of plan text to SI; a number without unit stays as it is."""
        if not self.unit:
            return number
        multiplier, divisor = UNITS[self.unit]
        return number * multiplier / divisor


@dataclass(frozen=True, slots=True)
class Skill:
    """One action of a robot.

    Attributes:
        name: What plans call it.
        description: A few words for the model's prompt.
        arguments: In the order of plan text.
        duration: How long it takes.
        blocking: Whether the plan reads its value, so that a generation waits for it.
        returns: What that value is; ``none`` exactly where it does not block.
    """

    name: str
    description: str
    arguments: tuple[ArgumentSpec, ...]
    duration: DurationModel
    blocking: bool = False
    returns: ReturnKind = 'none'


@dataclass(frozen=True, slots=True)
class FreeText:
    """Says that the model writes plain text in place of a plan.

    Attributes:
        skill: The skill that gets each piece of it: its only argument is a string, and it does
            not block.
        segments: Where segments end.
    """

    skill: str
    segments: SegmentEnd


@dataclass(frozen=True, slots=True)
class SkillSet:
    """Everything that robots of one kind can do.

    Attributes:
        name: What tasks call it.
        description: A few words.
        skills: By name, in the order of the prompt.
        safe_action: Skill without arguments that makes the robot safe at any time.
        max_repeat: Greatest count of a repeat.
        free_text: What becomes of plain text; None where the model writes plans.
    """

    name: str
    description: str
    skills: Mapping[str, Skill] = field(hash=False)
    safe_action: str
    max_repeat: int = 10
    free_text: FreeText | None = None

    @classmethod
    def load(cls, path: str | Path) -> SkillSet:
        """Read a YAML file: a skill set, or an overlay that ``extends`` one.

        Raises:
            SkillSetError: It cannot be read or is not valid; names file, line, key and what was
                expected.
        """
        return cls.loads(read_skill_file(path), source=str(path))

    @classmethod
    def loads(cls, text: str, source: str = '<string>') -> SkillSet:
        """Read YAML text; ``source`` is what errors call it.

        Raises:
            SkillSetError: It is not valid.
        """
        # The reader imports this module.
        from timely_llm_ros.skills.skillset_yaml import read_skill_set

        return read_skill_set(text, source)

    def fingerprint(self) -> str:
        """Return a short hash of the content; equal content has an equal one on every machine."""
        content = json.dumps(
            [
                type(skill.duration).__name__ + json.dumps(asdict(skill), sort_keys=True)
                for skill in self.skills.values()
            ]
            + [self.name, self.description, self.safe_action, str(self.max_repeat)]
            + ([*asdict(self.free_text).values()] if self.free_text is not None else [])
        )
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def read_skill_file(path: str | Path) -> str:
    """Return the text of a skill-set file.

    Raises:
        SkillSetError: It cannot be read, is too long, or is not text.
    """
    try:
        with Path(path).open('rb') as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as err:
        raise SkillSetError(str(path), 0, 'file', f'cannot be read: {err.strerror}') from err
    if len(data) > MAX_FILE_BYTES:
        raise SkillSetError(
            str(path), 0, 'file', f'longer than {MAX_FILE_BYTES} bytes: expected a skill set'
        )
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        line = data.count(b'\n', 0, err.start) + 1
        raise SkillSetError(
            str(path), line, 'file', f'byte {data[err.start]:#04x}: expected UTF-8 text'
        ) from err


def skill_set_folders() -> tuple[Path, ...]:
    """Return the folders in which skill sets ship: of a checkout, ROS prefixes, this Python."""
    prefixes = [
        Path(entry) for entry in os.environ.get('AMENT_PREFIX_PATH', '').split(':') if entry
    ]
    shares = [prefix / 'share' / 'timely_llm_ros' / 'skills' for prefix in prefixes]
    shares.append(Path(sys.prefix) / 'share' / 'timely_llm_ros' / 'skills')
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / 'package.xml').is_file() or (checkout / 'pyproject.toml').is_file():
        shares.insert(0, checkout / 'skills')
    return tuple(folder for folder in dict.fromkeys(shares) if folder.is_dir())


def is_skill_path(name_or_path: str) -> bool:
    """Whether this is the path of a skill-set file and not a shipped one's name."""
    return '/' in name_or_path or name_or_path.endswith(('.yaml', '.yml'))


def find_skill_file(name_or_path: str) -> Path:
    """Return the file of a shipped skill set by its name, or the path that is given.

    Raises:
        ConfigurationError: No shipped skill set has that name.
    """
    if is_skill_path(name_or_path):
        return Path(name_or_path)
    shipped: dict[str, Path] = {}
    for folder in skill_set_folders():
        for path in sorted(folder.glob('*.yaml')):
            shipped.setdefault(path.stem, path)
    if name_or_path not in shipped:
        raise ConfigurationError(
            f'skill set {name_or_path!r}: expected a path or one of {", ".join(shipped) or "none"}'
        )
    return shipped[name_or_path]


def find_skill_set(name_or_path: str) -> SkillSet:
    """Load a skill set, or an overlay of one, by the name of a shipped one or by path.

    Raises:
        ConfigurationError: No shipped skill set has that name.
        SkillSetError: The file is not valid.
    """
    return SkillSet.load(find_skill_file(name_or_path))
