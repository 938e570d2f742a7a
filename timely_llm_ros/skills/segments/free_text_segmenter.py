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
from timely_llm_ros.skills.segments.text_segmenter import TextSegmenter
from timely_llm_ros.skills.statements import Argument, Call

if TYPE_CHECKING:
    from timely_llm_ros.skills.segments.segment import Segment
    from timely_llm_ros.skills.skill_types import SkillSet

FORBIDDEN_CHARACTERS = r'\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f'
"""Control characters, with which text could steer a terminal, as the inside of a regular
expression's character class."""

ABBREVIATIONS = frozenset({'mr', 'mrs', 'ms', 'dr', 'prof', 'st', 'vs', 'e.g', 'i.e'})
"""Words whose full stop does not end a sentence."""

_FORBIDDEN = re.compile(f'[{FORBIDDEN_CHARACTERS}\ud800-\udfff]')
_MARKS = '.!?\u2026'
_CLOSERS = '"\'\u201d\u2019\xbb)\\]*_'
_WIDE_MARKS = '\u3002\uff01\uff1f'
_WIDE_CLOSERS = '\u300d\u300f\u201d\u2019\uff09\u3011'
_BLANK = r'[^\S\n]*\n[^\S\n]*\n'
_PARAGRAPH = re.compile(f'(?P<blank>{_BLANK})')
_SENTENCE = re.compile(
    f'(?P<mark>[{_MARKS}]+)(?P<closers>[{_CLOSERS}]*)(?P<gap>\\s+)(?P<next>\\S)'
    f'|(?P<wide>[{_WIDE_MARKS}]+[{_WIDE_CLOSERS}]*)(?=[^{_WIDE_MARKS}{_WIDE_CLOSERS}])'
    f'|(?P<blank>{_BLANK})'
)
# What a further character may make an end.
_OPEN = re.compile(f'(?:[{_MARKS}]+[{_CLOSERS}]*\\s*|[{_WIDE_MARKS}]+[{_WIDE_CLOSERS}]*|\\s+)\\Z')
_WORD_BEFORE = re.compile(r'[^\W\d_]+(?:\.[^\W\d_]+)*\Z')
_LONGEST_ABBREVIATION = 12
_NOWHERE = Scene()


class FreeTextSegmenter(TextSegmenter):
    """Cuts plain text into sentences or paragraphs.

    A sentence ends with ``.``, ``!``, ``?`` or ``…``, closing quotes and brackets included, where
    white space and anything but a small letter follow, or with their wide forms; not at an
    abbreviation or an initial. A blank line ends a paragraph and a sentence. So an end is known
    one character after the white space behind it, which most vocabularies have in one token. Each
    segment becomes one call of the skill set's ``free_text`` skill.

    Raises:
        ConfigurationError: The skill set takes no free text.
    """

    def __init__(self, skill_set: SkillSet, *, whole_plan: bool = False) -> None:
        if skill_set.free_text is None:
            raise ConfigurationError(f'skill set {skill_set.name!r}: expected one with free_text')
        super().__init__(whole_plan=whole_plan)
        self._skill = skill_set.skills[skill_set.free_text.skill]
        self._sentences = skill_set.free_text.segments == 'sentence'
        self._end = _SENTENCE if self._sentences else _PARAGRAPH
        self._rest = ''
        self._searched = 0
        self._whole: list[Call] = []
        self._meter = PlanMeter(skill_set, whole_plan=whole_plan)

    def finish(self) -> list[Segment]:
        """Take the end of the generation; return the text behind the last end, or all of it."""
        self._raise_error()
        rest = self._rest.rstrip()
        if rest:
            try:
                self._end_text(len(rest))
            except PlanError as err:
                self.error = err
                raise
        self._rest = ''
        return [self._taken(is_last=True)] if self._whole else []

    def _scan(self, text: str, segments: list[Segment]) -> None:
        room = MAX_PLAN_LENGTH - self._length
        forbidden = _FORBIDDEN.search(text, 0, max(0, room))
        good = text[: forbidden.start() if forbidden else max(0, room)]
        self._rest += good
        self._length += len(good)
        limit = self._skill.arguments[0].max_length
        while True:
            end = self._find_end()
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

    def _find_end(self) -> int | None:
        """Return where the first segment of the rest ends; None if that is not known yet."""
        rest = self._rest
        place = self._searched
        while (match := self._end.search(rest, place)) is not None:
            start = match.start()
            if match['blank'] is not None:
                if start and not rest[:start].isspace():
                    return start
                place = match.end()
            elif match['wide'] is not None:
                return match.end()
            elif _ends_sentence(match):
                return match.end('closers')
            else:
                place = match.start('next')
        unclear = _OPEN.search(rest, place)
        self._searched = unclear.start() if unclear else len(rest)
        return None

    def _end_text(self, end: int) -> None:
        """Make a call of the rest up to ``end``."""
        text = self._rest[:end]
        argument = Argument(self._skill.arguments[0].name, f'"{text}"', text)
        call = Call(self._skill.name, (argument,))
        self._meter.add(end, (call,), _NOWHERE, offset=self._length - len(self._rest))
        self._whole.append(call)
        self._rest, self._searched = self._rest[end:], 0

    def _taken(self, *, is_last: bool = False) -> Segment:
        """Return the texts that have ended as one segment with a call for each."""
        calls, self._whole = tuple(self._whole), []
        text = ''.join(str(call.arguments[0].value) for call in calls)
        return self._segment(text, calls, is_last=is_last)


def _ends_sentence(match: re.Match[str]) -> bool:
    """Return whether a mark, white space and the beginning of a word end a sentence."""
    if re.search(_BLANK, match['gap']):
        return True
    if match['next'].islower():
        return False
    if match['mark'] != '.' or match['closers']:
        return True
    start = match.start()
    before = _WORD_BEFORE.search(match.string[max(0, start - _LONGEST_ABBREVIATION) : start])
    if before is None:
        return True
    word = before[0]
    initial = len(word) == 1 and word.isupper() and word != 'I'
    return not initial and word.lower() not in ABBREVIATIONS
