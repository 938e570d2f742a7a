"""What is no skill set is refused, with file, line, key and what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.skills.probe_skill_set import PROBE

from timely_llm_ros.errors import SkillSetError
from timely_llm_ros.skills.loading import load_skill_set, parse_skill_set
from timely_llm_ros.skills.loading.skill_files import MAX_FILE_BYTES

if TYPE_CHECKING:
    import random
    from pathlib import Path

GO = 'skills.go.arguments'
SEE = 'skills.see.duration.samples_s'


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'key', 'problem'),
    [
        ('name: probe', 'name: Probe', 1, 'name', "'Probe': expected lower-case words"),
        ('name: probe', 'name: on', 1, 'name', 'quote it to mean text'),
        ('name: probe\n', '', 1, 'name', "missing: expected 'name' here"),
        ('name: probe', 'name: [a]', 1, 'name', 'a list: expected lower-case'),
        ('safe_action: hold\n', '', 1, 'safe_action', 'missing'),
        ('safe_action: hold', 'safe_action: stop', 3, 'safe_action', "'stop': expected one of the"),
        ('safe_action: hold', 'safe_action: go', 3, 'safe_action', 'without arguments'),
        ('safe_action: hold', 'safe_action: see', 3, 'safe_action', 'does not block'),
        ('skills:', 'max_repeat: 0\nskills:', 4, 'max_repeat', 'an integer from 1 to 1000'),
        ('skills:', 'max_repeat: 1.5\nskills:', 4, 'max_repeat', "'1.5': expected an integer"),
        ('skills:', 'max_repeat: 010\nskills:', 4, 'max_repeat', "'010': expected an integer"),
        ('skills:', 'max_repeat: "3"\nskills:', 4, 'max_repeat', 'an integer'),
        ('skills:', 'colour: red\nskills:', 4, 'colour', 'unknown key: expected one of name,'),
        ('skills:', 'limits: 3\nskills:', 4, 'limits', "'3': expected keys with values"),
        ('skills:', 'limits: {calls: 3}\nskills:', 4, 'limits.calls', 'one of segment_calls, seg'),
        (
            'skills:',
            'limits: {segment_calls: 0}\nskills:',
            4,
            'limits.segment_calls',
            "'0': expected an integer from 1 to 1000000",
        ),
        (
            'skills:',
            'limits: {plan_s: .inf}\nskills:',
            4,
            'limits.plan_s',
            "'.inf': expected a number from 0.1 to 1e+07",
        ),
        (
            'skills:',
            'limits: {segment_length: 16385}\nskills:',
            4,
            'limits.segment_length',
            'from 1 to 16384',
        ),
        ('skills:', 'name: again\nskills:', 4, 'name', 'given twice'),
        ('  go:', '  repeat:', 8, 'skills.repeat', 'a word of the plan language'),
        ('  go:', '  if:', 8, 'skills.if', 'a word of the plan language'),
        ('  go:', '  else:', 8, 'skills.else', 'a word of the plan language'),
        ('  go:', '  hold:', 8, 'skills.hold', 'given twice'),
        ('  go:', '  Go:', 8, 'skills', "key 'Go': expected lower-case words"),
        ('  go:', '  on:', None, '', ''),  # a word like any other: keys are text
        ('  go:', '  a__b:', 8, 'skills', 'lower-case words'),
        ('  go:', '  1go:', 8, 'skills', 'lower-case words'),
        ('  go:', '  [a]:', 8, 'skills', 'lower-case words'),
        ('  go:', f'  {"a" * 65}:', 8, 'skills', 'at most 64 characters'),
        ('go there', '""', 9, 'skills.go.description', 'one line of 1 to 80'),
        ('go there', '"a\\nb"', 9, 'skills.go.description', 'one line of 1 to 80'),
        ('go there', 'x' * 81, 9, 'skills.go.description', 'one line of 1 to 80'),
        ('go there', '5', 9, 'skills.go.description', "'5': expected one line"),
        ('    description: go there\n', '', 8, 'skills.go.description', 'missing'),
        ('kind: object,', 'kind: thing,', 11, f'{GO}.target.kind', "'thing': expected one of int"),
        ('kind: object, ', '', 11, f'{GO}.target.kind', 'missing'),
        (
            'kind: object,',
            'kind: object, unit: m,',
            11,
            f'{GO}.target.unit',
            'unknown key: expected one of kind, object_kinds',
        ),
        ('[cup, box]', '[cup, cup]', 11, f'{GO}.target.object_kinds[1]', 'given twice'),
        ('[cup, box]', '[]', 11, f'{GO}.target.object_kinds', '0 values: expected 1'),
        ('[cup, box]', 'cup', 11, f'{GO}.target.object_kinds', "'cup': expected a list"),
        (
            'unit: m/s',
            'unit: furlong',
            12,
            f'{GO}.speed.unit',
            "'furlong': expected a unit, one of '', m, cm",
        ),
        (
            'minimum: 0.1',
            'minimum: 3',
            12,
            f'{GO}.speed.maximum',
            '2.5: expected at least the minimum 3',
        ),
        ('minimum: 0.1', 'minimum: .nan', 12, f'{GO}.speed.minimum', "'.nan': expected a number"),
        ('minimum: 0.1', 'minimum: .inf', 12, f'{GO}.speed.minimum', "'.inf': expected a number"),
        ('minimum: 0.1', 'minimum: 1:30', 12, f'{GO}.speed.minimum', "'1:30': expected a number"),
        ('minimum: 0.1', 'minimum: 0.0001', 12, f'{GO}.speed.minimum', 'at most 3 decimals'),
        ('minimum: 0.1', 'minimum: low', 12, f'{GO}.speed.minimum', "'low': expected a number"),
        ('minimum: 0.1', 'minimum: -1e9', 12, f'{GO}.speed.minimum', 'from -1e+06'),
        ('minimum: 0.1, ', '', 12, f'{GO}.speed.minimum', 'missing'),
        ('kind: number,', 'kind: int,', 12, f'{GO}.speed.minimum', "'0.1': expected an integer"),
        (
            'kind: choice, choices: [slow, fast]',
            'kind: string',
            13,
            f'{GO}.mode.max_length',
            'missing',
        ),
        (
            'kind: choice, choices: [slow, fast]',
            'kind: string, max_length: 201',
            13,
            f'{GO}.mode.max_length',
            'from 1 to 200',
        ),
        (
            '[slow, fast]',
            '[slow, no]',
            13,
            f'{GO}.mode.choices[1]',
            'characters (quote it to mean text)',
        ),
        (
            'model: linear',
            'model: cubic',
            14,
            'skills.go.duration.model',
            "'cubic': expected one of constant, linear, empirical",
        ),
        (
            'base_s: 1',
            'base_s: -1',
            14,
            'skills.go.duration.base_s',
            "'-1': expected a number from 0",
        ),
        (
            'per: {target',
            'per: {goal',
            14,
            'skills.go.duration.per.goal',
            "'goal': expected a number or object argument",
        ),
        (
            'per: {target',
            'per: {mode',
            14,
            'skills.go.duration.per.mode',
            'a number or object argument',
        ),
        ('variation: 0.1', 'variation: 0.6', 14, 'skills.go.duration.variation', 'from 0 to 0.5'),
        ('variation: 0.1', 'seconds: 1', 14, 'skills.go.duration.seconds', 'unknown key'),
        (
            'blocking: true',
            'blocking: yes',
            17,
            'skills.see.blocking',
            "'yes': expected true or false",
        ),
        (
            'blocking: true\n',
            'blocking: false\n',
            15,
            'skills.see',
            "blocking false with returns 'bool'",
        ),
        ('returns: bool', 'returns: none', 15, 'skills.see', "blocking true with returns 'none'"),
        (
            'returns: bool',
            'returns: int',
            18,
            'skills.see.returns',
            "'int': expected one of none, bool, text",
        ),
        ('[0.1, 0.2]', '[]', 19, SEE, '0 values'),
        ('[0.1, 0.2]', '[0.1, -2]', 19, f'{SEE}[1]', "'-2': expected a number"),
        ('[0.1, 0.2]', '&a [0.1]', 19, 'file', "anchor or alias 'a': expected plain values"),
        ('[0.1, 0.2]', '*a', 19, 'file', "anchor or alias 'a'"),
        ('[0.1, 0.2]', '!!python/object/apply:os.system [x]', 19, 'file', 'tag'),
        ('[0.1, 0.2]', '[0.1', 19, 'file', 'expected YAML'),
        ('[0.1, 0.2]', '[' * 50 + ']' * 50, 19, 'file', 'nested too deeply'),
        ('[0.1, 0.2]', '\x07', 19, 'file', 'character 0x07: expected printable text'),
        ('is it there', 'is: it there', 16, 'file', 'expected YAML'),
        ('    returns', '\treturns', 18, 'file', 'expected YAML'),
        ('  see:', '  <<: {a: b}\n  see:', 15, 'skills', "key '<<': expected lower-case words"),
    ],
)
def test_wrong_yaml_is_refused_with_file_line_key_and_expectation(
    old: str, new: str, line: int | None, key: str, problem: str
) -> None:
    assert PROBE.count(old) >= 1
    text = PROBE.replace(old, new, 1)
    if line is None:
        parse_skill_set(text)
        return
    with pytest.raises(SkillSetError) as caught:
        parse_skill_set(text, source='probe.yaml')
    error = caught.value
    assert (error.source, error.line, error.key) == ('probe.yaml', line, key), str(error)
    assert problem in error.problem
    assert str(error).startswith(f'probe.yaml:{line}: {key}: ')


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('', 'nothing: expected keys with values'),
        ('# only a comment', 'nothing'),
        ('just text', "'just text': expected keys with values"),
        ('[a]', 'a list: expected keys with values'),
        (PROBE + '---\n' + PROBE, 'expected YAML'),
        (PROBE.split('  hold:')[0] + '  {}', '0 skills: expected 1 to 256'),
        (
            PROBE.split('    arguments:')[0]
            + '    arguments: {}\n    duration: {model: constant, seconds: 1}\n',
            '0 arguments: expected 1 to 8',
        ),
    ],
)
def test_text_that_is_no_skill_set_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SkillSetError) as caught:
        parse_skill_set(text)
    assert problem in caught.value.problem


def test_files_that_cannot_be_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / 'bad.yaml'
    path.write_bytes(b'name: x\ndescription: \xff\n')
    with pytest.raises(SkillSetError, match=r'bad.yaml:2: file: byte 0xff: expected UTF-8 text'):
        load_skill_set(path)
    path.write_bytes(b'#' * (MAX_FILE_BYTES + 1))
    with pytest.raises(SkillSetError, match='longer than 262144 bytes'):
        load_skill_set(path)


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
    lines += [f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]' for n in range(1, 12)]
    with pytest.raises(SkillSetError, match="anchor or alias 'a0'"):
        parse_skill_set('\n'.join(lines))


@examples(100)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_mutated_files_load_or_are_refused_and_never_crash(
    rng: random.Random, mutations: int
) -> None:
    text = PROBE
    for _ in range(mutations):
        place = rng.randrange(len(text))
        piece = rng.choice(
            ['', ' ', '\n', ':', '- ', '{', '}', '[', ']', '&a ', '*a', '!!x ', '"', "'", '|', '%',
             '#', '9', '-', '.', '\t', '\u2028', '\x00', '\ud800', '<<', '? ', ',', 'é']
        )  # fmt: skip
        text = text[:place] + piece + text[place + rng.randrange(3) :]
    error = None
    try:
        loaded = parse_skill_set(text, source='mutated.yaml')
    except SkillSetError as err:
        error = err
    if error is None:
        assert loaded.safe_action in loaded.skills
    else:
        assert error.source == 'mutated.yaml'
        assert 1 <= error.line <= len(text.splitlines()) + 1
        assert 'expected' in error.problem
