"""Sees that a text is no plan where its first word says so, long before a statement ends.

A model that is not held by a grammar may explain itself at length without a single ``;``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timely_llm_ros.errors import PlanSyntaxError, UnknownSkillError

if TYPE_CHECKING:
    from timely_llm_ros.skills.skill_types import SkillSet

_SPACE = re.compile(r'[ \t\r\n]*')
_FIRST, _MORE = re.compile(r'(?:[a-z][a-z0-9_]*)?'), re.compile(r'[a-z0-9_]*')
_KEYWORDS = 'repeat', 'if'


class StatementBeginning:
    """The beginning of one statement, which comes in pieces, each of which is read once."""

    def __init__(self, skill_set: SkillSet) -> None:
        self._skill_set = skill_set
        self._known = {*_KEYWORDS, *skill_set.skills}
        self._longest = max(map(len, self._known))
        self._name, self._start = '', 0
        self._named = False
        self._read = 0

    def push(self, text: str, offset: int) -> bool:
        """Take more of it; return whether it is known to begin as a statement does.

        ``offset`` is where it begins in the plan, for errors.

        Raises:
            PlanError: It does not.
        """
        place = 0 if self._name else _end(_SPACE, text, 0)
        if not self._named:
            begin = place
            place = _end(_MORE if self._name else _FIRST, text, begin)
            if not self._name:
                self._start = self._read + begin
            self._name += text[begin:place]
            # No more of a name is read than tells that there is no such skill.
            self._named = bool(self._name) and place < len(text)
            if len(self._name) > self._longest or (self._named and self._name not in self._known):
                raise UnknownSkillError(
                    f'{self._name[: self._longest + 1][:40]!r}: expected a skill of '
                    f'{self._skill_set.name!r}',
                    offset + self._start,
                )
        if self._name:
            place = _end(_SPACE, text, place)
        read, self._read = self._read, self._read + len(text)
        if place == len(text):
            return False
        if not self._name:
            raise PlanSyntaxError(f'{text[place]!r}: expected a statement', offset + read + place)
        if text[place] not in '(;':
            raise PlanSyntaxError(
                f'{text[place]!r} after {self._name}: expected "(" or ";"', offset + read + place
            )
        return True


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return where a match that begins at ``place`` ends."""
    match = pattern.match(text, place)
    return match.end() if match else place
