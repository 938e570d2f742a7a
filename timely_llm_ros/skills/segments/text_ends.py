"""Finds where sentences and paragraphs of plain text end, while the text is being written.

The rules look at nothing but the text of the sentence itself and the beginning of the next word or
line, so that a sentence is known to have ended as soon as that beginning is there, and is the same
however the text comes. No library that was found does this while a text grows.
"""

from __future__ import annotations

import re

from timely_llm_ros.skills.segments.abbreviations import (
    BEFORE_NUMBERS,
    MONTHS,
    NEVER_LAST,
    SENTENCE_STARTERS,
    SOMETIMES_LAST,
)

_MARKS = '.!?\u2026'
_CLOSERS = '"\'\u201d\u2019\xbb)\\]*_'
_WIDE_MARKS = (
    '\u3002\uff01\uff1f\uff61\uff0e'  # Chinese and Japanese
    '\u0964\u0965\u06d4\u061f\u0589\u1362\u1367\u104b\u17d4\u17d5'
)
"""Marks of scripts without capitals, after which no space is needed: Devanagari's, Urdu's and
Arabic's, Armenian, Ethiopic, Burmese and Khmer ones."""

_WIDE_CLOSERS = '\u300d\u300f\u201d\u2019\uff09\u3011'
_CANDIDATE = re.compile(
    f'(?P<mark>[{_MARKS}]+)(?P<closers>[{_CLOSERS}]*)'
    f'|(?P<wide>[{_WIDE_MARKS}]+[{_WIDE_CLOSERS}]*)'
    r'|(?P<line>[^\S\n]*\n)'
    r'|(?P<ticks>`+)'
    # It may belong to a line's end.
    r'|(?P<space>[^\S\n]+)\Z'
)
_SPACE = re.compile(r'\s*')
_INDENT = re.compile(r'[^\S\n]*')
_WORD = re.compile(r'[^\W_]+(?:[\'\u2019][^\W_]+)*')
_WORD_BEFORE = re.compile(r'(?:[^\W\d_]+(?:\.[^\W\d_]+)*|(?<![\d.,])\d{1,3})\Z')
_LONGEST_WORD, _LONGEST_PART = 16, 2
"""Characters of a word that is looked at, and of a part of one like ``Ph.D``."""

_LABEL = re.compile(r'\s*(?:[-*+\u2022]\s+)?\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})\.')
"""What a list counts its items with, at the beginning of a segment."""

_ITEM = re.compile(r'[\u2022\u2023\u25e6\u25aa|]|[-*+\u2013\u2014]\s|\d{1,3}[.)]\s|[A-Za-z]\)\s')
_HEADING = re.compile(r'#{1,6}\s')
_FENCE = re.compile(r'\s*(?P<fence>```|~~~)')
_LONGEST_MARKER = 7
"""Characters after which it is known whether a line begins with a marker."""


class TextEnds:
    """Finds the end of a text's first segment, each time that more of the text is there.

    Args:
        sentences: Whether sentences end a segment; else only paragraphs and code blocks do.
    """

    def __init__(self, *, sentences: bool) -> None:
        self._sentences = sentences
        self.reset()

    def reset(self) -> None:
        """Begin with another text."""
        self._searched = 0
        self._in_code = False

    def find(self, text: str, *, whole: bool = False) -> int | None:
        """Return where the first segment ends; None where it is not known, or is the text's end.

        Args:
            text: What was asked about last, or more.
            whole: Whether nothing follows.
        """
        fence = _FENCE.match(text)
        if fence is not None:
            return self._end_of_block(text, fence)
        place = self._searched
        while (match := _CANDIDATE.search(text, place)) is not None:
            end = self._judge(text, match, whole)
            if end is None:
                self._searched = match.start()
                return None
            if end >= 0:
                return end
            place = match.end()
            if match['ticks']:
                self._in_code = not self._in_code
            elif match['line']:
                self._in_code = False
        self._searched = len(text)
        return None

    def _judge(self, text: str, match: re.Match[str], whole: bool) -> int | None:
        """Return the end at a candidate, -1 where there is none, None where it is not known yet."""
        if match.end() == len(text) and not whole:
            return None
        if match['line']:
            return self._line_end(text, match, whole)
        if not self._sentences or match['ticks'] or match['space']:
            return -1
        if match['wide']:
            return match.end() if match.end() < len(text) else -1
        gap = _SPACE.match(text, match.end())
        after = gap.end() if gap else match.end()
        if self._in_code or after == match.end():
            return -1
        if text.count('\n', match.end(), after) > 1:
            return match.end()
        if after == len(text):
            return -1 if whole else None
        if text[after].islower():
            return -1
        if match['mark'] != '.' or match['closers']:
            return match.end()
        ends = _full_stop_ends(text, match.start(), after, whole)
        return None if ends is None else match.end() if ends else -1

    def _line_end(self, text: str, match: re.Match[str], whole: bool) -> int | None:
        """Judge the end of a line."""
        before = text[: match.start()]
        if not before or before.isspace():
            return -1
        indent = _INDENT.match(text, match.end())
        after = indent.end() if indent else match.end()
        line = text[after : after + _LONGEST_MARKER]
        if line.startswith('\n'):
            return match.start()
        known = whole or len(line) == _LONGEST_MARKER or any(map(str.isspace, line))
        if not known:
            return None
        if line.startswith(('```', '~~~')):
            return match.start()
        if not self._sentences:
            return -1
        if line and (_ITEM.match(line) or _HEADING.match(line)):
            return match.start()
        first = before.lstrip()[:_LONGEST_MARKER]
        if _HEADING.match(first):
            return match.start()
        # The text of an item may go on in the next line.
        goes_on = not line or line[0].islower() or after - match.end() >= 2
        return match.start() if _ITEM.match(first) and not goes_on else -1

    def _end_of_block(self, text: str, fence: re.Match[str]) -> int | None:
        """Return where a code block ends, whatever is in it."""
        closing = re.compile(rf'\n[^\S\n]*{fence["fence"]}[`~]*(?=[^\S\n]*\n)')
        found = closing.search(text, max(self._searched, fence.end()))
        # The fence may come in pieces.
        self._searched = max(0, text.rfind('\n'))
        return found.end() if found else None


def _full_stop_ends(text: str, stop: int, after: int, whole: bool) -> bool | None:
    """Return whether a full stop at ``stop`` ends a sentence; None where that is not known yet.

    ``after`` is where the next word begins, which is not a small letter.
    """
    label = _LABEL.match(text)
    if label is not None and label.end() == stop + 1:
        return False
    before = _WORD_BEFORE.search(text, max(0, stop - _LONGEST_WORD), stop)
    if before is None:
        return True
    word = before[0]
    if word.isdigit():
        if text[: before.start()].rstrip(' \t(')[-1:] == ':':
            return False
        return _next_word_is(text, after, whole, MONTHS, otherwise=True, among=False)
    known = word.lower()
    if known in NEVER_LAST:
        return False
    number_next = text[after].isdigit()
    if known in BEFORE_NUMBERS:
        return not number_next
    letter = len(word) == 1
    if letter and word.islower():
        if number_next:
            return False
        # As in "z. B.", where the next letter has a full stop too.
        found = _WORD.match(text, after)
        if found is None or len(found[0]) > 1:
            return True
        return whole or None if found.end() == len(text) else text[found.end()] != '.'
    # An initial, letters with dots between them, a word that a sentence may end with.
    dotted = '.' in word and max(map(len, word.split('.'))) <= _LONGEST_PART
    if (dotted or letter or known in SOMETIMES_LAST) and word != 'I':
        if not text[after].isalpha():
            return not number_next
        return _next_word_is(text, after, whole, SENTENCE_STARTERS, otherwise=False, among=True)
    return True


def _next_word_is(
    text: str, after: int, whole: bool, words: frozenset[str], *, otherwise: bool, among: bool
) -> bool | None:
    """Return ``among`` where the next word is one of these; None where it is not all there."""
    found = _WORD.match(text, after)
    if found is None:
        return otherwise
    if found.end() == len(text) and not whole:
        return None
    # What one letter and a full stop follow is an initial.
    initial = len(found[0]) == 1 and text[found.end() : found.end() + 1] == '.'
    return among if found[0] in words and not initial else otherwise
