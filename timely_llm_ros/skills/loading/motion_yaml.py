"""Reads where a skill takes a robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from timely_llm_ros.skills.motions import (
    Approach,
    Climb,
    Direction,
    Land,
    Move,
    Side,
    Still,
    Turn,
)
from timely_llm_ros.skills.skill_types import UNITS

if TYPE_CHECKING:
    from timely_llm_ros.skills.loading.yaml_nodes import YamlValue
    from timely_llm_ros.skills.motions import Amount, Motion
    from timely_llm_ros.skills.skill_types import ArgumentSpec

MAX_METRES = 10_000.0
"""Greatest distance of a motion whose amount is a number (m)."""

_DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
_SIDES: tuple[Side, ...] = get_args(Side)
_SPEEDS = ('m/s', 'cm/s')
_ANGLES = ('rad', 'deg')
_LENGTHS = tuple(unit for unit in UNITS if unit.endswith('m') and unit)


def read_motion(item: YamlValue, arguments: tuple[ArgumentSpec, ...]) -> Motion:
    """Read the motion of a skill that has these arguments.

    Raises:
        SkillSetError: It is not a valid one.
    """
    if item.form != 'mapping':
        return Still() if item.one_of(('still', 'land')) == 'still' else Land()
    forms = [key for key in ('turn', 'move', 'climb_to', 'to') if item.has(key)]
    if len(forms) != 1:
        item.refuse('expected one of the keys turn, move, climb_to, to')
    match forms[0]:
        case 'turn':
            keys = item.mapping(required=('turn',), optional=('by',))
            side = keys['turn'].one_of(_SIDES)
            if ('by' in keys) != (side != 'around'):
                item.refuse(f'turn {side}: expected by with left and right, and not with around')
            return Turn(side, _amount(keys['by'], arguments, _ANGLES) if 'by' in keys else 0.0)
        case 'move':
            keys = item.mapping(required=('move', 'by'), optional=('speed',))
            distance = _amount(keys['by'], arguments, _LENGTHS)
            return Move(keys['move'].one_of(_DIRECTIONS), distance, _speed(keys, arguments))
        case 'climb_to':
            ends = item.mapping(required=('climb_to',))['climb_to'].sequence(2)
            least_m, most_m = ends[0].number(0, MAX_METRES), ends[-1].number(0, MAX_METRES)
            if least_m > most_m:
                ends[-1].refuse(f'{most_m:g}: expected at least {least_m:g}')
            return Climb(least_m, most_m)
        case _:
            keys = item.mapping(required=('to',), optional=('within_m', 'height', 'speed'))
            target = keys['to'].word()
            if target not in [spec.name for spec in arguments if spec.kind == 'object']:
                keys['to'].refuse(f'{target!r}: expected an object argument of the skill')
            return Approach(
                target,
                keys['within_m'].number(0, MAX_METRES) if 'within_m' in keys else 0.0,
                'height' in keys and keys['height'].one_of(('own', 'object')) == 'object',
                _speed(keys, arguments),
            )


def _speed(keys: dict[str, YamlValue], arguments: tuple[ArgumentSpec, ...]) -> Amount | None:
    return _amount(keys['speed'], arguments, _SPEEDS) if 'speed' in keys else None


def _amount(item: YamlValue, arguments: tuple[ArgumentSpec, ...], units: tuple[str, ...]) -> Amount:
    if item.form == 'other':
        return item.number(0, MAX_METRES)
    name = item.word()
    if name not in [spec.name for spec in arguments if spec.unit in units]:
        item.refuse(f'{name!r}: expected a number, or an argument in {" or ".join(units)}')
    return name
