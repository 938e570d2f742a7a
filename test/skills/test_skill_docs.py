"""The reference pages say what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from support.skills.plan_texts import SCENE

from timely_llm_ros.errors import PlanError, SkillSetError
from timely_llm_ros.options import Option, option_of
from timely_llm_ros.skills import argument_kinds, language, limits
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter
from timely_llm_ros.skills.skill_types import UNITS

REFERENCE = Path(__file__).resolve().parents[2] / 'docs' / 'reference'
LANGUAGE = (REFERENCE / 'plan_language.md').read_text()
SKILL_SETS = (REFERENCE / 'skill_sets.md').read_text()
(EXAMPLE,) = re.findall(r'```yaml\n(.*?)```', SKILL_SETS, re.DOTALL)


@pytest.mark.parametrize(
    ('name', 'plan'), re.findall(r'```plan (\w+)\n(.*?)```', LANGUAGE, re.DOTALL)
)
def test_plans_on_the_page_are_plans(name: str, plan: str) -> None:
    assert language.parse(plan, find_skill_set(name), SCENE)


def test_errors_on_the_page_are_those_errors() -> None:
    rows = re.findall(r'^\| `(\w+Error)` \|.*\| `(.*)` \|$', LANGUAGE, re.MULTILINE)
    assert len(rows) == 5
    for error, plan in rows:
        segmenter = PlanSegmenter(find_skill_set('tello'), SCENE)
        with pytest.raises(PlanError) as caught:  # noqa: PT012
            segmenter.push(plan)
            segmenter.finish()
        assert type(caught.value).__name__ == error


def test_bounds_on_the_page_are_the_bounds() -> None:
    for text in (
        f'at most {limits.MAX_PLAN_LENGTH:,} characters',
        f'at most {language.MAX_DEPTH} deep',
        f'at most {argument_kinds.MAX_NUMBER_LENGTH} characters',
        f'[0-9]{{1,{argument_kinds.MAX_DECIMALS}}}',
        f'[{language.VALUE_CHARACTERS}]{{1,{language.MAX_VALUE_LENGTH}}}',
        f'[{argument_kinds.STRING_CHARACTERS}]+',
    ):
        assert text in LANGUAGE, text
    units = re.search(r'`unit` is one of\n(.*?); without', SKILL_SETS, re.DOTALL)
    assert units is not None
    assert set(re.findall('`(.*?)`', units[1])) == set(UNITS) - {''}


def test_limits_on_the_page_are_the_limits() -> None:
    rows = re.findall(
        r'^\| `(\w+)` \| ([0-9.,]+) \| ([0-9.,]+) to ([0-9.,]+) \| (.*) \|$',
        SKILL_SETS,
        re.MULTILINE,
    )
    told = [
        (name, *(float(number.replace(',', '')) for number in numbers), what)
        for name, *numbers, what in rows
    ]
    declared = []
    for field in fields(limits.PlanLimits):
        option = option_of(field)
        assert isinstance(option, Option)
        numbers = field.default, option.minimum, option.maximum
        declared.append((field.name, *numbers, option.description))
    assert told == declared


def test_the_skill_set_on_the_page_is_one_and_its_errors_are_as_shown() -> None:
    assert parse_skill_set(EXAMPLE).safe_action == 'hold'
    shown = re.findall(r'^(probe\.yaml:.*?)(?: \.\.\.)?$', SKILL_SETS, re.MULTILINE)
    changes = (
        ('m/s', 'mph'),
        ('  drive_to:', '  repeat:'),
        ('max_repeat', 'colour'),
        ('safe_action: hold', 'safe_action: drive_to'),
    )
    for (old, new), message in zip(changes, shown, strict=True):
        with pytest.raises(SkillSetError) as caught:
            parse_skill_set(EXAMPLE.replace(old, new), source='probe.yaml')
        assert str(caught.value).startswith(message)
