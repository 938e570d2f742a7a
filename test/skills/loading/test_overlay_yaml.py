"""Overlays replace durations, nothing else, and are refused like skill sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.errors import SkillSetError
from timely_llm_ros.skills.durations import ConstantDuration, EmpiricalDuration, LinearDuration
from timely_llm_ros.skills.loading import find_skill_set, load_skill_set, parse_skill_set
from timely_llm_ros.skills.prompt import fixed_part

if TYPE_CHECKING:
    from pathlib import Path

OVERLAY = """\
extends: tello
evidence:
  date: '2026-01-31'
  traces: [runs/monday, runs/tuesday]
  fingerprint: '0123456789ab'
skills:
  takeoff:
    duration: {model: constant, seconds: 5.1, variation: 0.1}
  move_up:
    duration: {model: linear, base_s: 0.8, per: {distance: 3.1}, variation: 0.05}
    evidence:
      calls: 40
      outliers: 2
      measured_s: {least: 1.4, median: 3.9, greatest: 12.5}
      residuals: {q05: -0.08, q25: -0.03, q50: 0.0, q75: 0.03, q95: 0.09}
      ranges: {distance: [0.2, 3.5]}
  is_visible:
    duration: {model: empirical, samples_s: [0.3, 0.5, 2.5]}
"""
BASE = """\
name: mine
description: a robot of one's own
safe_action: halt
skills:
  halt:
    description: stop
    duration: {model: constant, seconds: 0.1}
"""


def test_an_overlay_replaces_durations_and_nothing_else() -> None:
    tello, measured = find_skill_set('tello'), parse_skill_set(OVERLAY)
    assert measured.skills['takeoff'].duration == ConstantDuration(5.1, 0.1)
    assert measured.skills['move_up'].duration == LinearDuration(0.8, {'distance': 3.1}, 0.05)
    assert measured.skills['is_visible'].duration == EmpiricalDuration((0.3, 0.5, 2.5))
    assert measured.skills['land'] == tello.skills['land']
    assert list(measured.skills) == list(tello.skills)
    # What the model was trained on stays as it was.
    assert fixed_part(measured) == fixed_part(tello)
    assert (measured.name, measured.safe_action) == (tello.name, tello.safe_action)


def test_the_fingerprint_differs_and_evidence_does_not_change_it() -> None:
    measured = parse_skill_set(OVERLAY)
    assert measured.fingerprint() != find_skill_set('tello').fingerprint()
    assert parse_skill_set(OVERLAY.replace('calls: 40', 'calls: 41')).fingerprint() == (
        measured.fingerprint()
    )


def test_a_path_is_relative_to_the_overlay(tmp_path: Path) -> None:
    (tmp_path / 'mine.yaml').write_text(BASE)
    overlay = tmp_path / 'sub' / 'measured.yaml'
    overlay.parent.mkdir()
    overlay.write_text(
        'extends: ../mine.yaml\nskills: {halt: {duration: {model: constant, seconds: 0.4}}}\n'
    )
    assert find_skill_set(str(overlay)).skills['halt'].duration == ConstantDuration(0.4)


def test_an_overlay_among_shipped_skill_sets_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = tmp_path / 'share' / 'timely_llm_ros' / 'skills'
    share.mkdir(parents=True)
    (share / 'tello_hall.yaml').write_text(OVERLAY)
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path))
    assert find_skill_set('tello_hall') == parse_skill_set(OVERLAY)


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'key', 'problem'),
    [
        ('extends: tello', 'extends: toaster', 1, 'extends', "'toaster': expected a path or one"),
        ('extends: tello', 'extends: no.yaml', 1, 'extends', 'no.yaml: file: cannot be read'),
        ('extends: tello', 'extends: [tello]', 1, 'extends', 'a list: expected one line'),
        ('extends: tello', 'extends: tello\nname: x', 2, 'name', 'expected one of extends, skills'),
        ('  takeoff:', '  fly:', 7, 'skills.fly', "'fly': expected a skill of skill set 'tello'"),
        ('seconds: 5.1', 'seconds: -1', 8, 'skills.takeoff.duration.seconds', 'from 0 to 86400'),
        ('{distance: 3.1}', '{angle: 3.1}', 10, 'skills.move_up.duration.per.angle', "'angle'"),
        ('    duration: {model: con', '    descr: {model: con', 8, 'skills.takeoff.descr', 'key'),
        ('calls: 40', 'calls: some', 12, 'skills.move_up.evidence.calls', "'some': expected an"),
        ('outliers: 2', 'outliers: 41', 13, 'skills.move_up.evidence.outliers', 'from 0 to 40'),
        ('q95: 0.09', 'q99: 1', 15, 'skills.move_up.evidence.residuals.q99', 'unknown key'),
        ('3.5]', '-3.5]', 16, 'skills.move_up.evidence.ranges.distance[1]', "'-3.5'"),
        ("'2026-01-31'", '2026-01-31', 3, 'evidence.date', 'quote it to mean text'),
        ('runs/monday', '1', 4, 'evidence.traces[0]', 'expected one line'),
        ('date:', 'robot:', 3, 'evidence.robot', 'expected one of date, traces, fingerprint'),
    ],
)
def test_what_is_wrong_with_an_overlay_is_said(
    old: str, new: str, line: int, key: str, problem: str
) -> None:
    assert old in OVERLAY
    with pytest.raises(SkillSetError) as caught:
        parse_skill_set(OVERLAY.replace(old, new, 1), source='o.yaml')
    assert (caught.value.source, caught.value.line, caught.value.key) == ('o.yaml', line, key)
    assert problem in caught.value.problem


def test_no_skills_are_refused() -> None:
    with pytest.raises(SkillSetError, match=r'o\.yaml:2: skills: 0 skills: expected 1 to 256'):
        parse_skill_set('extends: tello\nskills: {}\n', source='o.yaml')


def test_an_overlay_of_an_overlay_is_refused(tmp_path: Path) -> None:
    # Also what extends itself, so that no circle can be made.
    path = tmp_path / 'self.yaml'
    path.write_text('extends: ./self.yaml\nskills: {takeoff: {}}\n')
    with pytest.raises(SkillSetError, match='is an overlay itself: expected a whole skill set'):
        load_skill_set(path)


def test_a_wrong_skill_set_below_is_named_itself(tmp_path: Path) -> None:
    (tmp_path / 'mine.yaml').write_text(BASE.replace('seconds', 'second'))
    path = tmp_path / 'over.yaml'
    path.write_text('extends: ./mine.yaml\nskills: {halt: {}}\n')
    with pytest.raises(SkillSetError, match=r'mine\.yaml:7: skills\.halt\.duration\.second'):
        load_skill_set(path)
