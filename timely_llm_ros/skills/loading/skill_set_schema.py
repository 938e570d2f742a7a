"""The JSON schema of skill-set files, by which editors complete and check them.

It is made of the types and bounds that the loader itself reads by. What one key says of another,
such as a safe action that is one of the skills, only the loader checks.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from timely_llm_ros.options import Option, option_of
from timely_llm_ros.skills.durations import MAX_VARIATION
from timely_llm_ros.skills.limits import PlanLimits
from timely_llm_ros.skills.loading import examples_yaml, motion_yaml
from timely_llm_ros.skills.loading import skill_set_yaml as whole
from timely_llm_ros.skills.loading.overlay_yaml import MAX_PATH_LENGTH
from timely_llm_ros.skills.loading.yaml_nodes import MAX_DESCRIPTION_LENGTH
from timely_llm_ros.skills.motions import Direction, Side
from timely_llm_ros.skills.scene import RELATIONS
from timely_llm_ros.skills.skill_types import RISKS, UNITS, ReturnKind, SegmentEnd

Schema = dict[str, Any]

_WORD: Schema = {'type': 'string', 'maxLength': 64, 'pattern': r'^[a-z][a-z0-9]*(_[a-z0-9]+)*$'}
_LINE: Schema = {'type': 'string', 'minLength': 1, 'maxLength': MAX_DESCRIPTION_LENGTH}
_FLAG: Schema = {'type': 'boolean'}


def skill_set_schema() -> Schema:
    """Return the schema of skill sets and of overlays that extend one."""
    skills = _named(_skill(), whole.MAX_SKILLS)
    limits = _object({}, {item.name: _limit(item.name) for item in fields(PlanLimits)})
    free_text = _object({'skill': _WORD, 'segments': _one_of(get_args(SegmentEnd))})
    own = _object(
        {'name': _WORD, 'description': _LINE, 'safe_action': _WORD, 'skills': skills},
        {
            'max_repeat': _integer(1, whole.MAX_REPEAT),
            'free_text': free_text,
            'limits': limits,
            'examples': _list(_example(), examples_yaml.MAX_EXAMPLES),
            'fallback': _named(_plan(whole.MAX_FALLBACK_LENGTH), whole.MAX_FALLBACKS),
        },
    )
    measured = _object({'duration': _duration()}, {'evidence': {'type': 'object'}})
    overlay = _object(
        {
            'extends': {'type': 'string', 'maxLength': MAX_PATH_LENGTH},
            'skills': _named(measured, whole.MAX_SKILLS),
        },
        {'evidence': {'type': 'object'}},
    )
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'A skill set of timely_llm_ros',
        'type': 'object',
        'if': {'required': ['extends']},
        'then': overlay,
        'else': own,
    }


def _skill() -> Schema:
    return _object(
        {'description': _LINE, 'duration': _duration()},
        {
            'arguments': _named({'anyOf': _arguments()}, whole.MAX_ARGUMENTS),
            'blocking': _FLAG,
            'returns': _one_of(get_args(ReturnKind)),
            'motion': _motion(),
            'risk': _one_of(RISKS),
        },
    )


def _arguments() -> list[Schema]:
    unit, words = _one_of(tuple(UNITS)), _list(_WORD, whole.MAX_CHOICES)
    most = whole.MAX_NUMBER
    return [
        _object(
            {'kind': _one_of((kind,)), 'minimum': number, 'maximum': number},
            {'unit': unit},
        )
        for kind, number in (('int', _integer(-most, most)), ('number', _number(-most, most)))
    ] + [
        _object({'kind': _one_of(('string',)), 'max_length': {'type': 'integer', 'minimum': 1}}),
        _object({'kind': _one_of(('choice',)), 'choices': words}),
        _object({'kind': _one_of(('object',))}, {'object_kinds': words}),
    ]


def _duration() -> Schema:
    seconds, variation = _number(0, whole.MAX_SECONDS), {'variation': _number(0, MAX_VARIATION)}
    per = {'type': 'object', 'additionalProperties': seconds}
    samples = _list(seconds, whole.MAX_SAMPLES)
    words = _number(1, whole.MAX_WORDS_PER_MINUTE)
    return {
        'anyOf': [
            _object({'model': _one_of(('constant',)), 'seconds': seconds}, variation),
            _object({'model': _one_of(('linear',)), 'base_s': seconds, 'per': per}, variation),
            _object({'model': _one_of(('reading',)), 'words_per_minute': words}, variation),
            _object({'model': _one_of(('empirical',)), 'samples_s': samples}),
        ]
    }


def _motion() -> Schema:
    metres = _number(0, motion_yaml.MAX_METRES)
    amount = {'anyOf': [metres, _WORD]}
    return {
        'anyOf': [
            _one_of(('still', 'land')),
            _object({'turn': _one_of(get_args(Side))}, {'by': amount}),
            _object({'move': _one_of(get_args(Direction)), 'by': amount}, {'speed': amount}),
            _object({'climb_to': _list(metres, 2)}),
            _object(
                {'to': _WORD},
                {'within_m': metres, 'height': _one_of(('own', 'object')), 'speed': amount},
            ),
        ]
    }


def _example() -> Schema:
    metres = _number(-examples_yaml.MAX_METRES, examples_yaml.MAX_METRES)
    thing = _object(
        {'name': _WORD, 'kind': _WORD},
        {
            'attribute': _WORD,
            'relation': _one_of(RELATIONS),
            'support': _WORD,
            'x_m': metres,
            'y_m': metres,
            'z_m': metres,
        },
    )
    return _object(
        {
            'instruction': {'type': 'string', 'maxLength': examples_yaml.MAX_INSTRUCTION_LENGTH},
            'plan': _plan(examples_yaml.MAX_PLAN_LENGTH),
        },
        {'objects': _list(thing, examples_yaml.MAX_OBJECTS)},
    )


def _plan(longest: int) -> Schema:
    return {'type': 'string', 'maxLength': longest}


def _limit(name: str) -> Schema:
    (item,) = (one for one in fields(PlanLimits) if one.name == name)
    declared = option_of(item)
    if not isinstance(declared, Option):
        raise TypeError(f'limit {name!r}: {declared!r}: expected an option')
    whole_number = isinstance(item.default, int)
    return {
        'type': 'integer' if whole_number else 'number',
        'minimum': declared.minimum,
        'maximum': declared.maximum,
        'default': item.default,
        'description': declared.description,
    }


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    return {
        'type': 'object',
        'required': list(required),
        'additionalProperties': False,
        'properties': required | (optional or {}),
    }


def _named(item: Schema, most: int) -> Schema:
    return {
        'type': 'object',
        'minProperties': 1,
        'maxProperties': most,
        'additionalProperties': item,
    }


def _list(item: Schema, most: int) -> Schema:
    return {'type': 'array', 'minItems': 1, 'maxItems': most, 'items': item}


def _one_of(words: tuple[str, ...]) -> Schema:
    return {'enum': list(words)}


def _integer(least: int, most: int) -> Schema:
    return {'type': 'integer', 'minimum': least, 'maximum': most}


def _number(least: float, most: float) -> Schema:
    return {'type': 'number', 'minimum': least, 'maximum': most}
