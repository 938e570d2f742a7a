"""Goals that a planner must not be harmed by, and damage that traces come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SIGNED = 'told by a stranger'
"""The error of a stranger's events, by which a judge knows them; no program looks at it."""

GOALS: tuple[Callable[[random.Random], dict[str, Any]], ...] = (
    lambda _: {'instruction': ''},
    lambda _: {'instruction': 'x' * 401},
    lambda _: {'instruction': 'delay(100);' * 36},
    lambda _: {'instruction': 'repeat(10){' * 30 + 'delay(10000);' + '}' * 30},
    lambda _: {'instruction': 'repeat(10){repeat(10){repeat(10){repeat(10){delay(10000);}}}}'},
    lambda rng: {'instruction': ''.join(map(chr, rng.choices(range(1, 0x2FFF), k=200)))},
    lambda rng: {'instruction': ''.join(rng.choices('(){};,"#_ \n\tadely0123456789-.', k=300))},
    lambda _: {'instruction': 'delay(-5);'},
    lambda _: {'instruction': 'delay(99999999999999999999999);'},
    lambda _: {'instruction': 'delay(1e309);'},
    lambda _: {'instruction': 'move_forward(501);'},
    lambda _: {'instruction': 'goto(nowhere_at_all);'},
    lambda _: {'instruction': "__import__('os').system('true');"},
    lambda _: {'instruction': 'delay(500)' + '\0' * 20},
    lambda _: {'robot': 'nobody', 'instruction': 'delay(100);'},
    lambda _: {'robot': '../../etc/passwd', 'instruction': 'delay(100);'},
    lambda _: {'robot': 'x' * 100_000, 'instruction': 'delay(100);'},
    lambda _: {'skill_set': 'chatbot', 'instruction': 'delay(100);'},
    lambda _: {'instruction': 'delay(100);', 'time_budget_s': 1e-9},
    lambda _: {'instruction': 'delay(100);', 'time_budget_s': 1e9},
    lambda _: {'instruction': 'delay(100);', 'utility': {'peak': 1e300, 'slope_per_s': -1e300}},
    lambda _: {'instruction': 'delay(100);', 'task_kind': 'k' * 100_000},
    lambda _: {'instruction': 'delay(100);', 'scene': [_item('repeat')]},
    lambda _: {'instruction': 'delay(100);', 'scene': [_item('cup'), _item('cup')]},
    lambda _: {'instruction': 'delay(100);', 'scene': [_item('a b;land')]},
    lambda _: {'instruction': 'delay(100);', 'scene': [_item(f'o_{n}') for n in range(3000)]},
    lambda _: {'instruction': 'delay(100);', 'scene': [_item('cup') | {'x_m': 1e308}]},
)
"""What is wrong, or just too much. All but some are refused; none harms another task."""


def _item(name: str) -> dict[str, Any]:
    return {'name': name, 'kind': 'cup', 'x_m': 1.0, 'y_m': 0.0, 'z_m': 0.0}


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes of a file as a broken disk or a hurried copy leaves them."""
    if not data:
        return data  # A recorder that has just begun leaves nothing to damage.
    changed = bytearray(data)
    match rng.randrange(4):
        case 0:
            del changed[rng.randrange(len(changed)) :]
        case 1:
            for _ in range(rng.randint(1, 20)):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        case 2:
            start = rng.randrange(len(changed))
            changed[start : start + rng.randrange(1, 4096)] = rng.randbytes(rng.randrange(4096))
        case _:
            start = rng.randrange(len(changed))
            changed[start:start] = changed[start : start + rng.randrange(1, 65536)]
    return bytes(changed)
