"""``timely-llm skills``: lists what robots can do and checks skill-set files."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import SkillSetError
from timely_llm_ros.skills.loading import (
    find_skill_set,
    load_skill_set,
    shipped_skill_files,
    skill_set_schema,
)

if TYPE_CHECKING:
    import argparse

    from timely_llm_ros.skills import ArgumentSpec, Skill, SkillSet

_EXAMPLES = """\
examples:
  timely-llm skills
  timely-llm skills list tello
  timely-llm skills check my_robot.yaml
  timely-llm skills schema > skill_set.json
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = 'List skill sets with their skills, arguments and ranges, or check a file.'
    parser.epilog = _EXAMPLES
    parser.set_defaults(run=_list, skill_set=[])
    actions = parser.add_subparsers(metavar='ACTION', title='actions')
    listing = actions.add_parser(
        'list', help='list skill sets (the default)', description='List skill sets.'
    )
    listing.add_argument(
        'skill_set', nargs='*', help='names of shipped ones, or paths; default: all shipped ones'
    )
    listing.set_defaults(run=_list)
    check = actions.add_parser(
        'check',
        help='check skill-set files',
        description='Check skill-set files; say file, line, key and what was expected.',
    )
    check.add_argument('file', nargs='+', help='a YAML file')
    check.set_defaults(run=_check)
    schema = actions.add_parser(
        'schema',
        help='print the JSON schema of skill-set files',
        description='Print the JSON schema of skill-set files, for editors.',
    )
    schema.set_defaults(run=_schema)


def _schema(_options: argparse.Namespace) -> int:
    print(json.dumps(skill_set_schema(), indent=1))
    return 0


def _list(options: argparse.Namespace) -> int:
    from rich.console import Console

    names = options.skill_set or sorted(shipped_skill_files())
    console = Console(highlight=False)
    for name in names:
        console.print(_table(find_skill_set(name)))
    return 0


def _table(skill_set: SkillSet) -> Any:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    title = f'{skill_set.name}: {skill_set.description}'
    limits = skill_set.limits
    caption = (
        f'safe action {skill_set.safe_action}; repeat at most {skill_set.max_repeat} times; '
        f'at most {limits.segment_calls} calls and {limits.segment_s:g} s in a segment, '
        f'{limits.plan_calls} calls and {limits.plan_s:g} s in a plan'
    )
    table = Table(
        box=box.SIMPLE_HEAD, title=escape(title), caption=escape(caption), title_justify='left'
    )
    table.add_column('skill', style='bold', no_wrap=True)
    table.add_column('arguments')
    table.add_column('returns')
    table.add_column('what it does')
    for skill in skill_set.skills.values():
        table.add_row(
            escape(skill.name),
            escape(_arguments(skill)),
            _returns(skill),
            escape(skill.description),
        )
    return table


def _arguments(skill: Skill) -> str:
    return '\n'.join(f'{spec.name}: {_range(spec)}' for spec in skill.arguments)


def _range(spec: ArgumentSpec) -> str:
    match spec.kind:
        case 'int' | 'number':
            unit = f' {spec.unit}' if spec.unit else ''
            return f'{spec.minimum:g} to {spec.maximum:g}{unit}'
        case 'choice':
            return ' | '.join(spec.choices)
        case 'string':
            return f'text, at most {spec.max_length} characters'
        case 'object':
            kinds = f' of kind {" or ".join(spec.object_kinds)}' if spec.object_kinds else ''
            return f'an object{kinds}'


def _returns(skill: Skill) -> str:
    return skill.returns if skill.blocking else ''


def _check(options: argparse.Namespace) -> int:
    failed = False
    for path in options.file:
        try:
            skill_set = load_skill_set(path)
        except SkillSetError as err:
            failed = True
            print(f'error: {err}', file=sys.stderr)
        else:
            print(
                f'{path}: {skill_set.name}, {len(skill_set.skills)} skills, '
                f'fingerprint {skill_set.fingerprint()}'
            )
    return 1 if failed else 0
