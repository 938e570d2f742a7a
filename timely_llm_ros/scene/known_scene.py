"""One robot's scene: what was seen or named lately, under names that stay.

A detection is the nearest known object of its kind and frame within ``merge_m``, each object taken
once in a message; any other is a new object. Positions are smoothed, so that noise does not carry
an object away from its detections. Times are those of the caller's clock.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.scene.detection import Sighting
from timely_llm_ros.skills import Scene, SceneObject

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from timely_llm_ros.scene.detection import Detection, Position, SceneOptions

MOST_KINDS = 1000
"""Kinds whose last number is remembered."""

MOST_REASONS = 20
"""Different reasons that are told of one message."""

_GAIN = 0.3
"""What a new position counts beside the smoothed one."""

_PREFIX_LENGTH = 50
"""Characters of a kind that its names begin with."""

_NUMBERED = re.compile(r'(.+)_([0-9]{1,6})')
"""Names whose number counts as given."""


@dataclass(slots=True, eq=False)
class _Known:
    """An object, and when it was last seen or named (s).

    It has its name, and may be told, from its last necessary sighting on; until then its name is
    its kind.
    """

    item: SceneObject
    seen_s: float
    sightings: int = 0
    named: bool = False

    @property
    def position_m(self) -> Position:
        return self.item.x_m, self.item.y_m, self.item.z_m


class KnownScene:
    """What one robot knows.

    Args:
        options: How it is kept; may be replaced later.
        reserved: Names that no object gets: the robot's skills.
    """

    def __init__(self, options: SceneOptions, reserved: Collection[str] = ()) -> None:
        self.options = options
        self._reserved = reserved
        self._objects: list[_Known] = []
        self._numbers: dict[str, int] = {}
        self._floor = 0
        self._allowance, self._allowed_s = 0.0, -math.inf

    def __len__(self) -> int:
        """How many objects are kept, those that were seen too rarely as well."""
        return len(self._objects)

    def see(self, detections: Sequence[Detection], now_s: float) -> Counter[str]:
        """Take in what one message says is seen; return what was refused, by reason."""
        self._forget(now_s)
        refused: Counter[str] = Counter()
        placed: list[Sighting] = []
        for detection in self._allowed(detections, now_s, refused):
            try:
                sighting = Sighting.of(detection, self.options)
            except InvalidTaskError as err:
                _refuse(refused, str(err))
                continue
            if sighting is None:
                continue
            if sighting.position_m is None:
                self._touch(sighting.word, now_s)
            else:
                placed.append(sighting)
        for sighting in self._follow(placed, now_s):
            if self._has_room(refused):
                word, (x_m, y_m, z_m) = sighting.word, sighting.place
                item = SceneObject(word, word, x_m=x_m, y_m=y_m, z_m=z_m, frame=sighting.frame)
                self._objects.append(_Known(item, now_s))
                self._sight(self._objects[-1], sighting, now_s)
        return refused

    def learn(self, scene: Scene, now_s: float) -> Counter[str]:
        """Take in what a goal says is there; return what was refused, by reason.

        An object that is known already keeps the name that it has here.
        """
        self._forget(now_s)
        refused: Counter[str] = Counter()
        free: dict[tuple[str, str], list[_Known]] = {}
        for one in self._objects:
            free.setdefault((one.item.kind, one.item.frame), []).append(one)
        for item in scene.objects:
            there = free.get((item.kind, item.frame), [])
            known = self._nearest(item, there)
            if known is None:
                if not self._has_room(refused):
                    continue
                known = _Known(item, now_s)
                self._objects.append(known)
            else:
                there.remove(known)
            name = known.item.name if known.named else self._client_name(item)
            known.item, known.seen_s, known.named = replace(item, name=name), now_s, True
        return refused

    def scene(self, now_s: float, stamp_s: float | None = None) -> Scene:
        """Return what is known now.

        Args:
            now_s: Now.
            stamp_s: The same on the clock of objects' stamps (s); None leaves them without.
        """
        self._forget(now_s)
        told = [known for known in self._objects if known.named]
        if stamp_s is None:
            return Scene(tuple(known.item for known in told))
        since_s = now_s - stamp_s
        return Scene(
            tuple(replace(known.item, stamp_s=max(0.0, known.seen_s - since_s)) for known in told)
        )

    # What becomes of detections

    def _allowed(
        self, detections: Sequence[Detection], now_s: float, refused: Counter[str]
    ) -> Sequence[Detection]:
        """Return as many detections as count: so many a second, saved up for a second at most."""
        most = self.options.most_per_s
        passed_s = max(0.0, now_s - self._allowed_s)
        self._allowance = min(float(most), self._allowance + passed_s * most)
        self._allowed_s = now_s
        kept = detections[: int(self._allowance)]
        self._allowance -= len(kept)
        if len(kept) < len(detections):
            refused[f'more than {most} detections a second'] += len(detections) - len(kept)
        return kept

    def _touch(self, word: str, now_s: float) -> None:
        """Note that an object is seen somewhere: one of that name, or the only one of a kind."""
        found = [it for it in self._objects if it.named and it.item.name == word]
        found = found or [it for it in self._objects if it.item.kind == word]
        if len(found) == 1:
            found[0].seen_s = now_s

    def _follow(self, sightings: Iterable[Sighting], now_s: float) -> list[Sighting]:
        """Move known objects to where they are seen; return the sightings that are none of them."""
        by_word: dict[tuple[str, str], list[_Known]] = {}
        for known in self._objects:
            by_word.setdefault((known.item.kind, known.item.frame), []).append(known)
            if known.named:
                by_word.setdefault((known.item.name, known.item.frame), []).append(known)
        left = dict(enumerate(sightings))
        pairs = []
        for number, sighting in left.items():
            for known in by_word.get((sighting.word, sighting.frame), ()):
                distance_m = math.dist(known.position_m, sighting.place)
                if distance_m <= self.options.merge_m or known.item.name == sighting.word:
                    pairs.append((distance_m, number, known))
        pairs.sort(key=lambda pair: pair[:2])
        taken: set[_Known] = set()
        for _, number, known in pairs:
            if known not in taken and number in left:
                taken.add(known)
                self._sight(known, left.pop(number), now_s)
        return list(left.values())

    def _sight(self, known: _Known, sighting: Sighting, now_s: float) -> None:
        old, new = known.position_m, sighting.place
        # What a client calls by its name may have been carried away.
        gain = _GAIN if math.dist(old, new) <= self.options.merge_m else 1.0
        x_m, y_m, z_m = (a + gain * (b - a) for a, b in zip(old, new, strict=True))
        known.item = replace(known.item, x_m=x_m, y_m=y_m, z_m=z_m)
        known.seen_s = now_s
        known.sightings += 1
        if not known.named and known.sightings >= self.options.least_sightings:
            known.item = replace(known.item, name=self._new_name(known.item.kind))
            known.named = True

    # What is kept

    def _forget(self, now_s: float) -> None:
        oldest_s = now_s - self.options.forget_s
        self._objects = [known for known in self._objects if known.seen_s >= oldest_s]

    def _has_room(self, refused: Counter[str]) -> bool:
        """Make room for one more object, if need be by forgetting one that was seen too rarely."""
        if len(self._objects) < self.options.most_objects:
            return True
        rare = [known for known in self._objects if not known.named]
        if not rare:
            _refuse(refused, f'more than {self.options.most_objects} objects')
            return False
        self._objects.remove(min(rare, key=lambda known: known.seen_s))
        return True

    def _nearest(self, item: SceneObject, there: Iterable[_Known]) -> _Known | None:
        position_m = item.x_m, item.y_m, item.z_m

        def distance_m(known: _Known) -> float:
            return math.dist(known.position_m, position_m)

        known = min(there, key=distance_m, default=None)
        return known if known is not None and distance_m(known) <= self.options.merge_m else None

    # Names

    def _new_name(self, kind: str) -> str:
        """Return a name that no object had before."""
        prefix = kind[:_PREFIX_LENGTH].rstrip('_')
        used = {known.item.name for known in self._objects if known.named}
        number = self._numbers.get(prefix, self._floor)
        while True:
            number += 1
            name = f'{prefix}_{number}'
            if name not in used and name not in self._reserved:
                self._remember(prefix, number)
                return name

    def _client_name(self, item: SceneObject) -> str:
        """Return the name that a client gave, where it is free, else a new one."""
        used = any(known.named and known.item.name == item.name for known in self._objects)
        if used or item.name in self._reserved:
            return self._new_name(item.kind)
        if (match := _NUMBERED.fullmatch(item.name)) is not None:
            prefix, number = match[1], int(match[2])
            self._remember(prefix, max(number, self._numbers.get(prefix, self._floor)))
        return item.name

    def _remember(self, prefix: str, number: int) -> None:
        """Note the greatest number of a kind; those that are dropped go on from the floor."""
        self._numbers.pop(prefix, None)
        self._numbers[prefix] = number
        if len(self._numbers) > MOST_KINDS:
            oldest = next(iter(self._numbers))
            self._floor = max(self._floor, self._numbers.pop(oldest))


def _refuse(refused: Counter[str], reason: str) -> None:
    refused[reason if reason in refused or len(refused) < MOST_REASONS else 'other reasons'] += 1
