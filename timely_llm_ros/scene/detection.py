"""What perception says it sees, checked; and how a scene is kept."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.options import check_options, option
from timely_llm_ros.skills import is_word

FARTHEST_M = 10_000.0
"""Positions beyond that (m) are a fault of whoever tells them."""

Position = tuple[float, float, float]
"""x, y, z (m)."""

_JOINTS = re.compile(r'[\s_-]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneOptions:
    """How a scene is kept; what has a description is a parameter of the planner node too.

    Raises:
        ConfigurationError: A value is out of range.
    """

    forget_s: float = option(
        60.0,
        'What was neither seen nor named in a goal for so long (s) is forgotten.',
        minimum=0.1,
        maximum=86_400.0,
    )
    merge_m: float = option(
        0.3,
        'A detection of a kind that is known within this distance (m) is that object.',
        minimum=0.01,
        maximum=100.0,
    )
    least_score: float = option(
        0.5, 'A detection counts from this score on.', minimum=0.0, maximum=1.0
    )
    least_sightings: int = option(
        2, 'An object is known once it was seen so often.', minimum=1, maximum=100
    )
    most_objects: int = option(100, 'Most objects that one robot knows.', minimum=1, maximum=1000)
    most_per_s: int = option(
        200, 'Most detections of one robot that count in a second.', minimum=1, maximum=100_000
    )
    frame: str = option('', 'The frame that detections must have; "" takes any, each by itself.')

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True)
class Detection:
    """One thing that is seen, as perception tells it; nothing is checked yet.

    Attributes:
        label: What it is, or the name of a known object.
        score: From 0 to 1.
        position_m: Where (m, in the frame); None where only that it is seen is known.
        frame: Of the position.
    """

    label: str
    score: float
    position_m: Position | None
    frame: str = ''


@dataclass(frozen=True, slots=True)
class Sighting:
    """A detection that can be used: ``word`` is a kind, or the name of a known object."""

    word: str
    position_m: Position | None
    frame: str

    @property
    def place(self) -> Position:
        """Where it is seen.

        Raises:
            ValueError: Only that it is seen is known.
        """
        if self.position_m is None:
            raise ValueError(f'{self.word!r}: expected a position')
        return self.position_m

    @classmethod
    def of(cls, detection: Detection, options: SceneOptions) -> Sighting | None:
        """Check a detection; None if its score is too low.

        Raises:
            InvalidTaskError: It cannot be used.
        """
        if not 0 <= detection.score <= 1:
            raise InvalidTaskError(f'score {detection.score!r}: expected 0 to 1')
        if detection.score < options.least_score:
            return None
        word = _JOINTS.sub('_', detection.label[:100].strip().lower())
        if not is_word(word):
            raise InvalidTaskError(
                f'label {detection.label[:80]!r}: expected letters and digits that begin with a '
                'letter, such as "traffic light"'
            )
        position_m = detection.position_m
        if position_m is not None:
            if not all(math.isfinite(value) and abs(value) <= FARTHEST_M for value in position_m):
                raise InvalidTaskError(
                    f'position {position_m}: expected finite numbers of at most {FARTHEST_M:g} m'
                )
            if options.frame and detection.frame != options.frame:
                raise InvalidTaskError(
                    f'frame {detection.frame[:80]!r}: expected {options.frame!r}'
                )
        return cls(word, position_m, detection.frame)
