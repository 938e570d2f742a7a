"""The floors of the house: who may import whom, and what an import may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'timely_llm_ros'

FLOORS = {
    'errors': 1, 'utility': 1, 'clock': 1, 'virtual_time': 1, 'prediction': 1,
    'command_line': 1, 'launching': 1, 'pickling': 1,
    'skills': 2, 'budget': 2, 'model': 2,
    'scheduling': 3, 'drivers': 3,
    'engines': 4,
    'planning': 5, 'planner': 5,
    'nodes': 6,
    'demo': 7, 'cli': 8,
}  # fmt: skip
"""Ground floor first; rooms of one floor may know each other, and every room its own files."""

SIDEWAYS_DOWN = {('drivers', 'scheduling')}
"""Pairs on one floor of which the first must not import the second."""

ROS = ('rclpy', 'rclpy.', 'timely_llm_ros.msg', 'timely_llm_ros.action', 'timely_llm_ros.srv')
HEAVY = ('torch', 'transformers', 'vllm', 'llguidance', 'tokenizers', 'safetensors')


def sources() -> list[Path]:
    return sorted(p for top in (PACKAGE, ROOT / 'lrtrace') for p in top.rglob('*.py'))


def imports(path: Path) -> list[tuple[str, bool]]:
    """Return (module, is at module level) for each import that runs, typing-only ones left out."""
    tree = ast.parse(path.read_text(encoding='utf-8'))
    found = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and 'TYPE_CHECKING' in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                found.append((child.module, top))
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            visit(child, top and not inside)

    visit(tree, True)
    return found


def room(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix('.py')


@pytest.mark.parametrize('path', sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path: Path) -> None:
    if PACKAGE not in path.parents or (path.name == '__init__.py' and path.parent == PACKAGE):
        return
    here = room(path)
    assert here in FLOORS, f'{here}: a room without a floor'
    for module, _ in imports(path):
        parts = module.split('.')
        if parts[0] != 'timely_llm_ros' or len(parts) == 1 or parts[1] == here:
            continue
        there = parts[1]
        if there in ('msg', 'action', 'srv'):
            continue
        assert FLOORS[there] <= FLOORS[here], f'{here} imports {module}, which is above it'
        assert (here, there) not in SIDEWAYS_DOWN, f'{here} imports {module}'
        assert there != 'nodes', f'{here} imports {module}: nothing in nodes/ serves others'


@pytest.mark.parametrize('path', sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_ros_stays_in_its_rooms(path: Path) -> None:
    allowed = path.parent == PACKAGE / 'nodes' or path.name in (
        'recorder_node.py',
        'replay_node.py',
    )
    used = [m for m, _ in imports(path) if m in ROS or m.startswith(tuple(f'{r}.' for r in ROS))]
    assert allowed or not used, f'{path.name} imports {used}'


@pytest.mark.parametrize('path', sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_packages_stay_in_engine_and_model_files(path: Path) -> None:
    used = [m for m, _ in imports(path) if m.split('.')[0] in HEAVY]
    relative = path.relative_to(ROOT).parts
    assert not used or relative[1] in ('engines', 'model', 'prediction'), f'{path} imports {used}'


def loaded_by(statement: str) -> set[str]:
    code = f'import sys\n{statement}\nprint(*sys.modules)'
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.split('.')[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    'module', ['timely_llm_ros', 'timely_llm_ros.planner', 'timely_llm_ros.engines', 'lrtrace']
)
def test_import_is_light(module: str) -> None:
    heavy = loaded_by(f'import {module}') & {*HEAVY, 'rclpy', 'rich', 'mcap', 'rosbags'}
    assert not heavy, f'importing {module} loads {heavy}'


def test_generated_interfaces_join_the_package() -> None:
    from timely_llm_ros.action import PlanTask

    from timely_llm_ros import utility

    assert PlanTask.Result.SUPERSEDED == 3
    assert utility.URGENT.peak == 2.0


def test_error_codes_equal_the_action_constants() -> None:
    from timely_llm_ros.action import PlanTask

    from timely_llm_ros import errors

    expected = {
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
        errors.TimelyError: 'UNKNOWN',
    }
    for error, name in expected.items():
        assert error.code == getattr(PlanTask.Result, name), name
