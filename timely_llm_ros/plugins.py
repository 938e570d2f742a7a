"""What other packages add to this one, by entry points that their installation declares.

Nothing of another package is imported before somebody asks for it by name.
"""

from __future__ import annotations

import functools
import importlib.util
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from timely_llm_ros.errors import ConfigurationError

PluginKind = Literal['drivers', 'policies', 'skill_sets', 'calls']
"""What may be added; the group of entry points is ``timely_llm_ros.`` and this."""


@functools.cache
def _found(kind: PluginKind) -> dict[str, EntryPoint]:
    group = entry_points(group=f'timely_llm_ros.{kind}')
    return {point.name: point for point in sorted(group, key=lambda point: point.name)}


def plugin_names(kind: PluginKind) -> tuple[str, ...]:
    """Return the names of what other packages add."""
    return tuple(_found(kind))


def load_plugin(kind: PluginKind, name: str) -> Any:
    """Import what another package adds under a name.

    Raises:
        ConfigurationError: It cannot be imported, or none has that name.
    """
    point = _found(kind).get(name)
    if point is None:
        raise ConfigurationError(f'{kind} {name!r}: expected one of {", ".join(_found(kind))}')
    try:
        return point.load()
    except Exception as err:
        raise ConfigurationError(
            f'{kind} {name!r}: {point.value}: expected to import it: {err!r}'
        ) from err


def plugin_files(kind: PluginKind) -> dict[str, Path]:
    """Return the files ``NAME.yaml`` in the packages that entry points name, by name."""
    found: dict[str, Path] = {}
    for name, point in _found(kind).items():
        try:
            spec = importlib.util.find_spec(point.value)
        except ImportError:
            continue
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            found.setdefault(name, Path(folder) / f'{name}.yaml')
    return found
