"""Copies the sound messages of a damaged trace into a whole one; the original is kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lrtrace.storage.metadata import load_file
from lrtrace.storage.reader import Trace
from lrtrace.storage.writer import TraceWriter
from timely_llm_ros.errors import ConfigurationError, TraceError

KEPT = '.damaged'
"""Added to the name of an original that was repaired in place."""

_WORK = '.repairing'


@dataclass(frozen=True, slots=True)
class Repair:
    """A repaired trace."""

    trace: Path
    messages: int
    damage: str
    """What was wrong with the original; empty if it was whole, and then nothing was done."""

    original: Path
    """Where the original is now."""


def repair_trace(
    path: str | Path, *, output: str | Path | None = None, in_place: bool = False
) -> Repair:
    """Make a whole trace of what is sound in another one, which is a folder or an MCAP file.

    The new trace goes into the folder ``output``, which must not exist, by default
    ``<trace>_repaired``; in place, it gets the name of the old one, which is moved aside.

    Raises:
        TraceError: There is nothing to save, the trace is not one of ROS 2, or a folder exists
            or cannot be written. Nothing is left behind then, and the original is as it was.
        ConfigurationError: A single file cannot be repaired in place.
    """
    # Absolute, so that "." has a name; not resolved, so that a link stays one.
    path = Path(path).absolute()
    trace = Trace(path)
    if in_place and not path.is_dir():
        raise ConfigurationError(
            f'{str(path)!r}: expected a trace folder to repair in place; a file is repaired into '
            'a folder beside it'
        )
    summary = trace.summary()
    damage = summary.damage or _metadata_damage(path, summary.counts.total())
    if not damage:
        return Repair(path, summary.counts.total(), '', path)
    if not summary.counts.total():
        raise TraceError(
            f'trace {str(path)!r}: {damage}: no whole message in it: expected at least one to save'
        )
    kept = path.with_name(path.name + KEPT)
    if in_place:
        if kept.exists():
            raise TraceError(f'{str(kept)!r}: exists: expected no earlier repair in place')
        target = path.with_name(path.name + _WORK)
    else:
        stem = path.stem if path.is_file() else path.name
        target = Path(output) if output is not None else path.with_name(f'{stem}_repaired')
    messages = _copy(trace, target, path.name if in_place else None)
    if not in_place:
        return Repair(target, messages, damage, path)
    try:
        path.rename(kept)
        target.rename(path)
    except OSError as err:
        raise TraceError(
            f'{str(path)!r}: cannot be renamed: {err.strerror}; the original is {str(kept)!r} or '
            f'where it was, the repaired trace is {str(target)!r}'
        ) from err
    return Repair(path, messages, damage, kept)


def _metadata_damage(path: Path, messages: int) -> str:
    """Return what is wrong with a folder's metadata; empty if nothing is."""
    if path.is_file():
        return ''
    import yaml

    try:
        loaded = load_file(path / 'metadata.yaml')
        information = loaded['rosbag2_bagfile_information']
        topics = [int(topic['message_count']) for topic in information['topics_with_message_count']]
        said = int(information['message_count']) if information['relative_file_paths'] else 0
    except FileNotFoundError:
        return 'metadata.yaml is missing'
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError):
        return 'metadata.yaml cannot be read'
    if said == sum(topics) == messages:
        return ''
    return f'metadata.yaml says {said} messages, {sum(topics)} by topic: there are {messages}'


def _copy(trace: Trace, target: Path, name: str | None) -> int:
    """Copy every sound message into a new trace, or nothing; return how many there are."""
    writer = TraceWriter(target, custom_data=trace.custom_data, name=name)
    try:
        for schema, channel, message in trace.raw():
            writer.copy_topic(schema, channel)
            writer.write(
                channel.topic,
                message.data,
                log_ns=message.log_time,
                publish_ns=message.publish_time,
                sequence=message.sequence,
            )
        writer.close()
    except OSError as err:
        shutil.rmtree(target, ignore_errors=True)
        raise TraceError(f'trace {str(target)!r}: cannot be written: {err.strerror}') from err
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return writer.message_count
