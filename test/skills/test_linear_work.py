"""Parsing and cutting cost in proportion to the text: no plan can make them hang."""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support.skills.plan_texts import SCENE, SKILL_SETS

from timely_llm_ros.errors import PlanError
from timely_llm_ros.skills import argument_kinds, language, plan_meter
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.segments import plan_segmenter, statement_beginning, text_segmenter
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

MODULES = (
    argument_kinds, language, plan_meter, plan_segmenter, statement_beginning, text_segmenter,
)  # fmt: skip
TELLO = SKILL_SETS[0]


class CountedPattern:
    """A compiled pattern that adds up the characters that it is given to look at."""

    def __init__(self, pattern: re.Pattern[str], work: Counter[str]) -> None:
        self._pattern, self._work = pattern, work

    def match(self, text: str, place: int = 0) -> re.Match[str] | None:
        match = self._pattern.match(text, place)
        # Without a match it may have looked at everything that is left.
        self._work['characters'] += (match.end() if match else len(text)) - place + 1
        return match

    def fullmatch(self, text: str) -> re.Match[str] | None:
        self._work['characters'] += len(text) + 1
        return self._pattern.fullmatch(text)

    def search(self, text: str, place: int = 0) -> re.Match[str] | None:
        self._work['characters'] += len(text) - place + 1
        return self._pattern.search(text, place)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        self._work['characters'] += len(text) + 1
        return self._pattern.finditer(text)


def work_of(action: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return bytecodes run in these modules plus characters that their patterns looked at."""
    work: Counter[str] = Counter()
    files = {module.__file__ for module in MODULES}

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        work['bytecodes'] += event == 'opcode'
        return trace

    with monkeypatch.context() as patch:
        for module in MODULES:
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern):
                    patch.setattr(module, name, CountedPattern(value, work))
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            action()
        except PlanError:
            pass
        finally:
            sys.settrace(before)
    return work['bytecodes'] + work['characters']


def one_by_one(text: str) -> None:
    cutter = PlanSegmenter(TELLO, SCENE)
    for character in text:
        cutter.push(character)
        if cutter.awaits_value:
            cutter.observe('true')
    cutter.finish()


def at_once(text: str) -> None:
    cutter = PlanSegmenter(TELLO, SCENE)
    cutter.push(text)
    cutter.finish()


@pytest.mark.parametrize('action', [lambda text: parse(text, TELLO, SCENE), at_once, one_by_one])
@pytest.mark.parametrize(
    ('head', 'unit', 'tail'),
    [
        ('', 'land;', ''),
        ('', 'goto(cat_3);move_up(20);', ''),
        ('', 'is_visible(cat_3);', ''),
        ('', 'repeat(2){if(is_visible(cat_3)){scan;}else{land;};};', ''),
        ('repeat(10){', 'land;', '};'),
        ('repeat(10){', 'land;', ''),
        ('if(is_visible(cat_3)){', 'repeat(2){scan;};', '}else{land;};'),
        ('', ' ', 'land;'),
        ('land', ' \n', ';'),
        ('', 'a', ';'),
        ('goto(', 'cat_3', ');'),
        ('move_up(', '9', ');'),
        ('move_up(1.', '9', ');'),
        ('log("', 'a', '");'),
        ('log("', 'a', ''),
        ('log(', '"', ');'),
        ('', '(', ';'),
        ('', ')', ';'),
        ('', '{', ';'),
        ('', '}', ';'),
        ('', ';', ''),
        ('', '"', ';'),
        ('', '!', ';'),
        ('if(', '!', ''),
        ('', 'if(', ';'),
        ('', 'repeat(2){', ';'),
        ('', 'land,', ';'),
        ('land;', '#true ', ''),
        ('is_visible(cat_3);#', 'a', ' '),
        ('', '-', ';'),
        ('', 'é', ';'),
    ],
)
def test_work_is_linear_in_length(
    action: Callable[[str], None], head: str, unit: str, tail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(size: int) -> int:
        text = head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail
        return work_of(lambda: action(text), monkeypatch)

    small, middle, large = (work(size) for size in (400, 1600, 6400))
    assert small > 0
    # Linear: four times the text is no more than four times the work, but for a fixed part.
    assert middle <= 4.4 * small + 400
    assert large <= 4.4 * middle + 400
