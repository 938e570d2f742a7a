"""Decoded messages as values that JSON knows."""

from __future__ import annotations

import math
from typing import Any


def to_json(value: Any) -> Any:
    """Return a decoded message as dictionaries, lists, numbers and texts.

    Numbers that are not finite become None and bytes become lists of numbers.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return list(value)
    names = getattr(type(value), '__slots__', None) or getattr(value, '__dict__', None)
    if names is not None and not isinstance(value, (list, tuple)):
        return {name: to_json(getattr(value, name)) for name in names if not name.startswith('__')}
    return [to_json(item) for item in value]
