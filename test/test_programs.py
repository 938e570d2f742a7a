"""The programs that users start."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).resolve().parents[1] / 'scripts').iterdir())


@pytest.mark.parametrize('path', PROGRAMS, ids=lambda path: path.name)
def test_importing_a_program_starts_nothing(path: Path) -> None:
    *before, last = ast.parse(path.read_text(encoding='utf-8')).body
    assert ast.unparse(last).startswith("if __name__ == '__main__':")
    allowed = (ast.Expr, ast.Import, ast.ImportFrom)
    assert all(isinstance(statement, allowed) for statement in before)
