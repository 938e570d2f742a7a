"""Shortens a prompt for the length predictor, so that predicting ends before prefill does.

TimeBill (section 4.1) compresses a prompt to the longest one whose prediction hides behind the
prefill. What matters for a plan's length is the instruction and the objects that it speaks of, so
those stay; what all tasks of a robot share goes, but for the robot's name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORD = re.compile(r'[a-z]+')
_TASK = re.compile(r'^task: .*$', re.MULTILINE)


def compress_prompt(
    fixed: str, body: str, encode: Callable[[str], Sequence[int]], most_tokens: int
) -> list[int]:
    """Return at most ``most_tokens`` token ids: robot, lines of the scene, instruction.

    Lines that share words with the instruction, or stand at the same place as one that does, come
    before others; those that are kept keep their order. The instruction is last, so that a causal
    model has read everything by then. Where not even it fits, its end stays.

    Args:
        fixed: The part of the prompt that all tasks of a robot share.
        body: The rest: scene and instruction.
        encode: A tokenizer.
        most_tokens: The bound.
    """
    found = _TASK.findall(body)
    task = found[-1] if found else body
    words = set(_WORD.findall(task.removeprefix('task:').lower()))
    words |= {word.removesuffix('s') for word in words}
    head = list(encode(fixed.partition('\n')[0] + '\n'))
    tail = list(encode(task))
    room = most_tokens - len(head) - len(tail)
    if room < 0:
        return [*head, *tail][-most_tokens:]
    places = [place.splitlines() for place in body.split('task: ')[0].split('\n\n')]
    lines: list[tuple[tuple[int, int], int, list[int]]] = []
    for place in places:
        shared = [len(words & set(_WORD.findall(line.partition('=')[0]))) for line in place]
        for line, own in zip(place, shared, strict=True):
            rank = -own, -max(shared)
            lines.append((rank, len(lines), list(encode(line + '\n'))))
    kept = []
    for _, number, ids in sorted(lines, key=lambda item: item[:2]):
        if len(ids) <= room:
            room -= len(ids)
            kept.append((number, ids))
    return [*head, *(token for _, ids in sorted(kept) for token in ids), *tail]
