"""What a robot knows of its surroundings: named objects with kinds and positions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Literal, get_args

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.skills.statements import KEYWORDS

Relation = Literal['on', 'under', 'in', 'near']
"""How an object stands to its support."""

RELATIONS: tuple[Relation, ...] = get_args(Relation)
_WORD = re.compile(r'[a-z][a-z0-9]*(_[a-z0-9]+)*')
MAX_FRAME_LENGTH = 128
"""Characters that the name of a frame may have."""

_FRAME = re.compile(rf'[A-Za-z0-9_/.-]{{1,{MAX_FRAME_LENGTH}}}')
_PROSE_WORD = re.compile(r'[a-z0-9_]+')

MAX_WORD_LENGTH = 64
"""Characters that a name, kind, attribute or support may have."""

WORD_EXPECTED = f'lower-case words joined by underscores, at most {MAX_WORD_LENGTH} characters'
"""What :func:`is_word` asks for, for messages."""


def is_word(text: str) -> bool:
    """Whether a text can be a name, kind, attribute or support."""
    return len(text) <= MAX_WORD_LENGTH and _WORD.fullmatch(text) is not None


def _require_word(what: str, value: str) -> None:
    if not is_word(value):
        raise InvalidTaskError(f'{what} {value!r}: expected {WORD_EXPECTED}, for example "cup_2"')


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One object that a robot knows of.

    For example::

        SceneObject('cup_2', 'cup', 'red', 'on', 'table', x_m=1.5, y_m=-0.3)

    Attributes:
        name: Unique in its scene; what plans call it, for example ``cup_2``.
        kind: What it is, for example ``cup``.
        attribute: A colour or other adjective; ``plain`` where there is none.
        relation: How it stands to ``support``.
        support: Kind of what carries it, for example ``table``; ``floor`` where nothing does.
        x_m: Position forward of the robot's start (m).
        y_m: Position left of it (m).
        z_m: Position above it (m).
        frame: Frame of the position; empty for that of the robot's start.
        stamp_s: When it was last seen (s, ROS time); 0 where nobody knows.

    Raises:
        InvalidTaskError: A word or the frame is malformed, the name is a word of the plan
            language, or a number is not finite.
    """

    name: str
    kind: str
    attribute: str = 'plain'
    relation: Relation = 'on'
    support: str = 'floor'
    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    frame: str = ''
    stamp_s: float = 0.0

    def __post_init__(self) -> None:
        _require_word('object name', self.name)
        if self.name in KEYWORDS:
            raise InvalidTaskError(
                f'object name {self.name!r} is a word of the plan language: expected another name'
            )
        for what in ('kind', 'attribute', 'support'):
            _require_word(f'object {self.name}: {what}', getattr(self, what))
        if self.relation not in RELATIONS:
            raise InvalidTaskError(
                f'object {self.name}: relation {self.relation!r}: expected one of {RELATIONS}'
            )
        if self.frame and _FRAME.fullmatch(self.frame) is None:
            raise InvalidTaskError(
                f'object {self.name}: frame {self.frame[:200]!r}: expected at most '
                f'{MAX_FRAME_LENGTH} letters, digits, underscores, slashes, points and hyphens'
            )
        for axis in ('x_m', 'y_m', 'z_m', 'stamp_s'):
            if not math.isfinite(getattr(self, axis)):
                raise InvalidTaskError(
                    f'object {self.name}: {axis} {getattr(self, axis)!r}: expected a finite number'
                )

    @property
    def distance_m(self) -> float:
        """Distance from the robot's start (m)."""
        return math.hypot(self.x_m, self.y_m, self.z_m)


@dataclass(frozen=True, slots=True)
class Scene:
    """The objects around one robot, in the order in which they are told to the model.

    For example::

        scene = Scene((SceneObject('cup_2', 'cup', 'red', 'on', 'table', x_m=1.5),))

    Raises:
        InvalidTaskError: Two objects share a name.
    """

    objects: tuple[SceneObject, ...] = ()
    _by_name: dict[str, SceneObject] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, SceneObject] = {}
        for item in self.objects:
            if item.name in by_name:
                raise InvalidTaskError(
                    f'object name {item.name!r}: expected unique names, got it twice'
                )
            by_name[item.name] = item
        object.__setattr__(self, '_by_name', by_name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every object's name, in order."""
        return tuple(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, name: str) -> SceneObject | None:
        """Return the object of that name, or None."""
        return self._by_name.get(name)


def spoken_of_m(scene: Scene, instruction: str) -> float | None:
    """Return how far the nearest object is that an instruction names or whose kind it names (m)."""
    words = _words(instruction)
    near = (it.distance_m for it in scene.objects if it.name in words or it.kind in words)
    return min(near, default=None)


def trim_scene(scene: Scene, instruction: str, objects: int) -> Scene:
    """Return a scene of at most so many objects, in their order.

    Objects whose name, kind, attribute or support the instruction mentions are kept first, those
    with most such words before others, then those that are nearest to the robot's start.
    """
    words = _words(instruction)

    def harm(item: SceneObject) -> tuple[int, float]:
        said = sum(value in words for value in (item.name, item.kind, item.attribute, item.support))
        return -said, math.hypot(item.x_m, item.y_m)

    kept = {item.name for item in sorted(scene.objects, key=harm)[: max(0, objects)]}
    return Scene(tuple(item for item in scene.objects if item.name in kept))


def _words(instruction: str) -> set[str]:
    words = set(_PROSE_WORD.findall(instruction.lower()))
    return words | {word[:-1] for word in words if word.endswith('s')}
