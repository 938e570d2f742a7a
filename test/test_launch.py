"""The launch files, run with stand-ins for the launch packages, which pip does not have."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.code_blocks import PAGES, commands

import timely_llm_ros
from lrtrace.playback.replay_node import ReplayParameters
from lrtrace.record.recorder_parameters import RecorderParameters
from timely_llm_ros.drivers import DRIVERS, create_driver
from timely_llm_ros.nodes.executor.driver_choice import read_drivers_file
from timely_llm_ros.nodes.tools.parameters_page import NODES
from timely_llm_ros.ros.parameters import check, declarations
from timely_llm_ros.ros.robot_entry import robot_entries
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / 'launch').glob('*.launch.py'))
SHARED = ROOT / 'timely_llm_ros' / 'launching.py'
PARAMETERS = {**NODES, 'recorder': RecorderParameters, 'replay': ReplayParameters}
NAV2_NAMES = {'namespace', 'use_sim_time', 'use_respawn', 'log_level'}
REQUIRED = {'robot': 'drone_7', 'trace': 'runs/monday'}
"""Values for arguments without a default."""


class Entity:
    """Stands in for any class of launch: keeps what it was made from."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments, self.options = arguments, options


class LaunchConfiguration(Entity):
    def perform(self, context: Context) -> str:
        context.read.add(self.arguments[0])
        return context.values[self.arguments[0]]


class FindPackageShare(Entity):
    def perform(self, context: Context) -> str:
        assert self.arguments == ('timely_llm_ros',)
        return str(ROOT)


class PathJoinSubstitution(Entity):
    def perform(self, context: Context) -> str:
        return '/'.join(performed(part, context) for part in self.arguments[0])


class ParameterValue(Entity):
    pass


class Node(Entity):
    pass


class DeclareLaunchArgument(Entity):
    pass


class OpaqueFunction(Entity):
    pass


class Shutdown(Entity):
    pass


class UnlessCondition(Entity):
    pass


class LaunchDescription(Entity):
    pass


@dataclass
class Context:
    values: dict[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    """Arguments that were looked at."""


def performed(value: Any, context: Context) -> str:
    if isinstance(value, list | tuple):
        return ''.join(performed(part, context) for part in value)
    return value if isinstance(value, str) else value.perform(context)


MODULES: dict[str, dict[str, Any]] = {
    'launch': {'LaunchDescription': LaunchDescription},
    'launch.actions': {
        'DeclareLaunchArgument': DeclareLaunchArgument,
        'OpaqueFunction': OpaqueFunction,
        'Shutdown': Shutdown,
    },
    'launch.conditions': {'UnlessCondition': UnlessCondition},
    'launch.substitutions': {
        'LaunchConfiguration': LaunchConfiguration,
        'PathJoinSubstitution': PathJoinSubstitution,
    },
    'launch_ros': {},
    'launch_ros.actions': {'Node': Node},
    'launch_ros.parameter_descriptions': {'ParameterValue': ParameterValue},
    'launch_ros.substitutions': {'FindPackageShare': FindPackageShare},
}


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def description(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Any]]:
    for name, content in MODULES.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location('launch_file', request.param)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield list(module.generate_launch_description().arguments[0])
    # It was made with the stand-ins.
    del sys.modules['timely_llm_ros.launching'], vars(timely_llm_ros)['launching']


def declared(description: list[Any]) -> dict[str, dict[str, Any]]:
    return {
        item.arguments[0]: item.options
        for item in description
        if isinstance(item, DeclareLaunchArgument)
    }


def context_of(description: list[Any]) -> Context:
    context = Context()
    for name, options in declared(description).items():
        default = options['default_value'] if 'default_value' in options else REQUIRED[name]
        context.values[name] = performed(default, context)
    return context


def nodes_of(description: list[Any], context: Context) -> list[Node]:
    nodes = [item for item in description if isinstance(item, Node)]
    for item in description:
        if isinstance(item, OpaqueFunction):
            nodes += item.options['function'](context)
    return nodes


@pytest.mark.parametrize('path', [*FILES, SHARED], ids=lambda path: path.name)
def test_imports_are_those_of_an_installed_ros(path: Path) -> None:
    """The launch files import what they share too, and that imports nothing else either."""
    tree = ast.parse(path.read_text(encoding='utf-8'))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f'{node.module}.{alias.name}' for alias in node.names}
    if path != SHARED:
        assert 'timely_llm_ros.launching' in names
        names.remove('timely_llm_ros.launching')
    names -= {'__future__.annotations', 'os', 'typing.Any'}
    assert names
    assert {name.split('.')[0] for name in names} <= {'launch', 'launch_ros', 'ament_index_python'}


def test_the_files_are_there() -> None:
    assert {path.name.split('.')[0] for path in FILES} >= {'planner', 'robot', 'fleet', 'record'}


def test_arguments_are_described_and_closed_where_they_can_be(description: list[Any]) -> None:
    arguments = declared(description)
    assert set(arguments) >= NAV2_NAMES
    for name, options in arguments.items():
        assert options['description'].strip(), name
        assert set(options) <= {'default_value', 'description', 'choices'}, name
        choices = options.get('choices', [])
        if name in ('use_sim_time', 'use_respawn', 'ends_with_launch', 'autostart', 'together'):
            assert choices == ['true', 'false']
        if name == 'driver':
            assert all(driver in options['description'] for driver in DRIVERS)
        if name == 'log_level':
            assert 'debug' in choices
        if choices:
            assert options['default_value'] in choices


def test_every_argument_is_used(description: list[Any]) -> None:
    context = context_of(description)
    nodes = nodes_of(description, context)
    assert context.read | arguments_in([node.options for node in nodes]) == set(
        declared(description)
    )


def arguments_in(value: Any) -> set[str]:
    """Return the names of the launch arguments that a value refers to."""
    if isinstance(value, LaunchConfiguration):
        return {value.arguments[0]}
    if isinstance(value, Entity):
        return arguments_in([value.arguments, value.options])
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return set()
    return set().union(*map(arguments_in, value))


def test_nodes_exist_and_have_the_parameters_they_are_given(description: list[Any]) -> None:
    context = context_of(description)
    nodes = nodes_of(description, context)
    assert nodes
    names = set()
    for node in nodes:
        options = node.options
        executable = options['executable']
        assert options['package'] == 'timely_llm_ros'
        program = ROOT / 'scripts' / executable
        assert program.is_file()
        assert program.stat().st_mode & 0o111, f'{program} is not executable'
        names.add(performed(options['name'], context))
        assert performed(options['namespace'], context) == ''
        for parameters in options['parameters']:
            if not isinstance(parameters, dict):
                path = Path(performed(parameters, context))
                assert path.is_file(), path
                continue
            for name, value in parameters.items():
                check_parameter(executable, name, value, context)
    assert len(names) == len(nodes), 'two nodes of one name'
    for name in names:
        assert not name.startswith('/')


def check_parameter(executable: str, name: str, value: Any, context: Context) -> None:
    if name == 'use_sim_time':
        assert value.options['value_type'] is bool
        return
    default = declarations(PARAMETERS[executable])[name].default
    if isinstance(value, ParameterValue):
        type_ = value.options['value_type']
        assert type_ is type(default), name
        text = performed(value.arguments[0], context)
        check(PARAMETERS[executable], name, text == 'true' if type_ is bool else type_(text))
    else:
        check(PARAMETERS[executable], name, value)


def test_parameters_win_over_the_files(description: list[Any]) -> None:
    for node in nodes_of(description, context_of(description)):
        *files, given = node.options['parameters']
        assert isinstance(given, dict)
        assert not any(isinstance(file, dict) for file in files)


def test_fleet_gives_planner_and_executors_the_same_robots(description: list[Any]) -> None:
    context = context_of(description)
    if 'robots' not in context.values:
        return
    planner, *executors = nodes_of(description, context)
    robots = planner.options['parameters'][-1]['robots']
    assert [entry.name for entry in robot_entries(tuple(robots))] == [
        node.options['name'].removesuffix('_executor') for node in executors
    ]
    assert [node.options['parameters'][-1]['robots'] for node in executors] == [
        [robot] for robot in robots
    ]
    assert len(robots) == 8
    # An executor may end and be started anew; without a planner no robot stays up.
    (end,) = planner.options['on_exit']
    assert isinstance(end, Shutdown)
    assert all(node.options['on_exit'] is None for node in executors)
    for change in ({'driver': 'tello'}, {'together': 'true'}):
        context.values |= change
        _, executor = nodes_of(description, context)
        assert executor.options['parameters'][-1]['robots'] == robots


@pytest.mark.parametrize(
    ('file', 'node'),
    [('planner.yaml', 'planner'), ('fleet.yaml', 'planner'), ('executor.yaml', 'executor')],
)
def test_parameter_files_hold_only_declared_parameters(file: str, node: str) -> None:
    content = yaml.safe_load((ROOT / 'config' / file).read_text(encoding='utf-8'))
    assert len(content) == 1
    for key, section in content.items():
        assert key.startswith('/**'), 'a key that fits no namespace'
        for name, value in section['ros__parameters'].items():
            check(NODES[node], name, value)


def test_the_sample_drivers_file_can_be_used() -> None:
    chosen = read_drivers_file(str(ROOT / 'config' / 'tello_fleet.yaml'), 'simulated')
    assert len(chosen) == 4
    for choice in chosen.values():
        create_driver(find_skill_set('tello'), choice.options())


def test_the_parameters_page_is_up_to_date() -> None:
    from timely_llm_ros.nodes.tools.parameters_page import parameters_page

    page = ROOT / 'docs' / 'reference' / 'parameters.md'
    assert page.read_text(encoding='utf-8') == parameters_page()


@pytest.mark.parametrize('name', ['planner', 'timely-llm'])
def test_a_program_that_vllm_imports_again_does_nothing(name: str) -> None:
    """Python's way to spawn a process runs the program's file under another name."""
    root = Path(__file__).resolve().parent.parent
    code = f'import runpy; runpy.run_path({str(root / "scripts" / name)!r}, run_name="__mp_main__")'
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, ''), done.stderr


def test_pages_give_a_launch_file_only_arguments_that_it_has(
    description: list[Any], request: pytest.FixtureRequest
) -> None:
    file = request.node.callspec.params['description'].name
    given = {
        word.partition(':=')[0]
        for page in PAGES
        for command in commands(page)
        if command[:4] == ['ros2', 'launch', 'timely_llm_ros', file]
        for word in command[4:]
        if ':=' in word
    }
    assert given <= set(declared(description))
