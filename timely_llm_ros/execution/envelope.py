"""The envelope of one robot: where it may be, how high, how fast and how near to people."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.execution.whereabouts import Whereabouts
from timely_llm_ros.options import Option, check_options, option, option_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FAR_M = 1e7
"""A side of a volume that nobody gave lies this far out (m)."""

PEOPLE = (
    'person', 'people', 'man', 'woman', 'child', 'boy', 'girl', 'baby', 'worker', 'visitor',
    'human', 'pedestrian',
)  # fmt: skip
"""Kinds of objects that are people unless the envelope says which are."""


@dataclass(frozen=True, slots=True)
class Box:
    """A volume between two corners, in the frame of the robot's scenes (m).

    Raises:
        ConfigurationError: A side is no number, or a side's ends are in the wrong order.
    """

    low: tuple[float, float, float]
    high: tuple[float, float, float]

    def __post_init__(self) -> None:
        for axis, low, high in zip('xyz', self.low, self.high, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ConfigurationError(
                    f'{axis} from {low:g} to {high:g}: expected the lesser number first'
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The rules that every call of one robot must keep. A rule that is None is not asked for.

    Attributes:
        workspace: It stays inside.
        no_go: It stays out of these, by name.
        people_kinds: Kinds of objects in scenes that are people.
        start: Where it stands when its executor starts.

    Raises:
        ConfigurationError: A value is out of range.
    """

    workspace: Box | None = None
    no_go: Mapping[str, Box] = field(default_factory=dict)
    people_kinds: tuple[str, ...] = PEOPLE
    start: Whereabouts = Whereabouts()  # noqa: RUF009 (frozen)
    maximum_height_m: float | None = option(
        None, 'It is no higher than this above the ground at its start (m).', minimum=0, maximum=1e4
    )
    maximum_speed_m_s: float | None = option(
        None, 'Its skills are no faster (m/s).', minimum=0, maximum=1e3
    )
    minimum_battery_percent: float | None = option(
        None, 'With less charge it only lands.', minimum=0, maximum=100
    )
    people_distance_m: float | None = option(
        None, 'It comes no nearer to people than this, over the ground (m).', minimum=0, maximum=1e4
    )
    margin_m: float = option(
        0.0, 'It may be this far from where it is taken to be (m).', minimum=0, maximum=1e3
    )

    def __post_init__(self) -> None:
        check_options(self)


def read_envelope(values: object) -> Envelope:
    """Return an envelope from plain values, as a drivers file has them.

    Raises:
        ConfigurationError: A key is unknown, or a value does not fit it.
    """
    numbers = [one.name for one in fields(Envelope) if isinstance(option_of(one), Option)]
    given = _mapping(values, (*numbers, 'workspace', 'no_go', 'people_kinds', 'start'))
    found: dict[str, Any] = {}
    for name, value in given.items():
        try:
            found[name] = _READERS.get(name, _number)(value)
        except ConfigurationError as err:
            raise ConfigurationError(f'{name}: {err}') from err
    return Envelope(**found)


def _box(value: object) -> Box:
    low, high = [-FAR_M] * 3, [FAR_M] * 3
    for axis, ends in _mapping(value, ('x', 'y', 'z')).items():
        if not isinstance(ends, list) or len(ends) != 2:
            raise ConfigurationError(f'{axis}: {ends!r}: expected two numbers')
        index = 'xyz'.index(axis)
        low[index], high[index] = _number(ends[0]), _number(ends[1])
    return Box((low[0], low[1], low[2]), (high[0], high[1], high[2]))


def _boxes(value: object) -> dict[str, Box]:
    return {name: _box(box) for name, box in _mapping(value).items()}


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ConfigurationError(f'{value!r}: expected a list of words')
    return tuple(value)


def _start(value: object) -> Whereabouts:
    given = {key: _number(one) for key, one in _mapping(value, ('x', 'y', 'heading_deg')).items()}
    heading = math.radians(given.get('heading_deg', 0.0))
    return Whereabouts(given.get('x', 0.0), given.get('y', 0.0), heading_rad=heading)


def _mapping(value: object, keys: tuple[str, ...] = ()) -> dict[str, object]:
    if not isinstance(value, dict) or not value:
        raise ConfigurationError(f'{value!r}: expected a mapping')
    for key in value:
        if not isinstance(key, str) or (keys and key not in keys):
            raise ConfigurationError(f'{key!r}: expected {"one of " + ", ".join(keys) or "a word"}')
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f'{value!r}: expected a number')
    return float(value)


_READERS = {'workspace': _box, 'no_go': _boxes, 'people_kinds': _words, 'start': _start}
