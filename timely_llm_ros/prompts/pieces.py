"""A prompt's text in pieces: what stands in it, and the places where a task's own text comes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Literal:
    """Text of a template; ``special`` where it is that of a special token."""

    text: str
    special: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A place for a task's own text, by its name."""

    name: str


Piece = Literal | Field


def read_pieces(
    text: str, fields: Mapping[str, str], special: re.Pattern[str] | None = None
) -> list[Piece]:
    """Split a text.

    Args:
        text: The text.
        fields: What stands in the text where a field is, by the field's name.
        special: Matches the special tokens; None for none.
    """
    names = {mark: name for name, mark in fields.items()}
    pieces: list[Piece] = []
    for part in re.split('(' + '|'.join(map(re.escape, names)) + ')', text):
        if part in names:
            pieces.append(Field(names[part]))
        elif part:
            pieces += _literals(part, special)
    return pieces


def _literals(text: str, special: re.Pattern[str] | None) -> list[Piece]:
    if special is None:
        return [Literal(text)]
    parts = special.split(text)
    # Its only group makes every second part a special token's.
    return [Literal(part, bool(number % 2)) for number, part in enumerate(parts) if part]


def fill(
    pieces: Iterable[Piece], values: Mapping[str, str], start: int = 0
) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of pieces, and where special tokens stand in it.

    Args:
        pieces: The pieces.
        values: The text of every field; it is never read as anything else.
        start: The place of the text's first character.
    """
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    place = start
    for piece in pieces:
        text = values[piece.name] if isinstance(piece, Field) else piece.text
        if isinstance(piece, Literal) and piece.special:
            spans.append((place, place + len(text)))
        texts.append(text)
        place += len(text)
    return ''.join(texts), spans
