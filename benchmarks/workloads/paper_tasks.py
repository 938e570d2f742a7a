"""What the eleven kinds of tasks cost: tokens per segment and execution times, as data.

TimelyLLM's data set is not public. Total tokens are those that its Table 4 implies: overhead by
its share is the plan's time, which less 133 ms of prefill is so many decoding steps of 21.7 ms.
Arms' plans are said to have about 100. Execution times are assumed. How a plan falls into segments
is printed nowhere either: the lengths here are 4 to 6 tokens (arm: 8 to 9), chosen within what is
plausible such that an independent simulation of the paper's algorithm gives the same utilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.sample_tasks import KINDS
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from timely_llm_ros.utility import TimeUtility


@dataclass(frozen=True, slots=True)
class TaskProfile:
    """What one kind of task costs.

    Attributes:
        number: 1 to 11, the trace's number in TimelyLLM's Table 2.
        name: Name of the kind.
        group: Under which its utilities are averaged, ``normal`` or ``urgent``.
        utility: Its time utility.
        segment_tokens: Tokens of each segment of its plan.
        shortest_s: Least execution time of a segment (s).
        longest_s: Greatest execution time of a segment (s).
    """

    number: int
    name: str
    group: str
    utility: TimeUtility
    segment_tokens: tuple[int, ...]
    shortest_s: float
    longest_s: float

    @property
    def tokens(self) -> int:
        """Tokens of its plan."""
        return sum(self.segment_tokens)


_ARM = (9, 9, 8, 9, 8, 8, 9, 8, 8, 9, 8, 8)

_SHAPES: dict[int, tuple[tuple[int, ...], float, float]] = {
    1: ((5, 5, 5), 1.0, 4.0),
    2: ((6, 6, 5, 5, 5, 5, 5), 0.001, 0.001),
    3: ((5, 5), 1.0, 4.0),
    4: ((6, 6, 5, 5, 5), 1.0, 4.0),
    5: ((6, 6, 5), 1.0, 4.0),
    6: ((4, 6), 0.5, 2.0),
    7: ((4, 6), 0.5, 2.0),
    8: ((4, 6), 0.5, 2.0),
    9: (_ARM, 2.0, 6.0),
    10: (_ARM, 2.0, 6.0),
    11: (_ARM, 2.0, 6.0),
}

PROFILES: dict[int, TaskProfile] = {
    number: TaskProfile(
        number,
        KINDS[number].name,
        'urgent' if KINDS[number].urgent else 'normal',
        URGENT if KINDS[number].urgent else NORMAL,
        tokens,
        shortest_s,
        longest_s,
    )
    for number, (tokens, shortest_s, longest_s) in _SHAPES.items()
}
"""Every kind's profile, by its number. Kind 2 only prints, so its actions take 1 ms."""
