"""Everything that differs from one kind of argument to the next, beside how a file declares it.

A skill's argument is an integer, a number, an object of the scene, a string or one of some words.
Three functions tell these kinds apart: :func:`read_argument` checks plan text, :func:`pattern_of`
constrains decoding, and :func:`prompt_text` tells the model. To add a kind, add its name to
``ArgumentKind`` in ``skill_types.py`` and follow the type checker: it names these three,
``loading/skill_set_yaml.py``, which reads a kind's declaration from a skill-set file, and
``timely-llm skills``, which shows it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timely_llm_ros.skills.number_ranges import decimal_range, integer_range
from timely_llm_ros.skills.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Container

    from timely_llm_ros.skills.skill_types import ArgumentSpec

MAX_NUMBER_LENGTH = 12
"""Characters that a number may have: none that fits a bound needs more."""

MAX_DECIMALS = 3
"""Digits that a number may have after the point."""

STRING_CHARACTERS = 'A-Za-z0-9 ,.!?_-'
"""What a string may hold, as the inside of a regular expression's character class."""

_INTEGER = re.compile(r'0|-?[1-9][0-9]*')
_DECIMAL = re.compile(
    rf'(?!-0(?:\.0*)?\Z)-?(?:0|[1-9][0-9]*)(?:\.[0-9]{{1,{MAX_DECIMALS}}})?'  # no negative zero
)


def read_argument(
    spec: ArgumentSpec, sort: str, text: str, object_names: Container[str]
) -> float | int | str:
    """Return the value of an argument in plan text: a number in SI units, or the text itself.

    Args:
        spec: What the skill asks for.
        sort: What plan text has there: a ``name``, a ``number`` or a ``string``.
        text: How plan text writes it, a string without its quotes.
        object_names: The objects that may be named; a ``Scene`` also tells their kinds.

    Raises:
        ValueError: It is not what the skill asks for; the message says what is.
    """
    match spec.kind:
        case 'int':
            if not (sort == 'number' and _INTEGER.fullmatch(text) and _in_bounds(spec, text)):
                raise ValueError(f'an integer {_bounds(spec)}')
            return spec.si(int(text))
        case 'number':
            if not (sort == 'number' and _DECIMAL.fullmatch(text) and _in_bounds(spec, text)):
                raise ValueError(f'a number {_bounds(spec)}')
            return spec.si(float(text))
        case 'object':
            if sort != 'name' or text not in object_names:
                raise ValueError('the name of an object of the scene')
            item = object_names.get(text) if isinstance(object_names, Scene) else None
            if spec.object_kinds and item is not None and item.kind not in spec.object_kinds:
                raise ValueError(f'an object of kind {" or ".join(spec.object_kinds)}')
            return text
        case 'choice':
            if sort != 'name' or text not in spec.choices:
                raise ValueError(f'one of {", ".join(spec.choices)}')
            return text
        case 'string':
            if sort != 'string' or not 1 <= len(text) <= spec.max_length:
                raise ValueError(f'a string of 1 to {spec.max_length} characters')
            return text


def pattern_of(spec: ArgumentSpec, scene: Scene) -> str | None:
    """Return a regular expression of exactly the texts that are allowed, None if none is."""
    match spec.kind:
        case 'int':
            return integer_range(int(spec.minimum), int(spec.maximum))
        case 'number':
            return decimal_range(spec.minimum, spec.maximum, MAX_DECIMALS)
        case 'object':
            names = [
                item.name
                for item in scene.objects
                if not spec.object_kinds or item.kind in spec.object_kinds
            ]
            return '|'.join(names) or None
        case 'choice':
            return '|'.join(spec.choices)
        case 'string':
            return f'"[{STRING_CHARACTERS}]{{1,{spec.max_length}}}"'


def prompt_text(spec: ArgumentSpec) -> str:
    """Return how the prompt describes an argument to the model."""
    match spec.kind:
        case 'int' | 'number':
            return f'{spec.name}:{spec.unit} {spec.minimum:g} to {spec.maximum:g}'
        case 'choice':
            return f'{spec.name}:{"|".join(spec.choices)}'
        case 'object' | 'string':
            return spec.name


def _in_bounds(spec: ArgumentSpec, text: str) -> bool:
    return len(text) <= MAX_NUMBER_LENGTH and spec.minimum <= float(text) <= spec.maximum


def _bounds(spec: ArgumentSpec) -> str:
    unit = f' {spec.unit}' if spec.unit else ''
    return f'from {spec.minimum:g} to {spec.maximum:g}{unit}'
