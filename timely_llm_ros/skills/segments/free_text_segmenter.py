"""Cuts a chat's plain text into segments, each a sentence or a paragraph that somebody reads.

TimelyLLM, section 7.1: a chat's segments are sentences or paragraphs, and reading them is their
execution. White space between two segments belongs to the second one, so that the segments' texts
put together are the text, except for white space at its very end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ArgumentError, ConfigurationError, PlanError, PlanSyntaxError
from timely_llm_ros.skills.limits import MAX_PLAN_LENGTH
from timely_llm_ros.skills.plan_meter import PlanMeter
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.skills.segments.text_ends import TextEnds
from timely_llm_ros.skills.segments.text_segmenter import TextSegmenter
from timely_llm_ros.skills.statements import Argument, Call

if TYPE_CHECKING:
    from timely_llm_ros.skills.segments.segment import Segment
    from timely_llm_ros.skills.skill_types import SkillSet

FORBIDDEN_CHARACTERS = r'\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f'
"""Control characters, with which text could steer a terminal, as the inside of a regular
expression's character class."""

_FORBIDDEN = re.compile(f'[{FORBIDDEN_CHARACTERS}\ud800-\udfff]')
_NOWHERE = Scene()


class FreeTextSegmenter(TextSegmenter):
    """Cuts plain text into sentences or paragraphs.

    :class:`TextEnds` says where they end. Each segment becomes one call of the skill set's
    ``free_text`` skill.

    Raises:
        ConfigurationError: The skill set takes no free text.
    """

    def __init__(self, skill_set: SkillSet, *, whole_plan: bool = False) -> None:
        if skill_set.free_text is None:
            raise ConfigurationError(f'skill set {skill_set.name!r}: expected one with free_text')
        super().__init__(whole_plan=whole_plan)
        self._skill = skill_set.skills[skill_set.free_text.skill]
        self._sentences = skill_set.free_text.segments == 'sentence'
        self._ends = TextEnds(sentences=self._sentences)
        self._rest = ''
        self._whole: list[Call] = []
        self._meter = PlanMeter(skill_set, whole_plan=whole_plan)

    def finish(self) -> list[Segment]:
        """Take the end of the generation; return the text behind the last end, or all of it."""
        self._raise_error()
        segments: list[Segment] = []
        try:
            while (end := self._ends.find(self._rest.rstrip(), whole=True)) is not None:
                self._end_text(end)
                if not self._whole_plan:
                    segments.append(self._taken())
            if rest := self._rest.rstrip():
                self._end_text(len(rest))
        except PlanError as err:
            self.error = err
            raise
        self._rest = ''
        return [*segments, self._taken(is_last=True)] if self._whole else segments

    def _scan(self, text: str, segments: list[Segment]) -> None:
        room = MAX_PLAN_LENGTH - self._length
        forbidden = _FORBIDDEN.search(text, 0, max(0, room))
        good = text[: forbidden.start() if forbidden else max(0, room)]
        self._rest += good
        self._length += len(good)
        limit = self._skill.arguments[0].max_length
        while True:
            end = self._ends.find(self._rest)
            if (len(self._rest.rstrip()) if end is None else end) > limit:
                raise ArgumentError(
                    f'{self._skill.name}: text {self._rest[:40]!r}...: expected the '
                    f'{"sentence" if self._sentences else "paragraph"} to have at most {limit} '
                    'characters',
                    self._length - len(self._rest),
                )
            if end is None:
                break
            self._end_text(end)
            if not self._whole_plan:
                segments.append(self._taken())
        if forbidden:
            raise PlanSyntaxError(
                f'{forbidden[0]!r}: expected text without control characters', self._length
            )
        if len(text) > len(good):
            raise PlanSyntaxError(
                f'more text: expected at most {MAX_PLAN_LENGTH} characters', self._length
            )

    def _end_text(self, end: int) -> None:
        """Make a call of the rest up to ``end``."""
        text = self._rest[:end]
        argument = Argument(self._skill.arguments[0].name, f'"{text}"', text)
        call = Call(self._skill.name, (argument,))
        self._meter.add(end, (call,), _NOWHERE, offset=self._length - len(self._rest))
        self._whole.append(call)
        self._rest = self._rest[end:]
        self._ends.reset()

    def _taken(self, *, is_last: bool = False) -> Segment:
        """Return the texts that have ended as one segment with a call for each."""
        calls, self._whole = tuple(self._whole), []
        text = ''.join(str(call.arguments[0].value) for call in calls)
        return self._segment(text, calls, is_last=is_last)
