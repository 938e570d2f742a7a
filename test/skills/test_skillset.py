from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_texts import ARM, LAB, SKILL_SETS, TELLO

from timely_llm_ros.errors import ConfigurationError, SkillSetError
from timely_llm_ros.skills.durations import EmpiricalDuration, LinearDuration
from timely_llm_ros.skills.prompt import fixed_part
from timely_llm_ros.skills.skillset import (
    MAX_FILE_BYTES,
    UNITS,
    SkillSet,
    find_skill_set,
    skill_set_folders,
)

if TYPE_CHECKING:
    import random

GO = 'skills.go.arguments'
SEE = 'skills.see.duration.samples_s'
ROOT = Path(__file__).resolve().parents[2]
MINIMAL = """\
name: probe
description: a probe
safe_action: hold
skills:
  hold:
    description: hold still
    duration: {model: constant, seconds: 1.0}
  go:
    description: go there
    arguments:
      target: {kind: object, object_kinds: [cup, box]}
      speed: {kind: number, unit: m/s, minimum: 0.1, maximum: 2.5}
      mode: {kind: choice, choices: [slow, fast]}
    duration: {model: linear, base_s: 1, per: {target: 2.0}, variation: 0.1}
  see:
    description: is it there
    blocking: true
    returns: bool
    duration: {model: empirical, samples_s: [0.1, 0.2]}
"""


def test_the_drone_has_the_limits_of_the_tello_sdk():
    for way in ('forward', 'backward', 'left', 'right', 'up', 'down'):
        (distance,) = TELLO.skills[f'move_{way}'].arguments
        assert (distance.kind, distance.unit) == ('int', 'cm')
        assert (distance.minimum, distance.maximum) == (20, 500)
    for turn in ('turn_cw', 'turn_ccw'):
        (angle,) = TELLO.skills[turn].arguments
        assert (angle.kind, angle.unit, angle.minimum, angle.maximum) == ('int', 'deg', 1, 360)
    assert TELLO.safe_action == 'hover'
    assert {'takeoff', 'land', 'scan', 'goto', 'take_picture', 'delay', 'hover', 'log'} <= set(
        TELLO.skills
    )
    assert (TELLO.skills['is_visible'].blocking, TELLO.skills['is_visible'].returns) == (
        True,
        'bool',
    )


def test_the_arm_stays_within_its_reach():
    for argument in ARM.skills['move_to'].arguments:
        assert abs(argument.si(argument.minimum)) <= 0.8
        assert abs(argument.si(argument.maximum)) <= 0.8
    assert ARM.safe_action == 'stop'
    assert set(ARM.skills) == {
        'pick', 'place', 'push', 'move_to', 'open_gripper', 'close_gripper', 'look_at', 'wipe',
        'sort_into', 'home', 'stop',
    }  # fmt: skip


@pytest.mark.parametrize('skill_set', [TELLO, ARM], ids=lambda s: s.name)
def test_descriptions_are_a_few_plain_words_for_a_small_model(skill_set):
    for skill in skill_set.skills.values():
        words = skill.description.split(' ')
        assert 2 <= len(words) <= 5
        assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
        assert f'{skill.name}' in fixed_part(skill_set)


def test_every_key_is_read():
    probe = SkillSet.loads(MINIMAL)
    assert probe.max_repeat == 10
    target, speed, mode = probe.skills['go'].arguments
    assert target.object_kinds == ('cup', 'box')
    assert (speed.minimum, speed.maximum, speed.unit) == (0.1, 2.5, 'm/s')
    assert mode.choices == ('slow', 'fast')
    assert probe.skills['go'].duration == LinearDuration(1.0, {'target': 2.0}, 0.1)
    assert probe.skills['see'].duration == EmpiricalDuration((0.1, 0.2))
    assert probe.skills['see'].returns == 'bool'


@pytest.mark.parametrize('skill_set', SKILL_SETS, ids=lambda s: s.name)
def test_a_skill_set_travels_between_processes(skill_set):
    copy = pickle.loads(pickle.dumps(skill_set))
    assert copy == skill_set
    assert hash(copy) == hash(skill_set)
    assert copy.fingerprint() == skill_set.fingerprint()


def test_the_fingerprint_is_the_same_on_every_run_and_differs_with_the_content():
    code = (
        'from timely_llm_ros.skills.skillset import find_skill_set;'
        'print(find_skill_set("tello").fingerprint())'
    )
    other = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == TELLO.fingerprint()
    prints = {SkillSet.loads(MINIMAL).fingerprint()}
    for old, new in [
        ('probe', 'prober'),
        ('2.5', '2.6'),
        ('seconds: 1.0', 'seconds: 1.1'),
        ('[slow, fast]', '[fast, slow]'),
        ('is it there', 'is it here'),
        ('base_s: 1,', 'base_s: 2,'),
    ]:
        assert old in MINIMAL
        prints.add(SkillSet.loads(MINIMAL.replace(old, new)).fingerprint())
    assert len(prints) == 7


def test_comments_do_not_change_the_fingerprint():
    same = SkillSet.loads('# a comment\n' + MINIMAL.replace('1.0}', '1.0 }'))
    assert same.fingerprint() == SkillSet.loads(MINIMAL).fingerprint()


def test_a_skill_set_is_found_by_name_and_by_path(tmp_path, monkeypatch):
    assert find_skill_set('arm') == ARM == find_skill_set(str(ROOT / 'skills' / 'arm.yaml'))
    with pytest.raises(ConfigurationError, match=r"'toaster': expected a path or one of arm, "):
        find_skill_set('toaster')
    with pytest.raises(SkillSetError, match=r'no_such.yaml:0: file: cannot be read'):
        find_skill_set('no_such.yaml')
    with pytest.raises(SkillSetError, match='cannot be read: Is a directory'):
        SkillSet.load(tmp_path)
    share = tmp_path / 'share' / 'timely_llm_ros' / 'skills'
    share.mkdir(parents=True)
    (share / 'probe.yaml').write_text(MINIMAL)
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/nowhere:{tmp_path}')
    assert share in skill_set_folders()
    assert find_skill_set('probe').name == 'probe'


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
def test_wrong_yaml_is_refused_with_file_line_key_and_expectation(old, new, line, key, problem):
    assert MINIMAL.count(old) >= 1
    text = MINIMAL.replace(old, new, 1)
    if line is None:
        SkillSet.loads(text)
        return
    with pytest.raises(SkillSetError) as caught:
        SkillSet.loads(text, source='probe.yaml')
    error = caught.value
    assert (error.source, error.line, error.key) == ('probe.yaml', line, key), str(error)
    assert problem in error.problem
    assert str(error).startswith(f'probe.yaml:{line}: {key}: ')


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('', 'nothing: expected a skill set'),
        ('# only a comment', 'nothing'),
        ('just text', "'just text': expected keys with values"),
        ('[a]', 'a list: expected keys with values'),
        (MINIMAL + '---\n' + MINIMAL, 'expected YAML'),
        (MINIMAL.split('  hold:')[0] + '  {}', '0 skills: expected 1 to 256'),
        (
            MINIMAL.split('    arguments:')[0]
            + '    arguments: {}\n    duration: {model: constant, seconds: 1}\n',
            '0 arguments: expected 1 to 8',
        ),
    ],
)
def test_text_that_is_no_skill_set_is_refused(text, problem):
    with pytest.raises(SkillSetError) as caught:
        SkillSet.loads(text)
    assert problem in caught.value.problem


def test_files_that_cannot_be_text_are_refused(tmp_path):
    path = tmp_path / 'bad.yaml'
    path.write_bytes(b'name: x\ndescription: \xff\n')
    with pytest.raises(SkillSetError, match=r'bad.yaml:2: file: byte 0xff: expected UTF-8 text'):
        SkillSet.load(path)
    path.write_bytes(b'#' * (MAX_FILE_BYTES + 1))
    with pytest.raises(SkillSetError, match='longer than 262144 bytes'):
        SkillSet.load(path)


def test_an_alias_bomb_is_refused_before_it_grows():
    lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
    lines += [f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]' for n in range(1, 12)]
    with pytest.raises(SkillSetError, match="anchor or alias 'a0'"):
        SkillSet.loads('\n'.join(lines))


@settings(max_examples=300)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_mutated_files_load_or_are_refused_and_never_crash(rng: random.Random, mutations):
    text = MINIMAL
    for _ in range(mutations):
        place = rng.randrange(len(text))
        piece = rng.choice(
            ['', ' ', '\n', ':', '- ', '{', '}', '[', ']', '&a ', '*a', '!!x ', '"', "'", '|', '%',
             '#', '9', '-', '.', '\t', '\u2028', '\x00', '\ud800', '<<', '? ', ',', 'é']
        )  # fmt: skip
        text = text[:place] + piece + text[place + rng.randrange(3) :]
    error = None
    try:
        loaded = SkillSet.loads(text, source='mutated.yaml')
    except SkillSetError as err:
        error = err
    if error is None:
        assert loaded.safe_action in loaded.skills
    else:
        assert error.source == 'mutated.yaml'
        assert 1 <= error.line <= len(text.splitlines()) + 1
        assert 'expected' in error.problem


def test_loading_means_what_plain_yaml_says():
    for name in ('tello', 'arm'):
        raw = yaml.safe_load((ROOT / 'skills' / f'{name}.yaml').read_text())
        loaded = find_skill_set(name)
        assert list(loaded.skills) == list(raw['skills'])
        for skill, keys in raw['skills'].items():
            assert loaded.skills[skill].description == keys['description']
            arguments = keys.get('arguments', {})
            assert [a.name for a in loaded.skills[skill].arguments] == list(arguments)
            for argument in loaded.skills[skill].arguments:
                for key, value in arguments[argument.name].items():
                    assert getattr(argument, key) == value


def test_units_convert_exactly():
    (angle,) = TELLO.skills['turn_cw'].arguments
    assert angle.si(360) == pytest.approx(6.283185307179586)
    (distance,) = TELLO.skills['move_up'].arguments
    assert [distance.si(number) for number in (29, 57, 58, 113)] == [0.29, 0.57, 0.58, 1.13]
    assert all(len(pair) == 2 and pair[1] > 0 for pair in UNITS.values())
    assert LAB.skills['tilt'].arguments[1].si(3) == 3
