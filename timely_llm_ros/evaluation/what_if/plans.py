"""The segments of a replay, and how a plan that was served whole is split into some."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK = re.compile(r'[;{}]')


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """One segment as it is generated and executed again.

    Attributes:
        text: In the plan language.
        calls: Texts of its calls.
        tokens: Generated for it; 0 where one token ended several segments.
        expected_s: How long the planner expected it to take (s).
        execution_s: How long it took (s).
        awaits_value: Whether the generation waits for its value.
    """

    text: str
    calls: tuple[str, ...]
    tokens: int
    expected_s: float
    execution_s: float
    awaits_value: bool = False


def statements(text: str) -> list[str]:
    """Return the statements of a plan, each with its semicolon; a block counts as one."""
    found, start, depth = [], 0, 0
    for match in _MARK.finditer(text):
        depth += {'{': 1, '}': -1}.get(match[0], 0)
        if match[0] == ';' and depth <= 0:
            found.append(text[start : match.end()])
            start = match.end()
    if text[start:].strip():
        found.append(text[start:])
    return found


def split_plan(plan: PlannedSegment, calls_expected_s: Sequence[float]) -> list[PlannedSegment]:
    """Split a whole plan into a segment per statement: an estimate, whose sums are exact.

    Tokens are divided by length of text, execution by the calls' expected durations (s), or by
    length of text where a block hides which call belongs to which statement.
    """
    parts = statements(plan.text)
    if len(parts) < 2:
        return [plan]
    lengths = [float(len(part)) for part in parts]
    single = len(parts) == len(plan.calls) == len(calls_expected_s)
    weights = list(calls_expected_s) if single and sum(calls_expected_s) > 0 else lengths
    total = sum(weights)
    return [
        PlannedSegment(
            part,
            (plan.calls[place],) if single else (part.rstrip(';'),),
            tokens,
            plan.expected_s * weights[place] / total,
            plan.execution_s * weights[place] / total,
        )
        for place, (part, tokens) in enumerate(
            zip(parts, _whole_shares(plan.tokens, lengths), strict=True)
        )
    ]


def _whole_shares(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a whole number by weights; the shares add up to it."""
    whole = sum(weights)
    ends = [round(total * so_far / whole) for so_far in accumulate(weights)]
    return [end - start for start, end in pairwise([0, *ends])]
