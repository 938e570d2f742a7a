"""Reads a skill set from a file, from text, or by the name of one that ships."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills.loading.overlay_yaml import read_overlay
from timely_llm_ros.skills.loading.skill_files import find_skill_file, read_skill_file
from timely_llm_ros.skills.loading.skill_set_yaml import read_whole_skill_set
from timely_llm_ros.skills.loading.yaml_nodes import compose

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.skills.skill_types import SkillSet


def parse_skill_set(text: str, source: str = '<string>') -> SkillSet:
    """Read a skill set, or an overlay that ``extends`` one, from YAML text.

    For example::

        rover = parse_skill_set('''
        name: rover
        description: a small ground robot
        safe_action: stop
        skills:
          stop:
            description: stand still
            duration: {model: constant, seconds: 0.2}
        ''')

    Errors call the text ``source``. The path that an overlay extends is relative to its folder.

    Raises:
        SkillSetError: It is not valid; names source, line, key and what was expected.
    """
    top = compose(text, source)
    return read_overlay(top, source) if top.has('extends') else read_whole_skill_set(top)


def load_skill_set(path: str | Path) -> SkillSet:
    """Read a YAML file: a skill set, or an overlay that ``extends`` one.

    Raises:
        SkillSetError: It cannot be read or is not valid; names file, line, key and what was
            expected.
    """
    return parse_skill_set(read_skill_file(path), source=str(path))


def find_skill_set(name_or_path: str) -> SkillSet:
    """Return a skill set by the name of one that ships, or by the path of a file.

    For example::

        tello = find_skill_set('tello')
        rover = find_skill_set('config/rover.yaml')

    Raises:
        ConfigurationError: No shipped skill set has that name.
        SkillSetError: The file is not valid.
    """
    return load_skill_set(find_skill_file(name_or_path))
