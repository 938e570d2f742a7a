"""The planner that knows: for each kind of task an instruction and the plan that is right.

Conventions, all functions of scene and instruction:

* A drone on a normal task takes off, does what the modifiers say (climb, look around), flies to the
  object, waits if told to, takes a picture and lands.
* Check for A or B: each in the order said; a picture only where the robot then sees the object.
* Check an object on, in or near a support: a picture if it is seen, else a look around.
* Under a support: the drone goes down 30 cm before the picture.
* Urgent: the drone flies already. It moves away from the object: right of one on its left
  (y >= 0), backward from one ahead (x >= 0).
* An arm handles what lies on a surface in the order of the scene, a tower from bottom to top.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from timely_llm_ros.sample_tasks import words
from timely_llm_ros.sample_tasks.scenes import MAX_LISTED
from timely_llm_ros.sample_tasks.wordings import core, modifier, wrap

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection

    from timely_llm_ros.skills import Scene, SceneObject

    Answer = tuple[str, str] | tuple[str, str, str]
    Oracle = Callable[[random.Random, Scene, bool], Answer | None]

_TRIES = 12
_ARTICLES = ('the', 'the', 'the', 'a', 'my', 'our')


def _description(
    rng: random.Random, scene: Scene, item: SceneObject, *, plural: bool = False
) -> str | None:
    """Return words that mean this object and no other, or None."""
    same = [other for other in scene.objects if other.kind == item.kind]
    alike = sum(other.attribute == item.attribute for other in same)
    kind = words.plural(item.kind) if plural else item.kind
    if alike > 1:
        return None
    if len(same) == 1 and rng.random() < 0.8:
        return kind
    return f'{item.attribute} {kind}'


def _pick(
    rng: random.Random, scene: Scene, kinds: Collection[str] | None
) -> tuple[SceneObject, str] | None:
    """Return a random object of the kinds and how to call it without doubt, with an article."""
    candidates = [item for item in scene.objects if kinds is None or item.kind in kinds]
    for _ in range(_TRIES if candidates else 0):
        item = rng.choice(candidates)
        description = _description(rng, scene, item)
        if description is not None:
            return item, f'{rng.choice(_ARTICLES)} {description}'
    return None


def _distance(rng: random.Random) -> tuple[str, int]:
    """Return a distance in words and in cm."""
    if rng.random() < 0.5:
        return rng.choice(words.NUMBER_PHRASES)
    value_cm = rng.randrange(20, 310, 10)
    return f'{value_cm} {rng.choice(("cm", "centimetres"))}', value_cm


def _seconds(rng: random.Random) -> tuple[str, int]:
    """Return a time in words and in ms."""
    if rng.random() < 0.5:
        return rng.choice(words.SECOND_PHRASES)
    value_ms = rng.randrange(500, 10000, 500)
    return f'{value_ms} ms', value_ms


def _flight(
    rng: random.Random, text: str, item: SceneObject, look: str, *, held_out: bool
) -> tuple[str, str]:
    """Return instruction and plan of a flight to the object: modifiers before and after."""
    before, after = '', ''
    drawn = rng.random()
    if drawn < 0.15:
        said, value = _distance(rng)
        text += modifier(rng, 'climb', {'d': said}, held_out=held_out)
        before = f'move_up({value});'
    elif drawn < 0.3:
        said, value = _seconds(rng)
        text += modifier(rng, 'wait', {'d': said}, held_out=held_out)
        after = f'delay({value});'
    elif drawn < 0.4:
        text += modifier(rng, 'around', {}, held_out=held_out)
        before = 'repeat(4){turn_cw(90);delay(500);};'
    plan = f'takeoff;{before}goto({item.name});{after}{look}land;'
    return wrap(rng, text, urgent=False), plan


def _look_for(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    found = _pick(rng, scene, None)
    if found is None:
        return None
    item, said = found
    text = core(rng, 'look_for', {'t': said}, held_out=held_out)
    return _flight(rng, text, item, 'take_picture;', held_out=held_out)


def _check_for(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    candidates = [item for item in scene.objects if item.kind in words.VALUABLES]
    for _ in range(_TRIES if len(candidates) > 1 else 0):
        first, second = rng.sample(candidates, 2)
        said = [_description(rng, scene, item, plural=True) for item in (first, second)]
        if first.kind == second.kind or None in said:
            continue
        slots = dict(zip('ab', map(str, said), strict=True))
        text = core(rng, 'check_for', slots, held_out=held_out)
        steps = []
        for item in (first, second):
            seen = rng.random() < 0.5
            picture = '#true take_picture;' if seen else '#false '
            steps.append(f'goto({item.name});is_visible({item.name});{picture}')
        return wrap(rng, text, urgent=False), f'takeoff;{"".join(steps)}land;'
    return None


def _related(
    rng: random.Random, scene: Scene, *, under: bool
) -> tuple[SceneObject, dict[str, str]] | None:
    """Return an object that its relation and support tell from others, and the words for it."""
    candidates = [item for item in scene.objects if (item.relation == 'under') == under]
    for _ in range(_TRIES if candidates else 0):
        item = rng.choice(candidates)
        place = (item.kind, item.relation, item.support)
        same = [o for o in scene.objects if (o.kind, o.relation, o.support) == place]
        if sum(o.attribute == item.attribute for o in same) > 1:
            continue
        exact = len(same) > 1 or rng.random() < 0.15
        said = f'{item.attribute} {item.kind}' if exact else item.kind
        slots = {
            't': f'{rng.choice(_ARTICLES)} {said}',
            'r': item.relation,
            'u': rng.choice(('under', 'under', 'below', 'beneath')),
            's': f'the {item.support}',
        }
        return item, slots
    return None


def _check_on(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    found = _related(rng, scene, under=False)
    if found is None:
        return None
    item, slots = found
    text = core(rng, 'check_on', slots, held_out=held_out)
    look = f'if(is_visible({item.name})){{take_picture;}}else{{scan;}};'
    return _flight(rng, text, item, look, held_out=held_out)


def _find_under(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    found = _related(rng, scene, under=True)
    if found is None:
        return None
    item, slots = found
    text = core(rng, 'find_under', slots, held_out=held_out)
    return _flight(rng, text, item, 'move_down(30);take_picture;', held_out=held_out)


def _find_tool(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    counts = Counter(item.kind for item in scene.objects)
    tools = [o for o in scene.objects if o.kind in words.AFFORDANCES and counts[o.kind] == 1]
    if not tools:
        return None
    item = rng.choice(tools)
    use = rng.choice(words.AFFORDANCES[item.kind])
    text = core(rng, 'find_tool', {'v': use}, held_out=held_out)
    look = 'take_picture;log("tool found");'
    return _flight(rng, text, item, look, held_out=held_out)


def _urgent(
    rng: random.Random, scene: Scene, theme: str, *, held_out: bool
) -> tuple[str, str, str, int | None, str] | None:
    """Return instruction, moves to the side and along, the distance said (cm), and from what."""
    kinds = {
        'avoid_injury': words.PEOPLE,
        'prevent_collision': words.OBSTACLES,
        'evade_animal': words.ANIMALS,
    }[theme]
    found = _pick(rng, scene, kinds)
    if found is None:
        return None
    item, said = found
    text = core(rng, theme, {'t': said}, held_out=held_out)
    value_cm = None
    if rng.random() < 0.4:
        phrase, value_cm = _distance(rng)
        text += modifier(rng, 'distance', {'d': phrase}, held_out=held_out)
    side = 'move_left' if round(item.y_m, 1) < 0 else 'move_right'
    along = 'move_forward' if round(item.x_m, 1) < 0 else 'move_backward'
    return wrap(rng, text, urgent=True), side, along, value_cm, item.name


def _avoid_injury(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str, str] | None:
    found = _urgent(rng, scene, 'avoid_injury', held_out=held_out)
    if found is None:
        return None
    text, side, along, value_cm, name = found
    return text, f'{side}({value_cm or 100});{along}(50);hover;', name


def _prevent_collision(
    rng: random.Random, scene: Scene, held_out: bool
) -> tuple[str, str, str] | None:
    found = _urgent(rng, scene, 'prevent_collision', held_out=held_out)
    if found is None:
        return None
    text, side, along, value_cm, name = found
    return text, f'{along}({value_cm or 60});{side}(60);hover;', name


def _evade_animal(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str, str] | None:
    found = _urgent(rng, scene, 'evade_animal', held_out=held_out)
    if found is None:
        return None
    text, side, _, value_cm, name = found
    return text, f'move_up(150);{side}({value_cm or 150});hover;', name


def _stack(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    blocks = [item for item in scene.objects if item.kind in words.BLOCKS]
    if len(blocks) < 2:
        return None
    tower = rng.sample(blocks, rng.randint(2, min(4, len(blocks))))
    said = [f'the {item.attribute} {item.kind}' for item in tower]
    if rng.random() < 0.7:
        separator = rng.choice((', ', ', ', ' then ', ', then '))
        last = rng.choice((' and ', ', ', ' and then '))
        slots = {
            'list': separator.join(said[:-1]) + last + said[-1],
            'first': said[0],
            'rest': separator.join(said[1:-1]) + last + said[-1] if len(said) > 2 else said[1],
        }
        text = core(rng, 'stack_up', slots, held_out=held_out)
    else:
        pairs = [f'{upper} on {lower}' for lower, upper in itertools.pairwise(said)]
        slots = {'pairs': rng.choice((', ', ' and ', ', then ')).join(pairs)}
        text = core(rng, 'stack_on', slots, held_out=held_out)
    steps = itertools.pairwise(tower)
    plan = ''.join(f'pick({upper.name});place({lower.name});' for lower, upper in steps)
    return wrap(rng, text, urgent=False), f'{plan}home;'


def _clean(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    kinds = Counter(item.kind for item in scene.objects)
    surfaces = [o for o in scene.objects if o.kind in words.SURFACES and kinds[o.kind] == 1]
    containers = [o for o in scene.objects if o.kind in words.CONTAINERS and kinds[o.kind] == 1]
    if not surfaces or not containers:
        return None
    surface, container = rng.choice(surfaces), rng.choice(containers)
    place = ('on', surface.kind)
    items = [
        o for o in scene.objects if (o.relation, o.support) == place and o.name != container.name
    ]
    if not 1 <= len(items) <= MAX_LISTED:
        return None
    slots = {'s': f'the {surface.kind}', 'c': f'the {container.kind}'}
    theme = 'clean_surface' if container.kind == 'bin' and rng.random() < 0.6 else 'clean_into'
    text = core(rng, theme, slots, held_out=held_out)
    plan = ''.join(f'pick({item.name});place({container.name});' for item in items)
    return wrap(rng, text, urgent=False), f'{plan}wipe({surface.name});home;'


def _is_produce(item: SceneObject) -> bool:
    return item.kind in words.FRUITS or item.kind in words.VEGETABLES


def _sort(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    kinds = Counter(item.kind for item in scene.objects)
    containers = [o for o in scene.objects if o.kind in words.CONTAINERS and kinds[o.kind] == 1]
    lying = {
        surface: [o for o in scene.objects if (o.relation, o.support) == ('on', surface)]
        for surface in words.SURFACES
    }
    food = [
        surface
        for surface, items in lying.items()
        if 1 <= len(items) <= MAX_LISTED and all(map(_is_produce, items))
    ]
    if len(containers) < 2 or not food:
        return None
    surface = rng.choice(food)
    produce = lying[surface]
    fruit, vegetables = rng.sample(containers, 2)
    slots = {'s': f'the {surface}', 'f': f'the {fruit.kind}', 'g': f'the {vegetables.kind}'}
    text = core(rng, 'sort', slots, held_out=held_out)
    plan = ''.join(
        f'sort_into({o.name},{(fruit if o.kind in words.FRUITS else vegetables).name});'
        for o in produce
    )
    return wrap(rng, text, urgent=False), f'{plan}home;'


ORACLES: dict[str, Oracle] = {
    'look_for': _look_for,
    'check_for': _check_for,
    'check_on': _check_on,
    'find_under': _find_under,
    'find_tool': _find_tool,
    'avoid_injury': _avoid_injury,
    'prevent_collision': _prevent_collision,
    'evade_animal': _evade_animal,
    'stack': _stack,
    'clean': _clean,
    'sort': _sort,
}
"""By theme: (randomness, scene, held-out wordings?) -> instruction, plan and perhaps the danger."""
