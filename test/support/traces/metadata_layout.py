"""rosbag2's layout 9 of ``metadata.yaml``, written down from what its reader asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

TIME = {'sec': int, 'nsec': int}
MESSAGES = {
    'starting_time': {'nanoseconds_since_epoch': int},
    'duration': {'nanoseconds': int},
    'message_count': int,
}
QOS = {
    'history': {'keep_last', 'keep_all', 'system_default', 'unknown'},
    'depth': int,
    'reliability': {'reliable', 'best_effort', 'best_available', 'system_default', 'unknown'},
    'durability': {'volatile', 'transient_local', 'best_available', 'system_default', 'unknown'},
    'deadline': TIME,
    'lifespan': TIME,
    'liveliness': {'automatic', 'manual_by_topic', 'best_available', 'system_default', 'unknown'},
    'liveliness_lease_duration': TIME,
    'avoid_ros_namespace_conventions': bool,
}
TOPIC = {
    'topic_metadata': {
        'name': str,
        'type': str,
        'serialization_format': {'cdr'},
        'offered_qos_profiles': [QOS],
        'type_description_hash': str,
    },
    'message_count': int,
}
LAYOUT: dict[str, Any] = {
    'rosbag2_bagfile_information': {
        'version': {9},
        'storage_identifier': {'mcap'},
        **MESSAGES,
        'topics_with_message_count': [TOPIC],
        'compression_format': str,
        'compression_mode': str,
        'relative_file_paths': [str],
        'files': [{'path': str, **MESSAGES}],
        # Names and values of any kind of text; nothing where there are none.
        'custom_data': object,
        'ros_distro': str,
    }
}


def problems(value: Any, layout: Any, place: str = '') -> list[str]:
    """Return what in a value does not fit a layout, each with its place."""
    if isinstance(layout, dict):
        if not isinstance(value, dict):
            return [f'{place}: {value!r}: expected a mapping']
        found = [f'{place}.{name}: missing' for name in layout if name not in value]
        found += [f'{place}.{name}: unknown' for name in value if name not in layout]
        for name, part in layout.items():
            if name in value:
                found += problems(value[name], part, f'{place}.{name}')
        return found
    if isinstance(layout, list):
        if not isinstance(value, list):
            return [f'{place}: {value!r}: expected a list']
        return [
            one
            for index, item in enumerate(value)
            for one in problems(item, layout[0], f'{place}[{index}]')
        ]
    if isinstance(layout, set):
        return [] if value in layout else [f'{place}: {value!r}: expected one of {layout}']
    # True and False are whole numbers to Python, not to YAML.
    fits = isinstance(value, layout) and (layout is not int or not isinstance(value, bool))
    return [] if fits else [f'{place}: {value!r}: expected {layout.__name__}']


def load(folder: Path) -> Any:
    return yaml.safe_load((folder / 'metadata.yaml').read_text())
