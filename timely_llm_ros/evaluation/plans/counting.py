"""Counts verdicts: by kind of task, by size of the scene, and over all."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from timely_llm_ros.evaluation.plans.judging import Verdict
from timely_llm_ros.sample_tasks import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from timely_llm_ros.evaluation.plans.cases import Case, Written

Key = tuple[int, int]
"""A kind of task and a number of objects."""


@dataclass(frozen=True, slots=True)
class Cell:
    """How many plans there are, their tokens, and how many are what a verdict says."""

    plans: int
    tokens: int
    complete: int
    valid: int
    first: int
    exact: int
    success: int

    def shares(self) -> dict[str, float]:
        """Return the share of plans for each word of a verdict."""
        counts = asdict(self)
        return {name: round(counts[name] / self.plans, 4) for name in WORDS}


WORDS = tuple(word.name for word in fields(Verdict))
"""What a verdict says."""


def cells(judged: Iterable[tuple[Case, Written, Verdict]]) -> dict[Key, Cell]:
    """Count by kind and size."""
    found: dict[Key, list[tuple[Written, Verdict]]] = defaultdict(list)
    for case, written, verdict in judged:
        found[case.task.kind, case.objects].append((written, verdict))
    return {
        key: Cell(
            len(some),
            sum(written.tokens for written, _ in some),
            **{word: sum(getattr(verdict, word) for _, verdict in some) for word in WORDS},
        )
        for key, some in found.items()
    }


def summary(counted: Iterable[Cell]) -> Cell:
    """Add cells."""
    some = list(counted)
    return Cell(**{it.name: sum(getattr(one, it.name) for one in some) for it in fields(Cell)})


def report(counted: Mapping[Key, Cell]) -> dict[str, Any]:
    """Return shares for a file: over all, by kind, and by objects."""
    kinds, sizes = sorted({key[0] for key in counted}), sorted({key[1] for key in counted})
    whole = summary(counted.values())
    return {
        'plans': whole.plans,
        'mean_tokens': round(whole.tokens / whole.plans, 1),
        'all': whole.shares(),
        'by_kind': {
            f'{kind} {KINDS[kind].name}': summary(
                cell for key, cell in counted.items() if key[0] == kind
            ).shares()
            for kind in kinds
        },
        'by_objects': {
            str(size): summary(cell for key, cell in counted.items() if key[1] == size).shares()
            for size in sizes
        },
    }
