"""Sees that a text is no plan where its first word says so, long before a statement ends.

A model that is not held by a grammar may explain itself at length without a single ``;``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timely_llm_ros.errors import PlanSyntaxError, UnknownSkillError

if TYPE_CHECKING:
    from timely_llm_ros.skills.skill_types import SkillSet

_BEGINNING = re.compile(
    r'[ \t\r\n]*(?P<name>(?:[a-z][a-z0-9_]*)?)[ \t\r\n]*(?P<next>.?)', re.DOTALL
)
_KEYWORDS = 'repeat', 'if'


class StatementBeginning:
    """The beginning of one statement, which comes in pieces."""

    def __init__(self, skill_set: SkillSet) -> None:
        self._skill_set = skill_set
        self._text = ''

    def push(self, text: str, offset: int) -> bool:
        """Take more of it; return whether it is known to begin as a statement does.

        ``offset`` is where it begins in the plan, for errors.

        Raises:
            PlanError: It does not.
        """
        self._text += text
        found = _BEGINNING.match(self._text)
        # No more of a name is read than tells that there is no such skill.
        name = found['name'][: self._longest + 1] if found else ''
        if found is None or not (found['next'] or len(name) > self._longest):
            return False
        if not name:
            raise PlanSyntaxError(
                f'{found["next"]!r}: expected a statement', offset + found.start('next')
            )
        if name not in _KEYWORDS and name not in self._skill_set.skills:
            raise UnknownSkillError(
                f'{name[:40]!r}: expected a skill of {self._skill_set.name!r}',
                offset + found.start('name'),
            )
        if found['next'] not in '(;':
            raise PlanSyntaxError(
                f'{found["next"]!r} after {name}: expected "(" or ";"',
                offset + found.start('next'),
            )
        return True

    @property
    def _longest(self) -> int:
        return max(map(len, (*_KEYWORDS, *self._skill_set.skills)))
