"""Random scenes in which the asked-for kinds of tasks make sense."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from timely_llm_ros.sample_tasks import words
from timely_llm_ros.skills import RELATIONS, Scene, SceneObject, scene_line

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Sequence

HELD_OUT_SHARE = 8
"""One scene in this many is never trained on."""

MAX_LISTED = 6
"""The most objects that one arm task asks to handle."""

_ARM_FILL = (*words.LITTER, *words.TOOLS[:6])


def is_held_out(scene: Scene) -> bool:
    """Return whether the scene belongs to evaluation: decided by a checksum of its text."""
    text = ''.join(map(scene_line, scene.objects))
    return zlib.crc32(text.encode()) % HELD_OUT_SHARE == 0


class _Place(TypedDict, total=False):
    support: str
    relation: str


class _Builder:
    """Collects objects, then names, places and shuffles them."""

    def __init__(self, rng: random.Random, n_objects: int) -> None:
        self.rng, self.n_objects = rng, n_objects
        self.items: list[tuple[str, str, str, str]] = []
        self.planted: set[tuple[str, str]] = set()

    @property
    def room(self) -> int:
        return self.n_objects - len(self.items)

    def add(
        self,
        kind: str,
        *,
        attribute: str | None = None,
        relation: str | None = None,
        support: str | None = None,
        planted: bool = False,
    ) -> None:
        rng = self.rng
        attribute = attribute or rng.choice(words.ATTRIBUTES)
        support = support or rng.choice(words.SUPPORTS)
        relation = relation or rng.choice(RELATIONS)
        if support == 'floor' and relation in ('under', 'in'):
            support = 'rug'
        if planted:
            self.planted.add((kind, attribute))
        self.items.append((attribute, kind, relation, support))

    def plant(self, kinds: Sequence[str], count: int = 1) -> None:
        """Add one object each of ``count`` different kinds."""
        for kind in self.rng.sample(kinds, count):
            if self.room > 0:
                self.add(kind, planted=True)

    def fill(self, kinds: Sequence[str]) -> None:
        """Add objects up to the number wanted that no planted one can be mistaken for."""
        while self.room > 0:
            kind, attribute = self.rng.choice(kinds), self.rng.choice(words.ATTRIBUTES)
            if (kind, attribute) not in self.planted:
                self.add(kind, attribute=attribute)

    def build(self, reach_m: float) -> Scene:
        rng = self.rng
        rng.shuffle(self.items)
        numbered = rng.random() < 0.3
        counts: Counter[str] = Counter()
        free: dict[str, list[int]] = {}
        objects = []
        for attribute, kind, relation, support in self.items:
            if numbered:
                counts[kind] += 1
                index = counts[kind]
            else:
                if kind not in free:
                    free[kind] = rng.sample(range(1, 100), 99)
                index = free[kind].pop()
            objects.append(
                SceneObject(
                    f'{kind}_{index}',
                    kind,
                    attribute,
                    relation,  # type: ignore[arg-type]
                    support,
                    round(rng.uniform(-reach_m, reach_m), 1),
                    round(rng.uniform(-reach_m, reach_m), 1),
                )
            )
        return Scene(tuple(objects))


def drone_scene(rng: random.Random, n_objects: int, themes: Collection[str]) -> Scene:
    """Return a scene of that many objects in which tasks of the themes can be asked."""
    builder = _Builder(rng, n_objects)
    kinds = [kind for kind in words.DRONE_KINDS if kind not in words.AFFORDANCES]
    asked_for = {'look_for': kinds, 'find_tool': words.TOOLS, **words.DANGERS}
    for theme in themes:
        if theme == 'check_for':
            builder.plant(words.VALUABLES, 2)
        elif theme in asked_for:
            builder.plant(asked_for[theme])
        else:
            _plant_related(builder, kinds, under=theme == 'find_under')
    tools = [kind for kind in words.TOOLS if kind not in {item[1] for item in builder.items}]
    favourites = rng.sample((*words.VALUABLES, *words.PEOPLE, *words.ANIMALS), 6)
    builder.fill([*kinds, *tools, *favourites])
    return builder.build(rng.choice((2.0, 4.0, 9.9, 9.9, 9.9)) if rng.random() < 0.97 else 99.9)


def _plant_related(builder: _Builder, kinds: Sequence[str], *, under: bool) -> None:
    """Add an object and others that share its kind, its support or its relation."""
    rng = builder.rng
    if builder.room <= 0:
        return
    kind, attribute = rng.choice(kinds), rng.choice(words.ATTRIBUTES)
    support, other_support = rng.sample(words.SUPPORTS, 2)
    relation = 'under' if under else rng.choice(('on', 'on', 'in', 'near'))
    others = [other for other in RELATIONS if other != relation]
    builder.add(kind, attribute=attribute, relation=relation, support=support, planted=True)
    if builder.room > 0 and rng.random() < 0.6:
        builder.add(kind, relation=relation, support=other_support)
    if builder.room > 0 and rng.random() < 0.5:
        builder.add(kind, relation=rng.choice(others), support=support)
    if builder.room > 0 and rng.random() < 0.5:
        builder.add(rng.choice(kinds), relation=relation, support=support)


def arm_scene(rng: random.Random, n_objects: int, themes: Collection[str]) -> Scene:
    """Return a scene of that many objects in which tasks of the themes can be asked."""
    builder = _Builder(rng, n_objects)
    containers = rng.sample(words.CONTAINERS, len(words.CONTAINERS))
    if 'clean' in themes and 'bin' in containers[2:] and rng.random() < 0.6:
        containers.remove('bin')
        containers.insert(rng.randrange(2), 'bin')
    surfaces = rng.sample(words.SURFACES, len(words.SURFACES))
    if rng.random() < 0.5:
        surfaces.remove('desk')
        surfaces.insert(0, 'desk')
    if 'clean' in themes:
        builder.add(surfaces[0], relation='on', support='floor', planted=True)
        builder.add(containers[0], relation='near', support=surfaces[0], planted=True)
    if 'sort' in themes:
        missing = 1 if 'clean' in themes else 2
        for container in containers[2 - missing : 2]:
            builder.add(container, support='floor', planted=True)
    on_surface = 0
    limit = min(MAX_LISTED, max(2, n_objects // max(1, len(themes))))
    tended = set(surfaces[:2]) if 'sort' in themes else set(surfaces[:1])

    def where() -> _Place:
        """A place that keeps what lies on the surfaces to tend within its limits."""
        nonlocal on_surface
        support, relation = rng.choice(words.SUPPORTS), rng.choice(RELATIONS)
        if support in tended and relation == 'on':
            support = 'shelf'
        if 'clean' in themes and on_surface < limit and rng.random() < 0.3:
            on_surface += 1
            support, relation = surfaces[0], 'on'
        return {'support': support, 'relation': relation}

    if 'stack' in themes:
        looks = [(kind, colour) for kind in words.BLOCKS for colour in words.COLOURS]
        if rng.random() < 0.6:
            looks = [look for look in looks if look[0] == 'block']
        count = min(builder.room, rng.randint(2, 4 + (n_objects > 10) + (n_objects > 30)))
        for kind, colour in rng.sample(looks, max(0, count)):
            builder.add(kind, attribute=colour, planted=True, **where())
    if 'sort' in themes:
        count = max(0, min(builder.room, rng.randint(2, limit) if limit > 2 else 2))
        for position in range(count):
            fruit = position == 0 or (position > 1 and rng.random() < 0.5)
            kind = rng.choice(words.FRUITS if fruit else words.VEGETABLES)
            builder.add(kind, relation='on', support=surfaces[1])
    if 'clean' in themes:
        count = min(builder.room, rng.randint(1, limit)) - on_surface
        for _ in range(max(0, count)):
            on_surface += 1
            builder.add(rng.choice(_ARM_FILL), relation='on', support=surfaces[0])
    while builder.room > 0:
        place: _Place = where() if n_objects < 30 else {}
        if not place:
            place = {'support': rng.choice([s for s in words.SUPPORTS if s not in tended])}
            if rng.random() < 0.05:
                place = {'support': surfaces[0], 'relation': rng.choice(('under', 'near', 'in'))}
        builder.add(rng.choice(_ARM_FILL), **place)
    return builder.build(0.8)
