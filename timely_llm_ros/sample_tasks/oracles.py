"""Draws an instruction for each kind of task and writes the plan that is right.

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
from functools import partial
from typing import TYPE_CHECKING

from timely_llm_ros.sample_tasks import words
from timely_llm_ros.sample_tasks.scenes import MAX_LISTED
from timely_llm_ros.sample_tasks.wordings import wording, wrap

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
    """Return words that mean this object and no other, or None where there are none."""
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


def _singles(scene: Scene, kinds: Collection[str]) -> list[SceneObject]:
    """Return the objects of these kinds that are the only one of their kind."""
    counts = Counter(item.kind for item in scene.objects)
    return [item for item in scene.objects if item.kind in kinds and counts[item.kind] == 1]


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
        text += wording(rng, 'climb', {'d': said}, held_out=held_out)
        before = f'move_up({value});'
    elif drawn < 0.3:
        said, value = _seconds(rng)
        text += wording(rng, 'wait', {'d': said}, held_out=held_out)
        after = f'delay({value});'
    elif drawn < 0.4:
        text += wording(rng, 'around', {}, held_out=held_out)
        before = 'repeat(4){turn_cw(90);delay(500);};'
    plan = f'takeoff;{before}goto({item.name});{after}{look}land;'
    return wrap(rng, text, urgent=False), plan


def _look_for(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    found = _pick(rng, scene, None)
    if found is None:
        return None
    item, said = found
    text = wording(rng, 'look_for', {'t': said}, held_out=held_out)
    return _flight(rng, text, item, 'take_picture;', held_out=held_out)


def _check_for(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    candidates = [item for item in scene.objects if item.kind in words.VALUABLES]
    for _ in range(_TRIES if len(candidates) > 1 else 0):
        first, second = rng.sample(candidates, 2)
        said = [_description(rng, scene, item, plural=True) for item in (first, second)]
        if first.kind == second.kind or None in said:
            continue
        slots = dict(zip('ab', map(str, said), strict=True))
        text = wording(rng, 'check_for', slots, held_out=held_out)
        steps = []
        for item in (first, second):
            seen = rng.random() < 0.5
            picture = '#true take_picture;' if seen else '#false '
            steps.append(f'goto({item.name});is_visible({item.name});{picture}')
        return wrap(rng, text, urgent=False), f'takeoff;{"".join(steps)}land;'
    return None


def _placed(
    theme: str, look: str, rng: random.Random, scene: Scene, held_out: bool
) -> tuple[str, str] | None:
    """Fly to an object that its relation and support tell from others, then do ``look``."""
    under = theme == 'find_under'
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
        text = wording(rng, theme, slots, held_out=held_out)
        return _flight(rng, text, item, look.format(item.name), held_out=held_out)
    return None


def _find_tool(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    tools = _singles(scene, words.AFFORDANCES)
    if not tools:
        return None
    item = rng.choice(tools)
    use = rng.choice(words.AFFORDANCES[item.kind])
    text = wording(rng, 'find_tool', {'v': use}, held_out=held_out)
    look = 'take_picture;log("tool found");'
    return _flight(rng, text, item, look, held_out=held_out)


def _urgent(
    theme: str, moves: str, usual_cm: int, rng: random.Random, scene: Scene, held_out: bool
) -> tuple[str, str, str] | None:
    """Move away from a danger, ``usual_cm`` far where the instruction names no distance."""
    found = _pick(rng, scene, words.DANGERS[theme])
    if found is None:
        return None
    item, said = found
    text = wording(rng, theme, {'t': said}, held_out=held_out)
    value_cm = usual_cm
    if rng.random() < 0.4:
        phrase, value_cm = _distance(rng)
        text += wording(rng, 'distance', {'d': phrase}, held_out=held_out)
    side = 'move_left' if round(item.y_m, 1) < 0 else 'move_right'
    along = 'move_forward' if round(item.x_m, 1) < 0 else 'move_backward'
    plan = moves.format(side=side, along=along, cm=value_cm)
    return wrap(rng, text, urgent=True), f'{plan}hover;', item.name


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
        text = wording(rng, 'stack_up', slots, held_out=held_out)
    else:
        pairs = [f'{upper} on {lower}' for lower, upper in itertools.pairwise(said)]
        slots = {'pairs': rng.choice((', ', ' and ', ', then ')).join(pairs)}
        text = wording(rng, 'stack_on', slots, held_out=held_out)
    steps = itertools.pairwise(tower)
    plan = ''.join(f'pick({upper.name});place({lower.name});' for lower, upper in steps)
    return wrap(rng, text, urgent=False), f'{plan}home;'


def _clean(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    surfaces = _singles(scene, words.SURFACES)
    containers = _singles(scene, words.CONTAINERS)
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
    text = wording(rng, theme, slots, held_out=held_out)
    plan = ''.join(f'pick({item.name});place({container.name});' for item in items)
    return wrap(rng, text, urgent=False), f'{plan}wipe({surface.name});home;'


def _is_produce(item: SceneObject) -> bool:
    return item.kind in words.FRUITS or item.kind in words.VEGETABLES


def _sort(rng: random.Random, scene: Scene, held_out: bool) -> tuple[str, str] | None:
    containers = _singles(scene, words.CONTAINERS)
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
    text = wording(rng, 'sort', slots, held_out=held_out)
    plan = ''.join(
        f'sort_into({o.name},{(fruit if o.kind in words.FRUITS else vegetables).name});'
        for o in produce
    )
    return wrap(rng, text, urgent=False), f'{plan}home;'


ORACLES: dict[str, Oracle] = {
    'look_for': _look_for,
    'check_for': _check_for,
    'check_on': partial(_placed, 'check_on', 'if(is_visible({0})){{take_picture;}}else{{scan;}};'),
    'find_under': partial(_placed, 'find_under', 'move_down(30);take_picture;'),
    'find_tool': _find_tool,
    'avoid_injury': partial(_urgent, 'avoid_injury', '{side}({cm});{along}(50);', 100),
    'prevent_collision': partial(_urgent, 'prevent_collision', '{along}({cm});{side}(60);', 60),
    'evade_animal': partial(_urgent, 'evade_animal', 'move_up(150);{side}({cm});', 150),
    'stack': _stack,
    'clean': _clean,
    'sort': _sort,
}
"""By theme: (randomness, scene, held-out wordings?) -> instruction, plan and perhaps the danger."""
