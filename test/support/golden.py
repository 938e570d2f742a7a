"""Golden cases: what a paper's formulas give, computed beforehand by two independent means.

A value is right if ``|got - expected| <= tol * max(1, |got|, |expected|)``. Names that end in
``_ERRATUM`` hold what a paper prints by mistake; an implementation must not agree with them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def golden(file: str) -> dict[str, list[dict[str, Any]]]:
    """The cases of a file in ``data`` by name."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for case in json.loads((Path(__file__).parents[1] / 'data' / file).read_text(encoding='utf-8')):
        cases.setdefault(case['name'], []).append(case)
    return cases


def agrees(got: Any, case: dict[str, Any]) -> bool:
    """Whether a value, or an array of them, is that of the case."""
    expected = case['expected']
    if isinstance(expected, str):
        expected = float(expected)
    value, wanted = np.asarray(got, float), np.asarray(expected, float)
    if value.shape != wanted.shape:
        return False
    same = value == wanted
    with np.errstate(invalid='ignore'):
        scale = np.maximum(1, np.maximum(np.abs(value), np.abs(wanted)))
        return bool((same | (np.abs(value - wanted) <= case['tol'] * scale)).all())
