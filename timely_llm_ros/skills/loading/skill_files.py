"""Where skill-set files are, and their text."""

from __future__ import annotations

from pathlib import Path

from timely_llm_ros.errors import ConfigurationError, SkillSetError
from timely_llm_ros.installation import shipped_folders
from timely_llm_ros.plugins import plugin_files

MAX_FILE_BYTES = 262_144
"""A larger skill-set file is refused."""


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


def shipped_skill_files() -> dict[str, Path]:
    """Return the skill-set files that ship, by name, and those of other packages.

    A checkout's hide those that are installed, and these hide those of other packages.
    """
    shipped: dict[str, Path] = {}
    for folder in shipped_folders('skills'):
        for path in sorted(folder.glob('*.yaml')):
            shipped.setdefault(path.stem, path)
    return plugin_files('skill_sets') | shipped


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
    shipped = shipped_skill_files()
    if name_or_path not in shipped:
        raise ConfigurationError(
            f'skill set {name_or_path!r}: expected a path or one of {", ".join(shipped) or "none"}'
        )
    return shipped[name_or_path]
