"""What a skill-set file may hold; anything else is refused with file, line, key and expectation."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, get_args

from timely_llm_ros.errors import PlanError
from timely_llm_ros.options import Option, option_of
from timely_llm_ros.skills.argument_kinds import MAX_DECIMALS
from timely_llm_ros.skills.durations import (
    MAX_VARIATION,
    ConstantDuration,
    EmpiricalDuration,
    LinearDuration,
    ReadingDuration,
)
from timely_llm_ros.skills.limits import PlanLimits
from timely_llm_ros.skills.loading.examples_yaml import read_examples
from timely_llm_ros.skills.loading.motion_yaml import read_motion
from timely_llm_ros.skills.segments import fallback_segments
from timely_llm_ros.skills.skill_types import (
    RISKS,
    UNITS,
    ArgumentKind,
    ArgumentSpec,
    FreeText,
    ReturnKind,
    Risk,
    SegmentEnd,
    Skill,
    SkillSet,
)
from timely_llm_ros.skills.statements import KEYWORDS

if TYPE_CHECKING:
    from timely_llm_ros.skills.durations import DurationModel
    from timely_llm_ros.skills.loading.yaml_nodes import YamlValue

MAX_SKILLS = 256
MAX_ARGUMENTS = 8
MAX_CHOICES = 256
MAX_NUMBER = 1_000_000
MAX_STRING_LENGTH = 200
MAX_REPEAT = 1000
MAX_SAMPLES = 10_000
MAX_SECONDS = 86_400.0
MAX_WORDS_PER_MINUTE = 10_000.0
MAX_FALLBACKS = 64
MAX_FALLBACK_LENGTH = 400

_KINDS: tuple[ArgumentKind, ...] = get_args(ArgumentKind)
_RETURNS: tuple[ReturnKind, ...] = get_args(ReturnKind)
_SEGMENT_ENDS: tuple[SegmentEnd, ...] = get_args(SegmentEnd)
_DURATIONS = ('constant', 'linear', 'empirical', 'reading')


def read_whole_skill_set(item: YamlValue) -> SkillSet:
    """Read a skill set that extends no other.

    Raises:
        SkillSetError: It is not a valid skill set.
    """
    top = item.mapping(
        required=('name', 'description', 'safe_action', 'skills'),
        optional=('max_repeat', 'free_text', 'limits', 'examples', 'fallback'),
    )
    name, description = top['name'].word(), top['description'].description()
    max_repeat = top['max_repeat'].integer(1, MAX_REPEAT) if 'max_repeat' in top else 10
    limits = _limits(top['limits']) if 'limits' in top else PlanLimits()
    items = top['skills'].mapping(any_key=True)
    if not 1 <= len(items) <= MAX_SKILLS:
        top['skills'].refuse(f'{len(items)} skills: expected 1 to {MAX_SKILLS}')
    free_text = _free_text(top['free_text']) if 'free_text' in top else None
    reader = free_text.skill if free_text is not None else ''
    if free_text is not None and reader not in items:
        top['free_text'].refuse(f'skill {reader!r}: expected one of the skills of this file')
    skills = {
        skill: _skill(skill, item, limits.segment_length if skill == reader else MAX_STRING_LENGTH)
        for skill, item in items.items()
    }
    if free_text is not None and not _takes_text(skills[reader]):
        top['free_text'].refuse(
            f'skill {reader!r}: expected one with a string as its only argument that does not block'
        )
    safe_action = top['safe_action'].word()
    if safe_action not in skills:
        top['safe_action'].refuse(f'{safe_action!r}: expected one of the skills of this file')
    if skills[safe_action].arguments or skills[safe_action].blocking:
        top['safe_action'].refuse(
            f'{safe_action!r}: expected a skill without arguments that does not block, '
            'because it must be possible at any time'
        )
    found = SkillSet(name, description, skills, safe_action, max_repeat, free_text, limits)
    if 'fallback' in top:
        found = _with_fallback(top['fallback'], found)
    if 'examples' not in top:
        return found
    return replace(found, examples=read_examples(top['examples'], found))


def _with_fallback(item: YamlValue, skill_set: SkillSet) -> SkillSet:
    """Return the skill set with its fallback plans, each checked as a model's would be."""
    keys = item.mapping(any_key=True)
    if not 1 <= len(keys) <= MAX_FALLBACKS:
        item.refuse(f'{len(keys)} plans: expected 1 to {MAX_FALLBACKS}')
    plans = {kind: plan.line(MAX_FALLBACK_LENGTH) for kind, plan in keys.items()}
    found = replace(skill_set, fallback=plans)
    for kind, plan in keys.items():
        try:
            if not fallback_segments(found, kind):
                plan.refuse(f'{plans[kind]!r}: expected at least one statement')
        except PlanError as err:
            plan.refuse(str(err))
    return found


def _free_text(item: YamlValue) -> FreeText:
    keys = item.mapping(required=('skill', 'segments'))
    return FreeText(keys['skill'].word(), keys['segments'].one_of(_SEGMENT_ENDS))


def _limits(item: YamlValue) -> PlanLimits:
    declared = {limit.name: limit for limit in fields(PlanLimits)}
    given: dict[str, Any] = {}
    for name, value in item.mapping(optional=tuple(declared)).items():
        match option_of(declared[name]):
            case Option(minimum=low, maximum=high) if low is not None and high is not None:
                whole = isinstance(declared[name].default, int)
                given[name] = (
                    value.integer(int(low), int(high)) if whole else value.number(low, high)
                )
    return PlanLimits(**given)


def _takes_text(skill: Skill) -> bool:
    return not skill.blocking and [item.kind for item in skill.arguments] == ['string']


def _skill(name: str, item: YamlValue, longest: int) -> Skill:
    if name in KEYWORDS:
        item.refuse(f'{name!r} is a word of the plan language: expected another skill name')
    keys = item.mapping(
        required=('description', 'duration'),
        optional=('arguments', 'blocking', 'returns', 'motion', 'risk'),
    )
    arguments: tuple[ArgumentSpec, ...] = ()
    if 'arguments' in keys:
        items = keys['arguments'].mapping(any_key=True)
        if not 1 <= len(items) <= MAX_ARGUMENTS:
            keys['arguments'].refuse(f'{len(items)} arguments: expected 1 to {MAX_ARGUMENTS}')
        arguments = tuple(_argument(name, item, longest) for name, item in items.items())
    blocking = keys['blocking'].boolean() if 'blocking' in keys else False
    returns: ReturnKind = keys['returns'].one_of(_RETURNS) if 'returns' in keys else 'none'
    if blocking != (returns != 'none'):
        item.refuse(
            f'blocking {str(blocking).lower()} with returns {returns!r}: expected a skill to block '
            'exactly where it returns bool or text'
        )
    duration = read_duration(keys['duration'], arguments)
    description = keys['description'].description()
    motion = read_motion(keys['motion'], arguments) if 'motion' in keys else None
    risk: Risk = keys['risk'].one_of(RISKS) if 'risk' in keys else 'low'
    return Skill(name, description, arguments, duration, blocking, returns, motion, risk)


def _argument(name: str, item: YamlValue, longest: int) -> ArgumentSpec:
    kind = item.mapping(required=('kind',), any_key=True)['kind'].one_of(_KINDS)
    match kind:
        case 'int' | 'number':
            keys = item.mapping(required=('kind', 'minimum', 'maximum'), optional=('unit',))
            unit = keys['unit'].one_of(tuple(UNITS), 'a unit') if 'unit' in keys else ''
            if kind == 'int':
                minimum: float = keys['minimum'].integer(-MAX_NUMBER, MAX_NUMBER)
                maximum: float = keys['maximum'].integer(-MAX_NUMBER, MAX_NUMBER)
            else:
                minimum = keys['minimum'].number(-MAX_NUMBER, MAX_NUMBER, MAX_DECIMALS)
                maximum = keys['maximum'].number(-MAX_NUMBER, MAX_NUMBER, MAX_DECIMALS)
            if minimum > maximum:
                keys['maximum'].refuse(f'{maximum:g}: expected at least the minimum {minimum:g}')
            return ArgumentSpec(name, kind, unit, minimum, maximum)
        case 'string':
            keys = item.mapping(required=('kind', 'max_length'))
            length = keys['max_length'].integer(1, longest)
            return ArgumentSpec(name, kind, max_length=length)
        case 'choice':
            keys = item.mapping(required=('kind', 'choices'))
            return ArgumentSpec(name, kind, choices=keys['choices'].words(MAX_CHOICES))
        case 'object':
            keys = item.mapping(required=('kind',), optional=('object_kinds',))
            kinds = keys['object_kinds'].words(MAX_CHOICES) if 'object_kinds' in keys else ()
            return ArgumentSpec(name, kind, object_kinds=kinds)


def read_duration(item: YamlValue, arguments: tuple[ArgumentSpec, ...]) -> DurationModel:
    """Read the duration model of a skill that has these arguments.

    Raises:
        SkillSetError: It is not a valid one.
    """
    model = item.mapping(required=('model',), any_key=True)['model'].one_of(_DURATIONS)
    match model:
        case 'constant':
            keys = item.mapping(required=('model', 'seconds'), optional=('variation',))
            return ConstantDuration(keys['seconds'].number(0, MAX_SECONDS), _variation(keys))
        case 'linear':
            keys = item.mapping(required=('model', 'base_s', 'per'), optional=('variation',))
            kinds = {spec.name: spec.kind for spec in arguments}
            per: dict[str, float] = {}
            for name, coefficient in keys['per'].mapping(any_key=True).items():
                if kinds.get(name) not in ('int', 'number', 'object'):
                    coefficient.refuse(
                        f'{name!r}: expected a number or object argument of the skill'
                    )
                per[name] = coefficient.number(0, MAX_SECONDS)
            return LinearDuration(keys['base_s'].number(0, MAX_SECONDS), per, _variation(keys))
        case 'reading':
            keys = item.mapping(required=('model', 'words_per_minute'), optional=('variation',))
            if not any(spec.kind == 'string' for spec in arguments):
                item.refuse('reading: expected the skill to have a string argument to read')
            return ReadingDuration(
                keys['words_per_minute'].number(1, MAX_WORDS_PER_MINUTE), _variation(keys)
            )
        case _:
            keys = item.mapping(required=('model', 'samples_s'))
            samples = keys['samples_s'].sequence(MAX_SAMPLES)
            return EmpiricalDuration(tuple(sample.number(0, MAX_SECONDS) for sample in samples))


def _variation(keys: dict[str, YamlValue]) -> float:
    return keys['variation'].number(0, MAX_VARIATION) if 'variation' in keys else 0.0
