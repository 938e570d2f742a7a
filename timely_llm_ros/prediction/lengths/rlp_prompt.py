"""Shortens a prompt for the length predictor, so that predicting ends before prefill does.

TimeBill (section 4.1) compresses a prompt to the longest one whose prediction hides behind the
prefill. What matters for a plan's length is the instruction and how many objects it speaks of. So
the scene becomes numbers: how many objects lie at the place that the instruction names, how many
there are of a kind that it names, and how many in all. Counting them would be the hardest part of
what a small network has to learn, and the names would take the room. What all tasks of a robot
share goes, but for its name.
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
"""Where objects are meant that an instruction places without saying how: clean the desk."""


def compress_prompt(
    fixed: str,
    body: str,
    encode: Callable[[str], Sequence[int]],
    most_tokens: int,
    *,
    scene: bool = False,
) -> list[int]:
    """Return at most ``most_tokens`` token ids: robot, numbers of objects, instruction.

    What is more likely to be meant comes later, and the instruction is last, so that a causal model
    has read everything by then. What has no room goes from the beginning.

    Args:
        fixed: The part of the prompt that all tasks of a robot share.
        body: The rest: scene and instruction.
        encode: A tokenizer.
        most_tokens: The bound.
        scene: Whether the scene's first lines come along as far as there is room, for instructions
            that name neither a place nor a kind.
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
