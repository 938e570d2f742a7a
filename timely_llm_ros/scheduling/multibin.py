"""Multi-bin batching: static batches of requests that will take about equally long.

This is algorithm 1 of Multi-Bin Batching (arXiv 2412.04504), for engines where a batch holds the
server until its longest member has ended. A robot that waits for its first segment has no time for
it: a batch of 8 from 4 bins at one request a second takes 14 s to form.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.scheduling.bin_boundaries import check_batch

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Item = TypeVar('Item', bound='Hashable')


def assign_bin(length: float, boundaries: Sequence[float]) -> int:
    """Return the bin (0-based) of a length; those beyond the ends belong to the outermost ones."""
    return min(max(bisect_right(boundaries, length) - 1, 0), len(boundaries) - 2)


@dataclass(frozen=True, slots=True)
class FormedBatch(Generic[Item]):
    """Requests of one bin (0-based) that the server takes together, by arrival."""

    bin: int
    items: tuple[Item, ...]
    formed_s: float


class MultiBinQueue(Generic[Item]):
    """Requests on their way into batches. Pure: every method is told the time.

    A batch is formed when a bin has ``batch`` requests, or when its oldest one has waited
    ``max_wait_s``; without that, up to ``k (B - 1)`` requests would never be served. Batches are
    served in the order in which they were formed.

    Args:
        boundaries: ``k + 1`` increasing numbers (see ``bin_boundaries.py``).
        batch: Requests per batch, B.
        max_wait_s: The longest that a request waits for its batch to be formed, if
            :meth:`advance` is called at :attr:`next_flush_s`; infinity for the paper's rule.

    Raises:
        ConfigurationError: Boundaries that do not increase, or a number out of range.
    """

    def __init__(
        self, boundaries: Sequence[float], batch: int, max_wait_s: float = math.inf
    ) -> None:
        check_batch(batch)
        self._boundaries = [float(edge) for edge in boundaries]
        if len(self._boundaries) < 2 or not all(
            low < high for low, high in pairwise(self._boundaries)
        ):
            raise ConfigurationError(
                f'boundaries {self._boundaries}: expected two or more increasing numbers'
            )
        if not max_wait_s >= 0:
            raise ConfigurationError(f'max_wait_s {max_wait_s}: expected 0 or more')
        self._batch = batch
        self._max_wait_s = max_wait_s
        # Insertion order is the order of arrival; a request is in exactly one of these.
        self._bins: list[dict[Item, float]] = [{} for _ in self._boundaries[1:]]
        self._formed: deque[FormedBatch[Item]] = deque()
        self._queued: set[Item] = set()

    def __len__(self) -> int:
        """Return how many requests wait, in bins and in formed batches."""
        return len(self._queued)

    @property
    def waiting(self) -> tuple[int, ...]:
        """How many requests are in each bin."""
        return tuple(map(len, self._bins))

    @property
    def next_flush_s(self) -> float:
        """When :meth:`advance` will form a batch that is not full; infinity for never."""
        oldest_s = (next(iter(waiting.values())) for waiting in self._bins if waiting)
        return min(oldest_s, default=math.inf) + self._max_wait_s

    def push(self, item: Item, length: float, now_s: float) -> None:
        """Put a request into its bin, and form a batch if that fills it.

        The length is the expected one, in the boundaries' unit.

        Raises:
            InvalidTaskError: The request is in the queue, or its length is not a number.
        """
        if item in self._queued:
            raise InvalidTaskError(f'request {item!r}: expected one that is not queued already')
        if math.isnan(length):
            raise InvalidTaskError(f'request {item!r}, length {length}: expected a number')
        self.advance(now_s)
        place = assign_bin(length, self._boundaries)
        self._queued.add(item)
        self._bins[place][item] = now_s
        if len(self._bins[place]) == self._batch or self._max_wait_s == 0:
            self._form(place, now_s)

    def advance(self, now_s: float) -> None:
        """Form a batch of each bin whose oldest request has waited long enough."""
        overdue = [
            (since_s, place)
            for place, waiting in enumerate(self._bins)
            if waiting and (since_s := next(iter(waiting.values()))) + self._max_wait_s <= now_s
        ]
        for _, place in sorted(overdue):
            self._form(place, now_s)

    def flush(self, now_s: float) -> None:
        """Form a batch of each bin that holds any request, the longest wait first."""
        held = [
            (next(iter(waiting.values())), i) for i, waiting in enumerate(self._bins) if waiting
        ]
        for _, place in sorted(held):
            self._form(place, now_s)

    def pop(self) -> FormedBatch[Item] | None:
        """Take the batch that was formed first; None where there is none."""
        if not self._formed:
            return None
        formed = self._formed.popleft()
        for item in formed.items:
            self._queued.remove(item)
        return formed

    def _form(self, place: int, now_s: float) -> None:
        self._formed.append(FormedBatch(place, tuple(self._bins[place]), now_s))
        self._bins[place].clear()
