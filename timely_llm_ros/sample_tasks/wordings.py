"""Templates of instructions, of which some are held out for evaluation.

``[a|b]`` stands for one of several words, ``{slot}`` for what the task fills in. An instruction is
opener + core (+ modifier) + closer. Held-out cores and modifiers use only words that occur in
trained ones, because the model knows no others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

OPENERS = (
    '',
    '',
    '',
    '',
    'please ',
    'hey, ',
    'now ',
    'could you ',
    'can you ',
    'i want you to ',
    'your task is to ',
    'robot, ',
    'ok, ',
)
CLOSERS = ('', '', '', '', ' please', ' for me', ' now', ', thanks', ' and be careful')
URGENT_OPENERS = ('', '', '', 'quick, ', 'careful, ', 'now ', 'attention, ', 'watch out, ')
URGENT_CLOSERS = ('', '', '', ' now', ' at once', ' quickly', ' right away')

CORES: dict[str, tuple[str, ...]] = {
    'look_for': (
        '[look|search] for {t}', '[find|locate|spot] {t}', 'go and [find|see] {t}',
        'take a [picture|photo] of {t}', 'see if you can [find|spot] {t}',
        'i lost {t}, [look|search] for it', 'track down {t}', 'fly out and [find|locate] {t}',
        'i am looking for {t}, help me find it', 'where is {t}? go and look',
        'help me [find|spot] {t}', 'fly to {t}', 'bring me a [picture|photo] of {t}',
        'tell me where {t} is', 'go and see where {t} went', 'i lost {t}', 'i lost {t}, find it',
        'find out where {t} is', 'i miss {t}, help me find it', 'help me look for {t}',
        'see {t}? find it',
        'go and track down {t}', 'look where {t} is', 'can {t} be found? look for it',
        'locate {t} for me',
    ),
    'check_for': (
        'check for {a} or {b}', '[look|search] for {a} or {b}', 'see if there are {a} or {b}',
        'check whether {a} or {b} are there', 'did someone leave {a} or {b}? check it',
        'look around for {a} and {b}', 'i miss {a} and {b}, check for them',
        'check {a} and then {b}', 'verify that {a} and {b} are there',
        'make sure {a} and {b} are there',
        'i lost {a} and {b}', 'i lost {a} or {b}, find them', 'go and look for {a} or {b}',
        'look whether {a} and {b} are there', 'tell me if there are {a} or {b}', 'find {a} and {b}',
        'i left {a} and {b}, look for them', 'go and see if there are {a} and {b}',
        'check for {a}, {b}',
    ),
    'check_on': (
        'check {t} {r} {s}', '[inspect|verify] {t} {r} {s}', 'go and check {t} {r} {s}',
        'have a look at {t} {r} {s}', 'make sure {t} is still {r} {s}', 'is {t} {r} {s}? check it',
        'check whether {t} is {r} {s}', 'confirm that {t} is {r} {s}',
        'i left {t} {r} {s}, check it', 'see if {t} is still {r} {s}',
        'tell me if {t} is {r} {s}', 'go and confirm that {t} is {r} {s}', 'verify {t} is {r} {s}',
        'look if {t} is still {r} {s}', 'go and make sure {t} is {r} {s}',
        'see whether {t} is {r} {s}',
    ),
    'find_under': (
        'find {t} {u} {s}', '[look|search] for {t} {u} {s}', 'there is {t} {u} {s}, find it',
        'look {u} {s} for {t}', 'search {u} {s} and find {t}', 'i lost {t} {u} {s}',
        'get a [picture|photo] of {t} {u} {s}', 'go and see {t} {u} {s}',
        'see if {t} is {u} {s}', 'locate {t} {u} {s}',
        'go and look for {t} {u} {s}', 'i lost {t} {u} {s}, look for it', 'is {t} {u} {s}?',
        'is {t} {u} {s}? find it', 'track down {t} {u} {s}', 'go and search {u} {s} for {t}',
    ),
    'find_tool': (
        'find a tool for {v}', 'find something for {v}', '[look|search] for a tool for {v}',
        'i need [a tool|something] for {v}', 'what can i use for {v}? find it',
        'find me something good for {v}', 'locate [a tool|something] for {v}',
        'is there [a tool|something] for {v}? go and look', 'i want to do some {v}, find a tool',
        'show me something to use for {v}',
        'look for something good for {v}', 'i need something for {v}, find it',
        'go and find a tool for {v}',
        'find something to use for {v}', 'i am {v}, find me a tool',
        'go and look for a tool for {v}',
    ),
    'avoid_injury': (
        'avoid hurting {t}', 'do not [hurt|injure] {t}', '{t} is in your way, do not hurt anyone',
        '{t} runs towards you', 'watch {t}, avoid injury', 'keep {t} safe',
        'stay away from {t}', 'avoid human injury, {t} is close',
        '{t} could get hurt, move away', 'you are too close to {t}, avoid injury',
        '{t} is close, do not hurt anyone', 'move away, {t} is too close',
        '{t} is too close, avoid injury',
        'move away from {t}, do not hurt anyone', 'do not get close to {t}, avoid injury',
    ),
    'prevent_collision': (
        'prevent a [collision|crash] with {t}', 'do not [crash into|hit] {t}', 'avoid {t}',
        'you are about to hit {t}', '{t} is close, prevent a collision',
        '{t} is in your way, move away', 'collision with {t} is near',
        'you fly into {t}, stop that', 'you are too close to {t}, prevent a crash',
        'dodge {t}',
        'you are too close to {t}, do not crash', '{t} is near, move away',
        'avoid a crash with {t}',
        'move away from {t}, do not crash into it', 'a crash with {t} is near, move away',
    ),
    'evade_animal': (
        'evade {t}', '[escape|flee] from {t}', '{t} is chasing you', '{t} attacks you',
        'get away from {t}', '{t} is after you, escape', '{t} runs after you',
        'do not let {t} catch you', 'avoid {t}, it is chasing you', 'keep away from {t}',
        '{t} is chasing you, escape', '{t} runs towards you, get away', 'get away, {t} attacks you',
        '{t} is after you, flee', 'do not let {t} get close, escape',
    ),
    'clean_surface': (
        'clean {s}', '[tidy|clear] {s}', 'clear everything off {s}', 'tidy up {s}',
        'throw away everything on {s}', 'clear {s} and wipe it', 'remove everything from {s}',
        'take everything off {s} and wipe it', '{s} is dirty, clean it', 'get {s} clean',
        'clean up {s} now', 'tidy {s} and wipe it', 'take everything off {s}', 'get {s} clear',
    ),
    'clean_into': (
        'clear {s} into {c}', 'put everything on {s} into {c}', 'clean {s}, use {c}',
        'throw everything from {s} into {c}', 'tidy {s}: everything goes into {c}',
        'move everything off {s} into {c} and wipe it',
        'everything on {s} belongs in {c}, clean up',
        'clean {s} and put everything into {c}', 'remove all items from {s}, they go into {c}',
        'clear {s}, everything goes into {c}', 'tidy up {s}, use {c}',
        'take everything off {s} into {c}',
        'clear {s}, use {c}', 'clean up {s} into {c}',
    ),
    'sort': (
        'sort the fruit on {s} into {f} and the vegetables into {g}',
        'sort the vegetables on {s} into {g} and the fruit into {f}',
        'put the fruit from {s} into {f} and the vegetables into {g}',
        'put vegetables on {s} into {g} and fruit into {f}',
        'everything on {s}: fruit goes into {f}, vegetables go into {g}',
        'clear {s}: vegetables go into {g}, fruit goes into {f}',
        'sort the food on {s}: fruit into {f}, vegetables into {g}',
        'separate fruit and vegetables on {s}, fruit in {f} and vegetables in {g}',
        'sort what is on {s}, fruit belongs in {f} and vegetables in {g}',
        'all fruit on {s} belongs in {f} and all vegetables belong in {g}, sort them',
        'sort fruit and vegetables from {s}, vegetables in {g} and fruit in {f}',
        'sort them: vegetables on {s} go into {g}, fruit goes into {f}',
        'put all fruit on {s} in {f} and all vegetables in {g}',
        'separate the food on {s}, all fruit goes into {f} and all vegetables into {g}',
        'sort everything on {s}: vegetables go into {g} and fruit goes into {f}',
    ),
    'stack_up': (
        'stack {list} from bottom to top', 'stack up {list}', 'build a tower of {list}',
        'build a tower with {first} at the bottom, then {rest}', 'pile up {list}, bottom first',
        'stack the blocks, first {first}, then {rest}', 'make a tower: {list}',
        'start with {first}, then stack {rest} on top', 'stack them: {list}',
        'use {first} as the bottom and put {rest} on top',
        'make a tower of {list}', 'build a tower, first {first}, then {rest}',
        'pile them up: {list}',
        'stack {first}, then {rest}',
    ),
    'stack_on': (
        'put {pairs}', 'place {pairs}', 'stack {pairs}', 'build a tower: {pairs}',
        'make a tower: put {pairs}', 'i want a tower, place {pairs}', 'use the blocks: {pairs}',
        'i want you to put {pairs}', 'build a tower, place {pairs}',
    ),
}  # fmt: skip
"""Trained cores by theme."""

HELD_OUT_CORES: dict[str, tuple[str, ...]] = {
    'look_for': (
        'go and look for {t}', 'help me locate {t}', 'i lost {t}, help me find it',
        'see where {t} is',
    ),
    'check_for': ('look whether there are {a} or {b}', 'i lost {a} and {b}, look for them',
                  'go and check for {a} and {b}'),
    'check_on': ('verify that {t} is {r} {s}', 'go and see if {t} is {r} {s}',
                 'make sure that {t} is {r} {s}'),
    'find_under': ('go and find {t} {u} {s}', 'i lost {t} {u} {s}, find it',
                   'is {t} {u} {s}? go and look'),
    'find_tool': ('look for something for {v}', 'i need a tool for {v}, find it',
                  'go and find something good for {v}'),
    'avoid_injury': ('{t} is too close, do not hurt anyone', 'move away from {t}, avoid injury',
                     '{t} is in your way, avoid injury'),
    'prevent_collision': ('you are too close to {t}, do not hit it', '{t} is near, avoid a crash',
                          'move away, you are about to crash into {t}'),
    'evade_animal': ('{t} is chasing you, get away', 'do not let {t} get you, escape',
                     '{t} runs towards you, flee'),
    'clean_surface': ('clean up {s}', 'remove everything from {s} and wipe it', 'get {s} tidy'),
    'clean_into': ('clean up {s}, everything goes into {c}', 'clear everything off {s} into {c}',
                   'tidy {s}, use {c}'),
    'sort': ('sort everything on {s}: fruit goes into {f} and vegetables go into {g}',
             'put all vegetables on {s} in {g} and all fruit in {f}',
             'separate the food on {s}, vegetables belong in {g} and fruit in {f}'),
    'stack_up': ('make a tower of {list} from bottom to top',
                 'build a tower: first {first}, then {rest}', 'pile up {list}'),
    'stack_on': ('build a tower, put {pairs}', 'i want you to stack {pairs}'),
}  # fmt: skip
"""Cores that only evaluation uses."""

MODIFIERS: dict[str, tuple[str, ...]] = {
    'climb': (
        ', [fly|climb] up {d} first',
        ', first climb {d}',
        '. climb {d} after takeoff',
        ', stay {d} higher',
        ', but go up {d} before that',
    ),
    'wait': (
        ', wait {d} before the picture',
        ', hold still for {d} before the photo',
        '. wait {d} there',
        ', stay there for {d}',
    ),
    'around': (
        ', look around first',
        ', but turn around once before that',
        '. turn around once first',
        ', after a look around',
    ),
    'distance': (
        ', keep {d} away',
        ', keep a distance of {d}',
        ', move {d}',
        '. stay {d} away',
        ', leave {d} between you',
    ),
}
"""Trained modifiers by theme; each begins with its punctuation."""

HELD_OUT_MODIFIERS: dict[str, tuple[str, ...]] = {
    'climb': (', but climb {d} first', '. go up {d} first'),
    'wait': (', hold still there for {d}', '. wait {d} before the photo'),
    'around': (', first look around', '. look around once before that'),
    'distance': ('. keep {d} between you', ', stay at a distance of {d}'),
}
"""Modifiers that only evaluation uses."""

_CHOICE = re.compile(r'\[([^\]]*)\]')


_TRAINED = CORES | MODIFIERS
_HELD_OUT = HELD_OUT_CORES | HELD_OUT_MODIFIERS


def wording(rng: random.Random, theme: str, slots: Mapping[str, str], *, held_out: bool) -> str:
    """Return a core or modifier of the theme, its alternatives drawn and its slots filled."""
    template = rng.choice((_HELD_OUT if held_out else _TRAINED)[theme])
    if '[' in template:
        template = _CHOICE.sub(lambda match: rng.choice(match[1].split('|')), template)
    return template.format_map(slots)


def wrap(rng: random.Random, text: str, *, urgent: bool) -> str:
    """Return the whole instruction: opener, text, closer, first letter perhaps a capital."""
    openers, closers = (URGENT_OPENERS, URGENT_CLOSERS) if urgent else (OPENERS, CLOSERS)
    text = rng.choice(openers) + text + rng.choice(closers)
    return text[0].upper() + text[1:] if rng.random() < 0.3 else text
