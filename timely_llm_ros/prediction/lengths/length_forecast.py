"""What a budget needs to know of a response's length, and a baseline that counts plans.

The baseline looks up how long plans were for the same skill set and scenes of about the same size,
starting from the shipped model's tasks (``empirical_table.py``), and learns from every plan that
ends. TimeBill's predictor (``rlp.py``), a small language model, reads the instruction as well.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.empirical_table import PLAN_LENGTHS, SCENE_SIZES

if TYPE_CHECKING:
    from pathlib import Path

MOST_LEARNED = 500
"""A kind of prompt keeps this many learned lengths, the newest."""


class LengthForecast(Protocol):
    """What is expected of one response's length."""

    def predicted(self, max_tokens: int) -> int:
        """Return the length to expect (tokens), at most ``max_tokens``."""
        ...

    def quantile(self, share: float) -> int | None:
        """Return a length (tokens) that ``share`` of such responses do not exceed.

        None where too little is known to say so.
        """
        ...


class LengthPredictor(Protocol):
    """Predicts from a prompt how long the response will be; on any thread, within milliseconds."""

    def predict(self, fixed: str, body: str) -> LengthForecast:
        """Return what it expects of the prompt ``fixed + body``."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """Lengths of responses to prompts of one kind, ascending."""

    lengths: tuple[int, ...]

    def predicted(self, max_tokens: int) -> int:
        """Return the median; without any sample the longest there may be."""
        if not self.lengths:
            return max_tokens
        return min(max_tokens, self.lengths[len(self.lengths) // 2])

    def quantile(self, share: float) -> int | None:
        """Return the quantile of a further sample of the kind (split conformal prediction).

        Raises:
            ConfigurationError: The share is not between 0 and 1.
        """
        if not 0 < share < 1:
            raise ConfigurationError(f'share {share!r}: expected between 0 and 1')
        place = math.ceil(round((len(self.lengths) + 1) * share, 9))
        return self.lengths[place - 1] if place <= len(self.lengths) else None


class EmpiricalLengths:
    """Lengths of plans by skill set and class of the scene's size, learned as plans end."""

    def __init__(self) -> None:
        self._lengths = {kind: sorted(lengths) for kind, lengths in PLAN_LENGTHS.items()}
        self._learned: dict[tuple[str, int], list[int]] = {}

    def predict(self, fixed: str, body: str) -> Sample:
        """Return the lengths for that kind of prompt; of all kinds where it is unknown."""
        known = self._lengths.get(_kind(fixed, body))
        if known is None:
            known = sorted(length for lengths in self._lengths.values() for length in lengths)
        return Sample(tuple(known))

    def observe(self, fixed: str, body: str, length: int) -> None:
        """Learn from a plan of ``length`` tokens, its end included."""
        kind = _kind(fixed, body)
        lengths = self._lengths.setdefault(kind, [])
        bisect.insort(lengths, length)
        learned = self._learned.setdefault(kind, [])
        learned.append(length)
        if len(learned) > MOST_LEARNED:
            lengths.remove(learned.pop(0))


def _kind(fixed: str, body: str) -> tuple[str, int]:
    """Return the skill set and the class of the scene's size that a prompt shows."""
    first = fixed.partition('\n')[0].removeprefix('robot: ')
    return first, bisect.bisect_left(SCENE_SIZES, body.count('='))


PREDICTORS = ('empirical', 'rlp')
"""Names of what predicts response lengths."""


def find_predictor(name: str, folder: str | Path) -> LengthPredictor:
    """Return a new predictor, one of :data:`PREDICTORS`, for the model of ``folder``.

    Raises:
        ConfigurationError: There is no predictor of that name.
        ModelLoadError: The folder has none, or a broken one.
    """
    match name:
        case 'empirical':
            return EmpiricalLengths()
        case 'rlp':
            from timely_llm_ros.prediction.lengths.rlp import read_rlp

            return read_rlp(folder)
        case _:
            raise ConfigurationError(
                f'length predictor {name!r}: expected one of {list(PREDICTORS)}'
            )
