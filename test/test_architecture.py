"""The plan of the house: who may import whom, through which door, and what an import may cost.

Every import counts, also those that only type checkers read and those inside functions.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOPS = ('timely_llm_ros', 'lrtrace', 'benchmarks')

FLOORS = [
    ['errors'],
    ['plugins', 'audit'],
    [
        'utility',
        'clock',
        'virtual_time',
        'command_line',
        'installation',
        'launching',
        'options',
        'pickling',
        'processes',
        'silence',
    ],
    ['skills', 'prediction'],
    ['budget', 'prompts', 'scene', 'scheduling'],
    ['engines', 'execution'],
    ['drivers', 'planner', 'window'],
    ['ros'],
    ['nodes'],
    ['testing'],
    ['sample_tasks'],
    ['training', 'calibration', 'offline', 'evaluation', 'world'],
    ['demo'],
    ['cli'],
]
"""Rooms of ``timely_llm_ros``, ground floor first. A room imports only from floors below."""

LAB = {'sample_tasks', 'training', 'calibration', 'offline', 'evaluation', 'world', 'demo'}
SERVICE = {room for floor in FLOORS for room in floor} - LAB - {'cli', 'testing'}

LRTRACE_MAY_USE = {
    'errors', 'utility', 'command_line', 'installation', 'options', 'processes', 'skills', 'ros',
    'nodes', 'window',
}  # fmt: skip
"""Traces know of robots and their skills, never of planner or engines."""

ROS = ('rclpy', 'timely_llm_ros.msg', 'timely_llm_ros.action', 'timely_llm_ros.srv')
ROS_FOLDERS = (
    'timely_llm_ros/ros', 'timely_llm_ros/nodes', 'lrtrace/record', 'lrtrace/playback',
)  # fmt: skip
HEAVY = (
    'torch', 'transformers', 'vllm', 'llguidance', 'tokenizers', 'safetensors', 'mujoco', 'ray',
)  # fmt: skip
HEAVY_ROOMS = {'engines', 'training', 'prediction', 'world'}
GENERATED = {'msg', 'action', 'srv'}
MOST_FILES = 16


@cache
def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name."""
    return {
        '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__'): path
        for top in TOPS
        for path in sorted((ROOT / top).rglob('*.py'))
    }


def package(module: str) -> str:
    """Return the package that a module lies in; a package lies in itself."""
    return module if modules()[module].name == '__init__.py' else module.rpartition('.')[0]


def room(module: str) -> str:
    """Return the room of ``timely_llm_ros`` that a module belongs to, '' for the front door."""
    parts = module.split('.')
    return parts[1] if len(parts) > 1 else ''


@cache
def exported(module: str) -> frozenset[str]:
    """Return what a package's face offers."""
    for node in ast.parse(modules()[module].read_text(encoding='utf-8')).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == '__all__':
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


@cache
def imports(module: str) -> tuple[str, ...]:
    """Return what a module names in imports, typing-only and local ones too.

    ``from a import b`` names the module ``a.b`` where there is one, else ``a``.
    """
    found: list[str] = []
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f'{node.module}.{alias.name}'
                is_module = inner in modules() and alias.name not in exported(node.module)
                found.append(inner if is_module else node.module)
    return tuple(found)


def own(module: str) -> list[str]:
    """Return the modules of ours that a module imports, generated interfaces left out."""
    return [
        name
        for name in imports(module)
        if name in modules() and not GENERATED & set(name.split('.'))
    ]


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return one circle of a graph, nothing if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as err:
        return list(err.args[1])
    return []


def test_every_room_has_a_floor() -> None:
    there = {room(module) for module in modules() if module.startswith('timely_llm_ros.')}
    assert there == {name for floor in FLOORS for name in floor}


@pytest.mark.parametrize('module', [m for m in modules() if m.startswith('timely_llm_ros.')])
def test_imports_go_down_only(module: str) -> None:
    floor = {name: number for number, floor in enumerate(FLOORS) for name in floor}
    here = room(module)
    for name in own(module):
        there = room(name)
        if name.startswith('timely_llm_ros.') and there != here:
            assert floor[there] < floor[here], f'{module} imports {name}, which is not below it'
        if here in SERVICE:
            assert there not in LAB, f'{module} serves robots and imports {name} of the lab'
            assert name.split('.')[0] == 'timely_llm_ros', f'{module} imports {name}'


@pytest.mark.parametrize('module', [m for m in modules() if m.startswith('lrtrace')])
def test_traces_know_nothing_of_planning(module: str) -> None:
    used = {room(name) for name in own(module) if name.startswith('timely_llm_ros.')}
    assert used <= LRTRACE_MAY_USE


def test_no_circle_of_modules() -> None:
    assert not cycle({module: set(own(module)) for module in modules()})


def test_no_circle_of_packages() -> None:
    """Files beside folders count as packages of their own."""
    graph: dict[str, set[str]] = {}
    for module in modules():
        for name in own(module):
            here, there = package(module), package(name)
            if not (here.startswith(there) or there.startswith(here)):
                graph.setdefault(here, set()).add(there)
    assert not cycle(graph)


@pytest.mark.parametrize('module', list(modules()))
def test_others_come_in_by_the_front_door(module: str) -> None:
    """Only a package itself, and what lies in it, knows its inner files."""
    here = package(module)
    for name in own(module):
        there = package(name)
        is_face = name == there
        inside = here == there or here.startswith(f'{there}.')
        at_the_top = there in TOPS
        assert is_face or inside or at_the_top, f'{module} imports {name}: expected {there}'


def test_no_folder_is_crowded() -> None:
    for folder in {path.parent for path in modules().values()}:
        files = [path for path in folder.glob('*.py') if path.name != '__init__.py']
        assert len(files) <= MOST_FILES, f'{folder.relative_to(ROOT)} has {len(files)} files'


@pytest.mark.parametrize('module', [m for m in modules() if not m.startswith('benchmarks')])
def test_ros_stays_in_its_rooms(module: str) -> None:
    path = modules()[module].relative_to(ROOT).as_posix()
    used = [n for n in imports(module) if n in ROS or n.startswith(tuple(f'{r}.' for r in ROS))]
    assert path.startswith(ROS_FOLDERS) or not used, f'{path} imports {used}'


@pytest.mark.parametrize('module', [m for m in modules() if m.startswith('timely_llm_ros')])
def test_heavy_packages_stay_where_models_are(module: str) -> None:
    used = [name for name in imports(module) if name.split('.')[0] in HEAVY]
    assert not used or room(module) in HEAVY_ROOMS, f'{module} imports {used}'


def loaded_by(statement: str) -> set[str]:
    code = f'import sys\n{statement}\nprint(*sys.modules)'
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.split('.')[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    'statement',
    [
        'import timely_llm_ros',
        'import timely_llm_ros.planner',
        'import timely_llm_ros.engines',
        'import timely_llm_ros.execution',
        'import timely_llm_ros.cli.main',
        'import lrtrace.cli.main',
    ],
)
def test_import_is_light(statement: str) -> None:
    heavy = loaded_by(statement) & {*HEAVY, 'rclpy', 'rich', 'mcap', 'rosbags'}
    assert not heavy, f'{statement} loads {heavy}'


def test_generated_interfaces_join_the_package() -> None:
    from timely_llm_ros.action import PlanTask

    from timely_llm_ros import utility

    assert PlanTask.Result.SUPERSEDED == 3
    assert utility.URGENT.peak == 2.0


def test_error_codes_equal_the_action_constants() -> None:
    from timely_llm_ros.action import PlanTask

    from timely_llm_ros import errors

    expected: dict[type[errors.TimelyError], str] = {
        errors.InvalidTaskError: 'INVALID_TASK',
        errors.TaskRefusedError: 'REFUSED',
        errors.SupersededError: 'SUPERSEDED',
        errors.TaskCanceledError: 'CANCELED',
        errors.PlanError: 'BAD_PLAN',
        errors.EngineError: 'ENGINE_FAILED',
        errors.RobotUnavailableError: 'ROBOT_UNAVAILABLE',
        errors.ExecutionError: 'EXECUTION_FAILED',
        errors.BudgetOverrunError: 'BUDGET_OVERRUN',
        errors.ShutdownError: 'SHUTDOWN',
        errors.PlannerLostError: 'PLANNER_LOST',
        errors.WorthlessError: 'WORTHLESS',
        errors.NotAllowedError: 'NOT_ALLOWED',
        errors.NotApprovedError: 'NOT_APPROVED',
        errors.TimelyError: 'UNKNOWN',
    }
    for error, name in expected.items():
        assert error.code == getattr(PlanTask.Result, name), name
