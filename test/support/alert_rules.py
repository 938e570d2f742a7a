"""The conditions of the alert rules, judged by two looks at what programs tell Prometheus.

This reads as much of PromQL as ``config/monitoring/alerts.yml`` has, so that tests that cause a
fault need no Prometheus. How long a condition must hold before its alert fires is left out.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

RULES_FILE = Path(__file__).resolve().parents[2] / 'config' / 'monitoring' / 'alerts.yml'

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Figures = dict[tuple[str, Labels], float]
"""Values by name and labels, of one look."""

_COMPARE = {ast.Eq: operator.eq, ast.Lt: operator.lt, ast.Gt: operator.gt}
_SELECTOR = re.compile(r'\b(timely_\w+|up)\b(\{[^}]*\})?(\[\w+\])?')
_MATCHER = re.compile(r'(\w+)(=~?)"([^"]*)"')


def read_rules() -> dict[str, dict[str, str]]:
    """Return the rules by the names of their alerts."""
    groups = yaml.safe_load(RULES_FILE.read_text(encoding='utf-8'))['groups']
    return {rule['alert']: rule for group in groups for rule in group['rules']}


def holds(expression: str, before: Figures, now: Figures) -> bool:
    """Return whether a rule's condition holds now; rates are what came since the look before."""
    text = re.sub(r'sum by \(([^)]*)\)\s*\(', r'sum_by("\1", ', expression)
    text = _SELECTOR.sub(lambda found: f'pick({found[1]!r}, {found[2] or ""!r})', text)
    return bool(_value(ast.parse(' '.join(text.split()), mode='eval').body, before, now))


def _value(node: ast.expr, before: Figures, now: Figures) -> Vector:
    match node:
        case ast.BoolOp(op, parts):
            first, *more = (_value(part, before, now) for part in parts)
            for other in more:
                both = {key: first[key] for key in first if key in other}
                first = both if isinstance(op, ast.And) else other | first
            return first
        case ast.Compare(left, [op], [ast.Constant(int() | float() as bound)]):
            is_so = _COMPARE[type(op)]
            found = _value(left, before, now)
            return {key: value for key, value in found.items() if is_so(value, bound)}
        case ast.BinOp(left, ast.Div(), right):
            over, under = _value(left, before, now), _value(right, before, now)
            return {
                key: over[key] / under[key] if under[key] else math.nan
                for key in over
                if key in under
            }
        case ast.Call(ast.Name(name), [*arguments]):
            return _call(name, arguments, before, now)
    raise NotImplementedError(ast.unparse(node))


def _call(name: str, arguments: list[Any], before: Figures, now: Figures) -> Vector:
    match name, arguments:
        case 'pick', [ast.Constant(str(metric)), ast.Constant(str(labels))]:
            return _pick(metric, labels, now)
        case 'increase' | 'rate', [series]:
            old = _value(series, before, before)
            return {
                key: value - old[key]
                for key, value in _value(series, now, now).items()
                if key in old
            }
        case 'min_over_time', [series]:
            old = _value(series, before, before)
            found = _value(series, now, now)
            return {key: min(value, old.get(key, value)) for key, value in found.items()}
        case 'sum_by', [ast.Constant(str(labels)), part]:
            names, sums = set(re.findall(r'\w+', labels)), defaultdict[Labels, float](float)
            for key, value in _value(part, before, now).items():
                sums[frozenset(pair for pair in key if pair[0] in names)] += value
            return sums
    raise NotImplementedError(name)


def _pick(metric: str, matchers: str, figures: Figures) -> Vector:
    wanted = _MATCHER.findall(matchers)

    def fits(labels: Mapping[str, str]) -> bool:
        return all(
            re.fullmatch(value if how == '=~' else re.escape(value), labels.get(name, ''))
            for name, how, value in wanted
        )

    return {
        labels: value
        for (name, labels), value in figures.items()
        if name == metric and fits(dict(labels))
    }
