"""``timely-llm profile-robot``: from traces to an overlay that loads, and what it says."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.traces.recorded_calls import Executed, write_calls

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace.call_samples import measured_calls
from lrtrace.executed_segments import ExecutedSegment
from lrtrace.storage.reader import Trace
from lrtrace.storage.writer import TraceWriter
from timely_llm_ros.calibration.overlay_file import overlay_text
from timely_llm_ros.calibration.profile_table import profile_table
from timely_llm_ros.calibration.skill_fit import fit_skill
from timely_llm_ros.calibration.skill_profile import SkillProfile, profile_skills
from timely_llm_ros.cli.main import main
from timely_llm_ros.skills.durations import EmpiricalDuration, LinearDuration
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set, load_skill_set, parse_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.skills.statements import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.skills.skill_types import SkillSet

ROOT = Path(__file__).resolve().parents[2]
TELLO = find_skill_set('tello')


def flights(seed: int, count: int = 30) -> list[Executed]:
    """Return segments of a drone that climbs slower than its skill set says, and searches."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        distance = rng.randint(20, 500)
        up_s = (1.6 + 0.031 * distance) * rng.gauss(1, 0.01)
        search_s = rng.choice((1.0, 6.0, 14.0)) * rng.gauss(1, 0.05)
        found.append(
            Executed(
                f'move_up({distance});scan;', [(f'move_up({distance})', up_s), ('scan', search_s)]
            )
        )
    found.append(Executed('land;', [('land', 3.3)]))
    return found


@pytest.fixture(scope='module')
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp('runs')
    return [str(write_calls(folder / f'run_{seed}', flights(seed, 15))) for seed in (1, 2)]


def expected_s(skill_set: SkillSet, text: str) -> float:
    (call,) = parse(text, skill_set, Scene())
    assert isinstance(call, Call)
    return skill_set.skills[call.skill].duration.expected_s(call, Scene())


def test_an_overlay_is_written_and_loads(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / 'measured.yaml'
    assert main(['profile-robot', *traces, '--output', str(output)]) == 0
    printed = capsys.readouterr().out
    measured = find_skill_set(str(output))
    assert measured.fingerprint() != TELLO.fingerprint()
    for distance in (50, 200, 500):
        truth_s = 1.6 + 0.031 * distance
        assert expected_s(measured, f'move_up({distance});') == pytest.approx(truth_s, rel=0.02)
    assert isinstance(measured.skills['scan'].duration, EmpiricalDuration)
    assert measured.skills['land'] == TELLO.skills['land']
    for part in (
        'skill set tello: 62 calls measured in 2 traces',
        '1 s + 2.5 s/m distance, ±10 %',
        '30 times, ',
        'land: 2 calls: expected at least 10',
        'no call measured',
        'robots are made up',
        str(output),
    ):
        assert part in printed, part
    text = output.read_text()
    assert f'traces: [{traces[0]}' in text
    assert f'fingerprint: {TELLO.fingerprint()}' in text
    assert 'calls: 30' in text
    assert 'q95:' in text


def test_the_order_of_traces_does_not_matter_and_the_overlay_is_what_was_fitted(
    traces: list[str], tmp_path: Path
) -> None:
    texts = []
    for named in (traces, traces[::-1]):
        output = tmp_path / 'o.yaml'
        assert main(['profile-robot', *named, '-o', str(output), '--force']) == 0
        texts.append(output.read_text().split('skills:', 1)[1])
    assert texts[0] == texts[1]
    profile = profile_skills([Trace(path) for path in traces])
    overlay = load_skill_set(output)
    for name, fit in profile.fits.items():
        assert overlay.skills[name].duration == fit.model
    assert set(profile.fits) == {'move_up', 'scan'}
    assert set(profile.left_alone) == set(TELLO.skills) - {'move_up', 'scan'}


@examples(30)
@given(
    calls=st.lists(
        st.tuples(
            st.integers(20, 500), st.just(0.0) | st.floats(1e-6, 50.0), st.floats(1e-6, 80_000.0)
        ),
        min_size=10,
        max_size=15,
    ),
    factor=st.sampled_from([0.0, 1.0, 1e-3]),
)
def test_whatever_was_measured_what_is_fitted_survives_its_file(
    calls: list[tuple[int, float, float]], factor: float
) -> None:
    segments = []
    for distance, x_m, seconds in calls:
        # Of no, of much and of little noise.
        up_s, goto_s = (seconds * factor + exact for exact in (0.02 * distance, 2 * x_m + 1e-3))
        scene = Scene((SceneObject('cup_1', 'cup', x_m=x_m),))
        for text, time_s in ((f'move_up({distance});', up_s), ('goto(cup_1);', goto_s)):
            segments.append(ExecutedSegment('tello', text, scene, execution_s=time_s))
        segments.append(ExecutedSegment('tello', 'scan;', execution_s=seconds))
    found = measured_calls(segments, TELLO)
    results = {name: fit_skill(TELLO.skills[name], found.samples[name]) for name in found.samples}
    profile = SkillProfile(TELLO, ('runs/monday',), found.count, results, {})
    if not profile.fits:
        return
    text = overlay_text(profile, extends='tello', output='o.yaml', date=date(2026, 1, 31))
    overlay = parse_skill_set(text)
    for name, skill in TELLO.skills.items():
        fit = profile.fits.get(name)
        assert overlay.skills[name].duration == (fit.model if fit else skill.duration)
    assert "date: '2026-01-31'" in text
    assert profile_table(profile)


def test_a_skill_set_of_ones_own_is_extended_by_its_path(
    traces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / 'mine.yaml').write_text((ROOT / 'skills/tello.yaml').read_text())
    (tmp_path / 'out').mkdir()
    monkeypatch.chdir(tmp_path)
    arguments = ['--skill-set', 'mine.yaml', '--skill', 'move_up', '-o', 'out/measured.yaml']
    assert main(['profile-robot', *traces, *arguments]) == 0
    assert 'extends: ../mine.yaml' in Path('out/measured.yaml').read_text()
    measured = find_skill_set('out/measured.yaml')
    assert isinstance(measured.skills['move_up'].duration, LinearDuration)
    # Asked for one skill: the other stays.
    assert measured.skills['scan'] == TELLO.skills['scan']
    assert main(['profile-robot', *traces, '--skill-set', './mine.yaml']) == 0
    assert 'extends: mine.yaml' in Path('tello_measured.yaml').read_text()


def test_nothing_is_overwritten_without_being_told(
    traces: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / 'kept.yaml'
    output.write_text('mine')
    assert main(['profile-robot', *traces, '-o', str(output)]) == 1
    assert "kept.yaml': exists: expected a new file, or --force" in capsys.readouterr().err
    assert output.read_text() == 'mine'
    assert main(['profile-robot', *traces, '-o', str(output), '--force']) == 0
    assert output.read_text().startswith('# Durations of the skill set tello')
    assert [path.name for path in tmp_path.iterdir()] == ['kept.yaml']
    assert main(['profile-robot', *traces, '-o', str(tmp_path), '--force']) == 1
    assert 'is a folder: expected a file' in capsys.readouterr().err
    assert main(['profile-robot', *traces, '-o', str(tmp_path / 'no' / 'o.yaml')]) == 1
    assert 'cannot be written: No such file or directory' in capsys.readouterr().err


def _foreign(folder: Path) -> Path:
    writer = TraceWriter(folder)
    writer.add_topic('/chatter', 'std_msgs/msg/String')
    writer.close()
    return folder


@pytest.mark.parametrize(
    ('options', 'says'),
    [
        (['{tmp}/nothing'], "nothing': expected a rosbag2 folder or an MCAP file"),
        (['{tmp}/foreign'], "foreign': nothing that a fleet did: expected messages of"),
        (['{tmp}/text.mcap'], 'expected an MCAP file'),
        (['{run}', '{run}'], 'given twice: expected each once'),
        (['{run}', '--skill', 'fly'], "skill 'fly': expected one of skill set 'tello': takeoff,"),
        (['{run}', '--skill-set', 'arm'], 'that the traces have executed segments of: tello'),
        (['{run}', '--skill-set', 'toaster'], "'toaster': expected a path or one of"),
        (['{run}', '--skill-set', '{tmp}/over.yaml'], 'an overlay: expected the one that it ext'),
        (['{run}', '{mixed}'], 'the skill sets arm, tello: expected one, or to be told which'),
        (['{run}', '--min-calls', '4'], '--min-calls 4: expected 5 or more'),
        (['{run}', '--min-calls', '99'], 'no skill was fitted: expected 99 measured calls of one'),
    ],
)
def test_what_cannot_be_profiled_is_an_error(
    traces: list[str],
    options: Sequence[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    _foreign(tmp_path / 'foreign')
    (tmp_path / 'text.mcap').write_text('no trace at all')
    (tmp_path / 'over.yaml').write_text('extends: tello\nskills: {}\n')
    if '{mixed}' in options:
        write_calls(tmp_path / 'mixed', [Executed('home;', [('home', 2.0)], skill_set='arm')])
    places = {'tmp': str(tmp_path), 'run': traces[0], 'mixed': str(tmp_path / 'mixed')}
    assert main(['profile-robot', *(option.format(**places) for option in options)]) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: ')
    assert says in error
    assert not (tmp_path / 'tello_measured.yaml').exists()


def test_a_killed_trace_is_used_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / 'a', close=False).flush()
    assert main(['profile-robot', str(tmp_path / 'a'), '--skill-set', 'tello']) == 1
    assert 'its recorder was killed' in capsys.readouterr().err
