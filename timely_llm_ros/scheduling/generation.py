"""The generations that compete for the engine: one array for each value."""

from __future__ import annotations

import enum
import math
import operator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from timely_llm_ros.utility import TimeUtility

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Phase(enum.IntEnum):
    """Where a generation stands. It is in exactly one phase at a time."""

    QUEUED = 0
    """Its prompt is not computed, or not all of it: not yet, or not again after a drop of KV."""
    RUNNING = 1
    """In the latest engine step."""
    SUSPENDED = 2
    """Its KV is held, and it is not in the latest step; competes for its next segment."""
    HELD = 3
    """Waits for a robot's value or for an explicit resume; does not compete."""
    ENDED = 4
    """Over; no longer in the table."""


_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True)
class TableView:
    """The columns that a policy ranks by; one element per generation.

    Attributes:
        arrival_s: When the task was received.
        ert_s: Expected response time of its time utility.
        alpha: Slope of its time utility (utility/s, <= 0).
        beta: Peak of its time utility (> 0).
        segment_index: Segments complete so far, so the index of the one in the making.
        due_s: When the robot is expected to run out of work; for a first segment, the arrival.
        expected_generation_s: Expected engine time until the segment in the making is complete.
        generated_tokens: Tokens generated for the segment in the making.
        predicted_tokens: The first prediction of the whole plan's length (tokens).
        remaining_tokens: The latest prediction of what is left of it (tokens).
        total_tokens: Tokens generated so far.
        pausable: 1 between two segments while there is memory to keep its KV, else 0.
        phase: Where it stands, see :class:`Phase`.
        worthless_s: From when a first segment is not wanted any more; inf for never.
    """

    arrival_s: FloatArray
    ert_s: FloatArray
    alpha: FloatArray
    beta: FloatArray
    segment_index: IntArray
    due_s: FloatArray
    expected_generation_s: FloatArray
    generated_tokens: IntArray
    predicted_tokens: FloatArray
    remaining_tokens: FloatArray
    total_tokens: IntArray
    pausable: IntArray
    phase: IntArray
    worthless_s: FloatArray

    def __len__(self) -> int:
        return len(self.arrival_s)


class GenerationRow(NamedTuple):
    """One generation's values; see :class:`TableView` and :class:`GenerationTable`."""

    arrival_s: float
    ert_s: float
    alpha: float
    beta: float
    due_s: float
    expected_generation_s: float = 0.0
    predicted_tokens: float = 0.0
    remaining_tokens: float = 0.0
    rank: float = math.nan
    worthless_s: float = math.inf
    segment_index: int = 0
    generated_tokens: int = 0
    total_tokens: int = 0
    pausable: int = 0
    worst_tokens: int = 0
    phase: int = Phase.QUEUED
    sequence: int = 0


_VIEWED = tuple(item.name for item in fields(TableView))


class GenerationTable:
    """Columns of all generations that have not ended, dense in rows ``0..len-1``.

    Adding and removing takes constant time. A removed row is filled with the last one, so a row
    number is only good until the next :meth:`remove`. Beside the columns of :class:`TableView`
    there are ``worst_tokens`` (the most tokens that the segment in the making may take), ``rank``
    (the scheduler's latest) and ``sequence``, which breaks ties (it counts :meth:`add` and
    :meth:`requeue`).
    """

    _FLOATS = GenerationRow._fields[:10]
    _INTS = GenerationRow._fields[10:]

    def __init__(self, capacity: int = 64) -> None:
        self.ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._floats = np.zeros((len(self._FLOATS), capacity), np.float64)
        self._ints = np.zeros((len(self._INTS), capacity), np.int64)
        self._columns = self._name_columns()
        self._next_sequence = 0

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._rows

    def row(self, generation_id: str) -> int:
        """Return the generation's present row.

        Raises:
            KeyError: It is not in the table.
        """
        return self._rows[generation_id]

    def add(self, generation_id: str, utility: TimeUtility, arrival_s: float) -> int:
        """Add a queued generation and return its row.

        Raises:
            KeyError: The id is in the table already.
        """
        if generation_id in self._rows:
            raise KeyError(generation_id)
        row = len(self.ids)
        if row == self._floats.shape[1]:
            self._floats = np.concatenate([self._floats, np.zeros_like(self._floats)], axis=1)
            self._ints = np.concatenate([self._ints, np.zeros_like(self._ints)], axis=1)
            self._columns = self._name_columns()
        self.ids.append(generation_id)
        self._rows[generation_id] = row
        values = GenerationRow(
            arrival_s,
            utility.expected_response_s,
            utility.slope_per_s,
            utility.peak,
            due_s=arrival_s,
            worthless_s=arrival_s + utility.worthless_after_s,
            sequence=self._next_sequence,
        )
        floats = len(self._FLOATS)
        self._floats[:, row], self._ints[:, row] = values[:floats], values[floats:]
        self._next_sequence += 1
        return row

    def remove(self, generation_id: str) -> None:
        """Remove a generation.

        Raises:
            KeyError: It is not in the table.
        """
        row = self._rows.pop(generation_id)
        last = len(self.ids) - 1
        last_id = self.ids.pop()
        if row != last:
            self._floats[:, row] = self._floats[:, last]
            self._ints[:, row] = self._ints[:, last]
            self.ids[row] = last_id
            self._rows[last_id] = row

    def requeue(self, generation_id: str) -> None:
        """Put a generation behind all others of equal rank."""
        self._columns['sequence'][self._rows[generation_id]] = self._next_sequence
        self._next_sequence += 1

    def column(self, name: str) -> NDArray[Any]:
        """Return a writable view of one column, good until the next :meth:`add`."""
        return self._columns[name][: len(self.ids)]

    def set(self, generation_id: str, name: str, value: float) -> None:
        """Set one value."""
        self._columns[name][self._rows[generation_id]] = value

    def set_many(self, generation_ids: Iterable[str], name: str, values: object) -> None:
        """Set one value of several generations: ``values`` in their order, or one for all."""
        rows = self._rows
        self._columns[name][[rows[generation_id] for generation_id in generation_ids]] = values

    def get(self, generation_id: str, name: str) -> float:
        """Return one value."""
        return float(self._columns[name][self._rows[generation_id]])

    def phase(self, generation_id: str) -> Phase:
        """Return where a generation stands; ``ENDED`` where it is not in the table."""
        row = self._rows.get(generation_id)
        return Phase.ENDED if row is None else _PHASES[self._columns['phase'][row]]

    def count(self, phase: Phase) -> int:
        """Return how many generations stand there."""
        return int(np.count_nonzero(self.column('phase') == phase))

    def ids_in(self, phase: Phase) -> list[str]:
        """Return the generations that stand there."""
        ids = self.ids
        return [ids[row] for row in np.flatnonzero(self.column('phase') == phase).tolist()]

    def view(self) -> TableView:
        """Return the columns that policies read, without copying."""
        return TableView(*map(self.column, _VIEWED))

    def rows(self) -> list[GenerationRow]:
        """Return every row as Python numbers: faster than columns where there are few."""
        n = len(self.ids)
        floats = self._floats[:, :n].T.tolist()
        return list(
            map(GenerationRow._make, map(operator.add, floats, self._ints[:, :n].T.tolist()))
        )

    def _name_columns(self) -> dict[str, NDArray[Any]]:
        named: dict[str, NDArray[Any]] = dict(zip(self._FLOATS, self._floats, strict=True))
        named.update(zip(self._INTS, self._ints, strict=True))
        return named
