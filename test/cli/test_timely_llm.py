"""The command line ``timely-llm``, as far as it needs no ROS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.command_reference import commands, undocumented

from timely_llm_ros.cli import plan_command
from timely_llm_ros.cli.main import build_parser, main
from timely_llm_ros.cli.plan_command import read_scene, task_of
from timely_llm_ros.errors import ConfigurationError, InvalidTaskError, TimelyError

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = tuple(commands(build_parser()))


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(arguments)


@pytest.mark.parametrize('command', [(), *((name,) for name in COMMANDS), ('skills', 'check')])
def test_help_is_there(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match='0'):
        main([*command, '--help'])
    text = capsys.readouterr().out
    assert text.startswith('usage: timely-llm')
    if len(command) < 2:
        assert f'examples:\n  timely-llm {" ".join(command)}'.rstrip() in text


def test_only_the_command_that_runs_is_loaded() -> None:
    code = 'import sys\nfrom timely_llm_ros.cli.main import build_parser\nbuild_parser("skills")\n'
    done = subprocess.run(
        [sys.executable, '-c', f'{code}print(*sys.modules)'],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    loaded = {name.rpartition('.')[2] for name in done.stdout.split()}
    assert {name for name in loaded if name.endswith(('_command', '_commands'))} == {
        'skills_command'
    }


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match='0'):
        main(['--version'])
    assert capsys.readouterr().out.startswith('timely-llm ')


def test_ctrl_c_while_a_command_is_loaded_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr('timely_llm_ros.cli.main.import_module', interrupted)
    assert main(['skills']) == 130


def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ('rich', 'rich.console'):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(['skills']) == 1
    assert capsys.readouterr().err == (
        'error: the Python package rich is not installed: expected it '
        "(pip install 'timely_llm_ros[terminal]')\n"
    )


@pytest.mark.parametrize(
    'command',
    [
        ['plan', 'drone_1', 'hi'],
        ['halt'],
        ['window'],
        ['fleet', str(ROOT / 'config' / 'fleet_file.yaml')],
    ],
)
def test_without_ros_what_speaks_it_is_refused_in_a_line(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, 'timely_llm_ros.msg', None)
    monkeypatch.setitem(sys.modules, 'rclpy', None)
    assert main(command) == 1
    told = capsys.readouterr().err
    assert told.startswith('error: the Python package rclpy is not installed: expected ROS 2')
    assert told.count('\n') == 1


_INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name.startswith('timely_llm_ros.'):
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
runpy.run_path(sys.argv[1], run_name='__main__')
"""


@pytest.mark.parametrize('name', ['timely-llm', 'planner', 'executor', 'window'])
def test_ctrl_c_while_a_program_is_loaded_prints_no_traceback(name: str) -> None:
    done = subprocess.run(
        [sys.executable, '-c', _INTERRUPTED_IMPORT, str(ROOT / 'scripts' / name)],
        capture_output=True,
        text=True,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, '')


def test_no_command_is_an_error() -> None:
    with pytest.raises(SystemExit, match='2'):
        main([])


def test_every_command_and_option_is_in_the_reference() -> None:
    assert undocumented(build_parser()) == []


@pytest.mark.parametrize(
    'command',
    [('halt',), ('window',), ('approve', 'list'), ('plan', 'drone_1', 'land')],
)
@pytest.mark.parametrize('name', ['bad name', '/a//b', '/1st', '/a/', '/a:=b'])
def test_a_namespace_that_ros_does_not_have_is_refused(
    command: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match='2'):
        main([*command, '--namespace', name])
    assert f'--namespace: {name!r}: expected a ROS namespace' in capsys.readouterr().err


@pytest.mark.parametrize('name', ['', '/', 'fleet', '/site_a/fleet_2'])
def test_a_namespace_may_begin_with_a_slash(name: str) -> None:
    assert parsed('halt', '--namespace', name).namespace == name


# skills


def test_skills_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['skills']) == 0
    text = capsys.readouterr().out
    for part in ('tello', 'move_forward', '20 to 500 cm', 'arm', 'sort_into', 'an object'):
        assert part in text, part


def test_one_skill_set_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['skills', 'list', 'arm']) == 0
    text = capsys.readouterr().out
    assert 'gripper' in text
    assert 'takeoff' not in text
    assert 'at most 256 calls and 1800 s in a segment' in ' '.join(text.split())


def test_an_unknown_skill_set_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['skills', 'list', 'submarine']) == 1
    assert 'submarine' in capsys.readouterr().err


def test_skill_set_files_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['skills', 'check', str(ROOT / 'skills' / 'tello.yaml')]) == 0
    assert 'fingerprint' in capsys.readouterr().out
    bad = tmp_path / 'bad.yaml'
    bad.write_text((ROOT / 'skills' / 'tello.yaml').read_text().replace('cm', 'furlong', 1))
    bad.write_text('name: x\nskills: 7\n')
    assert main(['skills', 'check', str(bad), str(ROOT / 'skills' / 'arm.yaml')]) == 1
    captured = capsys.readouterr()
    assert str(bad) in captured.err
    assert 'arm.yaml' in captured.out


# plan


def test_a_task_of_options(tmp_path: Path) -> None:
    scene = tmp_path / 'scene.yaml'
    scene.write_text('- {name: cat_3, kind: cat, attribute: black, x_m: 2.0}\n')
    options = parsed(
        'plan', 'drone_1', 'look for the cat', '--scene', str(scene), '--deadline', '0.5',
        '--budget', '3', '--queue', '--kind', 'look_for',
    )  # fmt: skip
    task = task_of(options)
    assert task['robot'] == 'drone_1'
    assert task['scene'][0]['name'] == 'cat_3'
    assert task['utility'] == {'expected_response_s': 0.5, 'slope_per_s': -2.0, 'peak': 1.0}
    assert (task['time_budget_s'], task['when_busy'], task['task_kind']) == (
        3.0,
        'queue',
        'look_for',
    )


def test_urgent_takes_the_utility_of_urgent_tasks() -> None:
    task = task_of(parsed('plan', 'drone_1', 'flee', '--urgent'))
    assert task['utility']['peak'] == 2.0


def test_a_task_can_be_drawn() -> None:
    options = ('plan', 'arm_1', '--sample', 'sort', '--objects', '12')
    first, again = task_of(parsed(*options)), task_of(parsed(*options))
    assert first == again
    assert len(first['scene']) == 12
    assert first['task_kind'] == 'sort'


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('plan', 'drone_1'), 'either an instruction or --sample'),
        (('plan', 'drone_1', 'x', '--sample', 'sort'), 'either an instruction or --sample'),
        (('plan', 'drone_1', '--sample', 'dance'), 'dance'),
        (('plan', 'drone_1', '--sample', 'sort', '--objects', '1'), '--objects 1'),
        (('plan', 'drone_1', 'x', '--slope', '2'), 'slope 2.0'),
        (('plan', 'drone_1', 'x', '--budget', '0'), '--budget 0'),
        (('plan', 'drone_1', '--sample', 'sort', '--objects', '1000000000'), 'to 1000 for'),
        (('plan', 'drone_1', 'x', '--scene', '/no/such/file'), '/no/such/file'),
        (('demo', '--robots', '0'), '0 robots'),
        (('demo', '--tasks', '0'), '0 tasks'),
        (('demo', '--pace', '-1'), '--pace -1.0'),
        (('demo', '--batch', '0'), '--batch 0'),
        (('demo', '--seed', '-1'), '--seed -1'),
    ],
)
def test_wrong_options_are_named(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize('option', ['--wait', '--budget'])
@pytest.mark.parametrize('value', ['-1', 'nan', 'inf', 'soon'])
def test_durations_are_numbers_of_seconds(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wait of nan seconds would never end."""
    with pytest.raises(SystemExit, match='2'):
        main(['plan', 'drone_1', 'x', f'{option}={value}'])
    assert f'{value!r}: expected a number of seconds, 0 or more' in capsys.readouterr().err


def test_a_client_that_ends_early_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its broken pipe is not that of a reader of our output, such as `head`."""
    code = """import os; os.close(0); print('{"event": "ready"}')"""
    monkeypatch.setattr('timely_llm_ros.cli.client_process.PROGRAM', ('-c', code))
    before = signal.getsignal(signal.SIGINT)
    try:
        assert main(['plan', 'drone_1', 'x']) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert 'the ROS client ended' in capsys.readouterr().err


def test_an_output_folder_that_exists_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'logs').mkdir()
    assert main(['demo', '--output', str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_scene_files(tmp_path: Path) -> None:
    path = tmp_path / 'scene.json'
    path.write_text(json.dumps({'objects': [{'name': 'cup_1', 'kind': 'cup'}]}))
    assert read_scene(path).names == ('cup_1',)
    for text, said in (('- 5\n', 'object 1: 5: expected keys'), ('a: [1, 2', 'cannot be read')):
        path.write_text(text)
        with pytest.raises(TimelyError, match=said) as caught:
            read_scene(path)
        assert '\n' not in str(caught.value)
    path.write_text('just words')
    with pytest.raises(ConfigurationError, match='expected a list'):
        read_scene(path)
    path.write_text('[{name: cup_1, colour: red}]')
    with pytest.raises(InvalidTaskError, match='object 1'):
        read_scene(path)
    path.write_text('[3]')
    with pytest.raises(InvalidTaskError, match='object 1'):
        read_scene(path)
    path.write_text('[{name: "Not a name", kind: cup}]')
    with pytest.raises(InvalidTaskError, match='Not a name'):
        read_scene(path)
    path.write_text('[: }')
    with pytest.raises(ConfigurationError, match='cannot be read'):
        read_scene(path)


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('- {name: cat_1}', "object 1: expected the key 'kind'"),
        ('- {nam: cat_1, kind: cat}', "object 1: key 'nam': expected one of name, kind"),
        ('- {name: cat_1, kind: cat, x_m: far}', "object 1: x_m 'far': expected a number"),
        ('- {name: 3, kind: cat}', 'object 1: name 3: expected text'),
    ],
)
def test_a_scene_file_is_refused_in_words(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / 'scene.yaml').write_text(text)
    with pytest.raises(InvalidTaskError, match=problem):
        read_scene(tmp_path / 'scene.yaml')


def test_how_a_task_failed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    names = (*plan_command._RESULT, *plan_command._BUDGETED)
    event = dict.fromkeys(names, 0) | {'error_code': 7, 'error_name': 'robot_unavailable'}
    plan_command._Narrator(quiet=False).result(event)
    assert 'robot_unavailable' in capsys.readouterr().out
