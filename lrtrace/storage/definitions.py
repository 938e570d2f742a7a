"""Message definitions and type hashes of the interfaces that are installed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import TraceError
from timely_llm_ros.installation import prefixes

if TYPE_CHECKING:
    from pathlib import Path

_SEPARATOR = '=' * 80
_PRIMITIVES = frozenset(
    {
        *('bool', 'byte', 'char', 'string', 'wstring', 'float32', 'float64'),
        *(f'{sign}int{bits}' for sign in ('', 'u') for bits in (8, 16, 32, 64)),
    }
)
_FEEDBACK_MESSAGE = re.compile(r'([a-z][a-z0-9_]*)/action/([A-Z][A-Za-z0-9]*)_FeedbackMessage\Z')
_TYPE_NAME = re.compile(r'([a-z][a-z0-9_]*)/(msg|action|srv)/([A-Z][A-Za-z0-9_]*)\Z')
_FIELD_TYPE = re.compile(
    r'([A-Za-z][A-Za-z0-9_]*(?:/[A-Za-z0-9_]+){0,2})(?:<=\d+)?(?:\[[^\]]*\])?\s'
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A message type as traces carry it."""

    text: str
    """Its definition and, after lines of 80 ``=``, the definitions of all types that it uses."""

    type_hash: str
    """``RIHS01_...``; empty where the installation has none."""


def _share_folders() -> tuple[Path, ...]:
    return tuple(prefix / 'share' for prefix in prefixes())


def find_definition(name: str) -> Definition:
    """Return the definition of ``package/msg/Type`` or ``package/action/Type_FeedbackMessage``.

    Raises:
        TraceError: The name is malformed, or the type or one that it uses is not installed.
    """
    texts: dict[str, str] = {}
    action = _FEEDBACK_MESSAGE.match(name)
    hash_file = name
    if action is not None:
        hash_file = f'{action[1]}/action/{action[2]}'
        texts = _feedback_texts(action[1], action[2])
    queue = (
        [name] if action is None else [used for n, t in texts.items() for used in _used_types(n, t)]
    )
    while queue:
        current = queue.pop(0)
        if current in texts:
            continue
        texts[current] = _interface_file(current, '.msg').read_text(encoding='utf-8')
        queue.extend(_used_types(current, texts[current]))
    parts = [texts.pop(name).rstrip('\n')]
    for used, text in texts.items():
        # Types outside of msg keep their full names, which alone tell them apart.
        parts.append(f'{_SEPARATOR}\nMSG: {used.replace("/msg/", "/")}\n{text.rstrip()}')
    return Definition('\n'.join(parts) + '\n', _type_hash(name, hash_file))


def _feedback_texts(package: str, action: str) -> dict[str, str]:
    """Return the two messages that rosidl makes of an action's third part; they have no files."""
    whole = _interface_file(f'{package}/action/{action}', '.action').read_text(encoding='utf-8')
    parts = re.split(r'^---$', whole, flags=re.MULTILINE)
    feedback = f'{action}_Feedback'
    return {
        f'{package}/action/{feedback}Message': (
            f'unique_identifier_msgs/UUID goal_id\n{package}/action/{feedback} feedback'
        ),
        f'{package}/action/{feedback}': parts[2].strip() if len(parts) == 3 else '',
    }


def _interface_file(name: str, suffix: str) -> Path:
    match = _TYPE_NAME.match(name)
    if match is None:
        raise TraceError(f'message type {name!r}: expected package/msg/Type')
    package, folder, kind = match.groups()
    for share in _share_folders():
        path = share / package / folder / f'{kind}{suffix}'
        if path.is_file():
            return path
    raise TraceError(
        f'message type {name!r}: no {package}/{folder}/{kind}{suffix} below '
        f'{", ".join(map(str, _share_folders()))}'
    )


def _type_hash(name: str, file: str) -> str:
    try:
        described = json.loads(_interface_file(file, '.json').read_text(encoding='utf-8'))
    except (TraceError, ValueError):
        return ''
    for entry in described.get('type_hashes', ()):
        if entry.get('type_name') == name:
            return str(entry.get('hash_string', ''))
    return ''


def _used_types(name: str, text: str) -> list[str]:
    package = name.split('/')[0]
    used = []
    for line in text.splitlines():
        match = _FIELD_TYPE.match(line.split('#')[0].strip() + ' ')
        if match is None or match[1] in _PRIMITIVES:
            continue
        words = match[1].split('/')
        if len(words) == 1:
            owner = 'std_msgs' if words[0] == 'Header' and package != 'std_msgs' else package
            used.append(f'{owner}/msg/{words[0]}')
        else:
            folder = words[1] if len(words) == 3 else 'msg'
            used.append(f'{words[0]}/{folder}/{words[-1]}')
    return used
