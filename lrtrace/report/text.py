"""Numbers and untrusted text in HTML. Every string of a trace goes through :func:`e`."""

from __future__ import annotations

import json
import math
from html import escape
from typing import Any

NOTHING = '\u2013'
"""A dash stands where there is no number."""

MINUS = '\u2212'
"""As wide as a digit, unlike a hyphen."""


MOST_LETTERS = 2000
"""The report shows so many letters of a text."""


def e(text: object) -> str:
    """Return text that is safe in HTML, in quoted attributes too."""
    return escape(str(text)[:MOST_LETTERS], quote=True)


def seconds(value: float) -> str:
    """Return a duration (s) with its unit and about three digits."""
    if not math.isfinite(value):
        return NOTHING
    sign = MINUS if value < 0 else ''
    size = abs(value)
    if size < 0.0995:
        return f'{sign}{size * 1000:.0f} ms'
    return f'{sign}{size:.2f} s' if size < 9.995 else f'{sign}{size:.1f} s'


def number(value: float, digits: int = 2) -> str:
    """Return a number, with a real minus sign."""
    if not math.isfinite(value):
        return NOTHING
    return f'{value:.{digits}f}'.replace('-', MINUS)


def kind_name(kind: str) -> str:
    """Return a task kind as people write it."""
    return kind[:MOST_LETTERS].replace('_', ' ')


def json_for_script(value: Any) -> str:
    """Return JSON that is safe inside a ``<script>`` element, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=True, separators=(',', ':'), allow_nan=False)
    return text.replace('<', '\\u003c').replace('>', '\\u003e').replace('&', '\\u0026')
