"""Finds the MCAP files of a trace, even if its recorder was killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lrtrace.storage.mcap_file import MAGIC
from lrtrace.storage.metadata import load_file, read_ending
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TraceFiles:
    """The files of a trace and what its ``metadata.yaml`` notes about the run."""

    paths: tuple[Path, ...]
    """In the order of recording, at least one."""

    custom_data: Mapping[str, str] = field(default_factory=dict)
    ending: str = ''
    """Why its recorder ended before it could end the trace; empty if it did not say."""

    empty: str = ''
    """Name of a last file without content, which is not in ``paths``: its recorder was killed just
    after it had created the file."""


def find_files(path: Path) -> TraceFiles:
    """Return the files of a rosbag2 folder, or a single MCAP file as a trace of its own.

    Raises:
        TraceError: There is no trace, or it is not made of MCAP files.
    """
    if path.is_file():
        found = TraceFiles((path,))
    elif path.is_dir():
        found = _folder_files(path)
    else:
        raise TraceError(f'trace {str(path)!r}: expected a rosbag2 folder or an MCAP file')
    for file in found.paths:
        _require_mcap(file)
    return found


def _folder_files(folder: Path) -> TraceFiles:
    information = _information(folder / 'metadata.yaml')
    storage = information.get('storage_identifier', 'mcap')
    if storage != 'mcap':
        raise TraceError(f'trace {str(folder)!r}: storage {storage!r}: expected mcap')
    listed = information.get('relative_file_paths')
    # Whatever the metadata says, only files of this very folder count.
    names = [Path(str(name)).name for name in listed] if isinstance(listed, list) else []
    paths = [folder / name for name in names]
    # A killed recorder may have begun a file that the metadata does not list yet.
    paths += sorted(set(folder.glob('*.mcap')) - set(paths), key=_file_order)
    paths = [path for path in paths if path.is_file()]
    if not paths:
        raise TraceError(f'trace {str(folder)!r}: expected at least one .mcap file in it')
    noted = information.get('custom_data')
    custom_data = (
        {str(name): str(value) for name, value in noted.items()} if isinstance(noted, dict) else {}
    )
    if len(paths) > 1 and paths[-1].stat().st_size < len(MAGIC):
        return TraceFiles(tuple(paths[:-1]), custom_data, read_ending(folder), paths[-1].name)
    return TraceFiles(tuple(paths), custom_data, read_ending(folder))


def _information(path: Path) -> dict[str, Any]:
    """Return what ``metadata.yaml`` says; nothing if it is missing or was cut off."""
    try:
        loaded = load_file(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    information = loaded.get('rosbag2_bagfile_information') if isinstance(loaded, dict) else None
    return information if isinstance(information, dict) else {}


def _file_order(path: Path) -> tuple[int, str]:
    number = path.stem.rpartition('_')[2]
    return (int(number) if number.isdigit() else 0, path.name)


def _require_mcap(file: Path) -> None:
    try:
        with file.open('rb') as stream:
            found = stream.read(len(MAGIC))
    except OSError as err:
        raise TraceError(f'{file}: cannot be read: {err.strerror}') from err
    if found != MAGIC:
        what = 'an empty file' if not found else f'{found!r} at its start'
        raise TraceError(f'{file}: {what}: expected an MCAP file')
