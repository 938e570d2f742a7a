"""Shortens a prompt for the length predictor, so that predicting ends before prefill does.

TimeBill (section 4.1) compresses a prompt so far that its prediction hides behind the prefill. A
plan's length depends on the instruction and on how many objects it speaks of. So the scene becomes
numbers, which a small network would find hard to count: of objects at the place and of the kinds
that the instruction names, and of all. Of what all tasks of a robot share only its name stays.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORD = re.compile(r'[a-z]+')
_TASK = re.compile(r'^task: .*$', re.MULTILINE)
_OBJECT = re.compile(r'^(?:.* )?(\S+) (\S+) [+-][\d.]+ [+-][\d.]+=(\S+)$', re.MULTILINE)
_RELATIONS = frozenset({'on', 'under', 'in', 'near'})
_USUAL = 'on'
"""What an instruction means that names a place without saying how: clean the desk."""


def compress_prompt(
    fixed: str,
    body: str,
    encode: Callable[[str], Sequence[int]],
    most_tokens: int,
    *,
    scene: bool = False,
) -> list[int]:
    """Return at most ``most_tokens`` token ids: robot, numbers of objects, instruction.

    The likelier something is meant the later it comes, and the instruction is last, so that a
    causal model has read everything by then. What has no room is cut from the beginning.

    Args:
        fixed: The part of the prompt that all tasks of a robot share.
        body: The rest: scene and instruction.
        encode: A tokenizer.
        most_tokens: The bound.
        scene: Whether the scene's first lines fill the room that is left, for instructions that
            name neither a place nor a kind.
    """
    found = _TASK.findall(body)
    task = found[-1] if found else body
    words = set(_WORD.findall(task.removeprefix('task:').lower()))
    words |= {word.removesuffix('s') for word in words}
    places: Counter[tuple[str, str]] = Counter()
    kinds: Counter[str] = Counter()
    for relation, support, name in _OBJECT.findall(body.rpartition('task: ')[0]):
        places[support, relation] += 1
        kinds[name.rpartition('_')[0] or name] += 1
    said = [f'{count} {kind}' for kind, count in sorted(kinds.items()) if kind in words]
    meant = words & _RELATIONS or {_USUAL}
    said += [
        f'{count} {relation} {support}'
        for (support, relation), count in sorted(places.items())
        if support in words and relation in meant
    ]
    head, tail = [fixed.partition('\n')[0], str(places.total())], [*said, task]
    shown: list[str] = []
    if scene:
        room = most_tokens - len(encode('\n'.join([*head, *tail])))
        for line in body.rpartition('task: ')[0].splitlines():
            room -= len(encode(line + '\n'))
            if room < 0:
                break
            shown.append(line)
    return list(encode('\n'.join([*head, *shown, *tail])))[-most_tokens:]
