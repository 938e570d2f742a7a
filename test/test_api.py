"""The public names are there, light and known to type checkers, and the page's programs run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import timely_llm_ros

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / 'docs/reference/api.md').read_text('utf-8')
FACE = ast.parse((ROOT / 'timely_llm_ros/__init__.py').read_text('utf-8'))
MOST_LINES = 25


def program(heading: str) -> str:
    """Return the Python of a section of the page."""
    (_, section) = PAGE.split(f'\n## {heading}\n')
    found = re.search(r'```python\n(.*?)```', section.split('\n## ')[0], re.DOTALL)
    assert found is not None
    return found[1]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.mark.engines
def test_the_program_of_the_page_plans_for_two_robots(tmp_path: Path) -> None:
    text = program('Plan for two robots')
    assert sum(bool(line.strip()) for line in text.splitlines()) <= MOST_LINES
    (tmp_path / 'two_robots.py').write_text(text, encoding='utf-8')
    done = run('two_robots.py', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert sorted(said[:2]) == ['drone_1 takeoff', 'drone_2 takeoff']
    assert said[-2:] == ['search succeeded', 'photo succeeded']
    assert 'drone_1 goto(cat_2)' in said


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    (tmp_path / 'test_mine.py').write_text(program('Test what you build'), encoding='utf-8')
    done = run('-m', 'pytest', '-q', '-p', 'no:cacheprovider', 'test_mine.py', cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert '3 passed' in done.stdout


def test_every_name_is_there_and_on_the_page() -> None:
    for name in timely_llm_ros.__all__:
        assert getattr(timely_llm_ros, name) is not None
        if not name.endswith('Error'):
            assert f'`{name}`' in PAGE, name


def test_every_name_for_tests_is_on_the_page() -> None:
    from timely_llm_ros import testing

    for name in testing.__all__:
        assert re.search(rf'`{name}\b', PAGE), name


def test_type_checkers_read_the_same_names_from_the_same_modules() -> None:
    (block,) = (
        node
        for node in FACE.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING'
    )
    read = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: f'timely_llm_ros.{module}' for name, module in timely_llm_ros._HOMES.items()}
    assert read == homes
    assert sorted(read) == sorted(timely_llm_ros.__all__)
    assert set(timely_llm_ros.__all__) <= set(dir(timely_llm_ros))


def test_every_error_is_public() -> None:
    from timely_llm_ros import errors

    there = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {name for name in there if name.endswith('Error')} <= set(timely_llm_ros.__all__)


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, timely_llm_ros; print(*(n for n in sys.modules if 'timely' in n))"
    assert run('-c', code, cwd=ROOT).stdout.split() == ['timely_llm_ros']


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="'timely_llm_ros' has no attribute 'Plannr'"):
        _ = timely_llm_ros.Plannr  # type: ignore[attr-defined]


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / 'timely_llm_ros' / 'py.typed').is_file()
