"""A world as a file: what is in each bay, for the program that simulates it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, get_args

from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.world.options import Bay, Body
from timely_llm_ros.world.shapes import KNOWN_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FIELDS = [item.name for item in fields(SceneObject)]


def write_bays(path: Path, bays: Sequence[Bay]) -> None:
    """Write a world as JSON."""
    content = {
        bay.robot: {'body': bay.body, 'objects': [asdict(item) for item in bay.scene.objects]}
        for bay in bays
    }
    path.write_text(json.dumps(content, indent=1), encoding='utf-8')


def read_bays(path: Path) -> list[Bay]:
    """Read a world.

    Raises:
        ConfigurationError: It cannot be read, or is not of that form.
    """
    try:
        content = json.loads(path.read_text(encoding='utf-8').strip() or '{}')
        return _read_rooms(content)
    except (OSError, ValueError, OverflowError, InvalidTaskError) as err:
        raise ConfigurationError(
            f'bays {str(path)!r}: expected a JSON file of body and objects by robot: {err}'
        ) from err


def _read_rooms(content: Any) -> list[Bay]:
    if not isinstance(content, dict) or not content:
        raise InvalidTaskError('it names no robot')
    return [_read_bay(robot, bay) for robot, bay in content.items()]


def _read_bay(robot: str, bay: Any) -> Bay:
    if not isinstance(bay, dict) or set(bay) != {'body', 'objects'}:
        raise InvalidTaskError(f'{robot}: {bay!r:.200}: expected body and objects')
    if bay['body'] not in get_args(Body):
        bodies = ', '.join(get_args(Body))
        raise InvalidTaskError(f'{robot}: body {bay["body"]!r:.200}: expected one of {bodies}')
    return Bay(robot, _read_scene(robot, bay['objects'], bay['body']), bay['body'])


def _read_scene(robot: str, items: Any, body: Body) -> Scene:
    if not isinstance(items, list):
        raise InvalidTaskError(f'{robot}: {items!r:.200}: expected a list of objects')
    for item in items:
        if not isinstance(item, dict) or not {'name', 'kind'} <= set(item) <= set(_FIELDS):
            allowed = ', '.join(_FIELDS[2:])
            raise InvalidTaskError(
                f'{robot}: {item!r:.200}: expected an object with name, kind and maybe {allowed}'
            )
        for name, value in item.items():
            types, what = ((int, float), 'number') if name[-2:] in ('_m', '_s') else (str, 'text')
            if isinstance(value, bool) or not isinstance(value, types):
                raise InvalidTaskError(f'{robot}: {name} {value!r:.200}: expected a {what}')
        # On a table, what is of no kind that matters is a thing to grip.
        if body == 'drone' and item['kind'] not in KNOWN_KINDS:
            kinds = ', '.join(sorted(KNOWN_KINDS))
            raise InvalidTaskError(f'{robot}: kind {item["kind"]!r:.200}: expected one of {kinds}')
    return Scene(tuple(SceneObject(**item) for item in items))
