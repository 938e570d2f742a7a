from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support.skills.plan_texts import ARM, LAB, SKILL_SETS, TELLO
from support.skills.probe_skill_set import PROBE

from timely_llm_ros.errors import ConfigurationError, SkillSetError
from timely_llm_ros.skills.durations import EmpiricalDuration, LinearDuration
from timely_llm_ros.skills.loading import (
    find_skill_set,
    load_skill_set,
    parse_skill_set,
    shipped_skill_files,
)
from timely_llm_ros.skills.prompt import fixed_part
from timely_llm_ros.skills.skill_types import UNITS

if TYPE_CHECKING:
    from timely_llm_ros.skills import SkillSet

ROOT = Path(__file__).resolve().parents[3]


def test_the_drone_has_the_limits_of_the_tello_sdk() -> None:
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


def test_the_arm_stays_within_its_reach() -> None:
    for argument in ARM.skills['move_to'].arguments:
        assert abs(argument.si(argument.minimum)) <= 0.8
        assert abs(argument.si(argument.maximum)) <= 0.8
    assert ARM.safe_action == 'stop'
    assert set(ARM.skills) == {
        'pick', 'place', 'push', 'move_to', 'open_gripper', 'close_gripper', 'look_at', 'wipe',
        'sort_into', 'home', 'stop',
    }  # fmt: skip


@pytest.mark.parametrize('skill_set', [TELLO, ARM], ids=lambda s: s.name)
def test_descriptions_are_a_few_plain_words_for_a_small_model(skill_set: SkillSet) -> None:
    for skill in skill_set.skills.values():
        words = skill.description.split(' ')
        assert 2 <= len(words) <= 5
        assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
        assert f'{skill.name}' in fixed_part(skill_set)


def test_every_key_is_read() -> None:
    probe = parse_skill_set(PROBE)
    assert probe.max_repeat == 10
    target, speed, mode = probe.skills['go'].arguments
    assert target.object_kinds == ('cup', 'box')
    assert (speed.minimum, speed.maximum, speed.unit) == (0.1, 2.5, 'm/s')
    assert mode.choices == ('slow', 'fast')
    assert probe.skills['go'].duration == LinearDuration(1.0, {'target': 2.0}, 0.1)
    assert probe.skills['see'].duration == EmpiricalDuration((0.1, 0.2))
    assert probe.skills['see'].returns == 'bool'


@pytest.mark.parametrize('skill_set', SKILL_SETS, ids=lambda s: s.name)
def test_a_skill_set_travels_between_processes(skill_set: SkillSet) -> None:
    copy = pickle.loads(pickle.dumps(skill_set))
    assert copy == skill_set
    assert hash(copy) == hash(skill_set)
    assert copy.fingerprint() == skill_set.fingerprint()


def test_the_fingerprint_is_the_same_on_every_run_and_differs_with_the_content() -> None:
    code = (
        'from timely_llm_ros.skills.loading import find_skill_set;'
        'print(find_skill_set("tello").fingerprint())'
    )
    other = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == TELLO.fingerprint()
    prints = {parse_skill_set(PROBE).fingerprint()}
    for old, new in [
        ('probe', 'prober'),
        ('2.5', '2.6'),
        ('seconds: 1.0', 'seconds: 1.1'),
        ('[slow, fast]', '[fast, slow]'),
        ('is it there', 'is it here'),
        ('base_s: 1,', 'base_s: 2,'),
    ]:
        assert old in PROBE
        prints.add(parse_skill_set(PROBE.replace(old, new)).fingerprint())
    assert len(prints) == 7


def test_comments_do_not_change_the_fingerprint() -> None:
    same = parse_skill_set('# a comment\n' + PROBE.replace('1.0}', '1.0 }'))
    assert same.fingerprint() == parse_skill_set(PROBE).fingerprint()


def test_a_skill_set_is_found_by_name_and_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_skill_set('arm') == ARM == find_skill_set(str(ROOT / 'skills' / 'arm.yaml'))
    with pytest.raises(ConfigurationError, match=r"'toaster': expected a path or one of arm, "):
        find_skill_set('toaster')
    with pytest.raises(SkillSetError, match=r'no_such.yaml: file: cannot be read'):
        find_skill_set('no_such.yaml')
    with pytest.raises(SkillSetError, match='cannot be read: Is a directory'):
        load_skill_set(tmp_path)
    share = tmp_path / 'share' / 'timely_llm_ros' / 'skills'
    share.mkdir(parents=True)
    (share / 'probe.yaml').write_text(PROBE)
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/nowhere:{tmp_path}')
    assert shipped_skill_files()['probe'] == share / 'probe.yaml'
    assert find_skill_set('probe').name == 'probe'


def test_loading_means_what_plain_yaml_says() -> None:
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


def test_units_convert_exactly() -> None:
    (angle,) = TELLO.skills['turn_cw'].arguments
    assert angle.si(360) == pytest.approx(6.283185307179586)
    (distance,) = TELLO.skills['move_up'].arguments
    assert [distance.si(number) for number in (29, 57, 58, 113)] == [0.29, 0.57, 0.58, 1.13]
    assert all(len(pair) == 2 and pair[1] > 0 for pair in UNITS.values())
    assert LAB.skills['tilt'].arguments[1].si(3) == 3
