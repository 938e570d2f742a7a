"""The words of the generated world: what there is, what it looks like, where it lies."""

from __future__ import annotations

COLOURS = (
    'red',
    'blue',
    'green',
    'yellow',
    'black',
    'white',
    'brown',
    'grey',
    'purple',
    'pink',
)
"""Attributes that wordings may name."""

ATTRIBUTES = (*COLOURS, 'plain', 'old', 'small', 'large', 'wooden', 'striped')
"""Every attribute that an object of a scene may have."""

SUPPORTS = (
    'floor',
    'table',
    'desk',
    'shelf',
    'cabinet',
    'bed',
    'sofa',
    'chair',
    'counter',
    'bench',
    'box',
    'drawer',
    'rug',
    'wardrobe',
    'window',
    'stove',
    'fridge',
    'piano',
    'rack',
    'stairs',
)
"""What an object may lie on, under, in or near."""

SURFACES = ('desk', 'table', 'counter', 'bench')
"""What an arm can be asked to clean."""

ANIMALS = ('cat', 'dog', 'rabbit', 'bird', 'fox', 'goose', 'wasp', 'hamster', 'crow', 'turtle')
PEOPLE = ('child', 'person', 'worker', 'toddler', 'visitor', 'cyclist', 'man', 'woman')
OBSTACLES = ('pole', 'tree', 'lamp', 'door', 'wall', 'car', 'cart', 'kite', 'balloon', 'ladder')
DANGERS = {'avoid_injury': PEOPLE, 'prevent_collision': OBSTACLES, 'evade_animal': ANIMALS}
"""What an urgent task is about, by its theme."""

VALUABLES = ('key', 'wallet', 'phone', 'watch', 'ticket', 'coin', 'card', 'passport', 'purse')
THINGS = (
    'book',
    'vase',
    'cup',
    'plate',
    'bottle',
    'candle',
    'clock',
    'radio',
    'laptop',
    'basket',
    'pillow',
    'blanket',
    'hat',
    'bag',
    'umbrella',
    'plant',
    'mirror',
    'camera',
    'guitar',
    'letter',
)
TOYS = ('toy', 'ball', 'doll', 'puzzle', 'teddy', 'robot', 'sock', 'shoe', 'slipper', 'train')

AFFORDANCES: dict[str, tuple[str, ...]] = {
    'scissors': ('cutting paper', 'cutting a ribbon', 'trimming paper'),
    'hammer': ('driving nails', 'hitting a nail', 'breaking a nut'),
    'screwdriver': ('tightening a screw', 'turning screws', 'loosening screws'),
    'pen': ('writing a note', 'signing a form', 'writing'),
    'ruler': ('measuring a line', 'drawing a straight line', 'measuring lengths'),
    'broom': ('sweeping the floor', 'sweeping up dust', 'sweeping'),
    'torch': ('lighting a dark corner', 'seeing in the dark', 'giving light'),
    'glue': ('sticking paper together', 'gluing a photo', 'gluing'),
    'drill': ('drilling a hole', 'making holes in a wall', 'drilling'),
    'brush': ('painting a fence', 'painting the wall', 'painting'),
    'spoon': ('eating soup', 'stirring tea', 'stirring'),
    'shovel': ('digging a hole', 'digging soil', 'moving snow'),
    'saw': ('sawing wood', 'cutting wood', 'cutting a branch'),
    'wrench': ('turning a bolt', 'tightening a nut', 'loosening a bolt'),
    'needle': ('sewing a button', 'sewing', 'mending a shirt'),
    'thermometer': ('taking the temperature', 'measuring a fever', 'measuring heat'),
}
"""What a tool is good for: kind of tool -> ways to say it."""

TOOLS = tuple(AFFORDANCES)
DRONE_KINDS = (*ANIMALS, *PEOPLE, *OBSTACLES, *VALUABLES, *THINGS, *TOYS, *TOOLS)

BLOCKS = ('block', 'cube', 'brick')
FRUITS = ('apple', 'banana', 'pear', 'lemon', 'peach', 'plum', 'mango', 'kiwi', 'cherry', 'melon')
VEGETABLES = (
    'carrot',
    'potato',
    'onion',
    'tomato',
    'pepper',
    'cucumber',
    'cabbage',
    'leek',
    'radish',
    'pumpkin',
)
CONTAINERS = ('bin', 'bowl', 'basket', 'crate', 'tray', 'bucket')
LITTER = (
    'cup',
    'pen',
    'book',
    'paper',
    'bottle',
    'plate',
    'fork',
    'spoon',
    'can',
    'wrapper',
    'sponge',
    'tape',
    'eraser',
    'ruler',
    'card',
    'key',
    'mug',
    'napkin',
    'cable',
    'stapler',
    'clip',
    'glove',
)
"""What lies around on an arm's work places."""

PLURALS = {'watch': 'watches', 'card': 'cards', 'passport': 'passports'}


def plural(kind: str) -> str:
    """Return the plural of a kind."""
    return PLURALS.get(kind, kind + 's')


NUMBER_PHRASES = (
    ('half a metre', 50),
    ('one metre', 100),
    ('one and a half metres', 150),
    ('two metres', 200),
    ('three metres', 300),
)
"""Distances in words: phrase, centimetres."""

SECOND_PHRASES = (
    ('one second', 1000),
    ('two seconds', 2000),
    ('three seconds', 3000),
    ('five seconds', 5000),
)
"""Times in words: phrase, milliseconds."""
