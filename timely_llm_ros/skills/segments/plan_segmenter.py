"""Cuts a generated plan into segments: each valid statement, when its last character is there.

No statement holds ``;``, ``{`` or ``}`` inside a string, so counting braces and looking for ``;``
finds the ends of statements without reading anything twice; the parser then sees each statement
once, when it is whole.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ExecutionError, IncompletePlanError, PlanSyntaxError
from timely_llm_ros.skills.language import MAX_DEPTH, MAX_VALUE_LENGTH, VALUE_CHARACTERS, parse
from timely_llm_ros.skills.limits import MAX_PLAN_LENGTH
from timely_llm_ros.skills.plan_meter import PlanMeter
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.skills.segments.statement_beginning import StatementBeginning
from timely_llm_ros.skills.segments.text_segmenter import TextSegmenter
from timely_llm_ros.skills.statements import Call, render

if TYPE_CHECKING:
    from collections.abc import Container

    from timely_llm_ros.skills.segments.segment import Segment
    from timely_llm_ros.skills.skill_types import SkillSet
    from timely_llm_ros.skills.statements import Statement

_MARKS = ';{}#'
_MARK = re.compile(f'[{_MARKS}]')
_NOT_SPACE = re.compile(r'[^ \t\r\n]')
_NOT_IN_VALUE = re.compile(rf'[^{VALUE_CHARACTERS}]')


class PlanSegmenter(TextSegmenter):
    """Cuts a plan into its statements; the work is linear in the length of the text.

    With ``whole_plan`` the values of blocking calls outside of conditions are not awaited.
    """

    marks = _MARKS

    def __init__(
        self, skill_set: SkillSet, object_names: Container[str], *, whole_plan: bool = False
    ) -> None:
        super().__init__(whole_plan=whole_plan)
        self._skill_set = skill_set
        self._object_names = object_names
        self._scene = object_names if isinstance(object_names, Scene) else Scene()
        self._meter = PlanMeter(skill_set, whole_plan=whole_plan)
        self._blocking = [skill.name for skill in skill_set.skills.values() if skill.blocking]
        self._pieces: list[str] = []
        self._beginning: StatementBeginning | None = StatementBeginning(skill_set)
        self._start = 0
        self._depth = 0
        self._plan: list[Statement] = []
        self._awaited: Call | None = None

    @property
    def awaits_value(self) -> bool:
        """Whether ``observe`` must be called before any more text."""
        return self._awaited is not None

    def may_await(self, text: str, /) -> bool:
        """Whether a blocking skill is named since the last segment, and its value awaited."""
        if self._whole_plan:
            return False
        pending = ''.join(self._pieces) + text
        return any(name in pending for name in self._blocking)

    def observe(self, value: str) -> str:
        """Take the value of the awaited call; return the text to append to the context."""
        self._raise_error()
        if self._awaited is None:
            return super().observe(value)
        skill = self._skill_set.skills[self._awaited.skill]
        if skill.returns == 'bool':
            word = value.strip().lower()
            if word not in ('true', 'false'):
                raise ExecutionError(
                    f'{skill.name} returned {value[:40]!r}: expected true or false'
                )
        else:
            word = _NOT_IN_VALUE.sub('_', value[:MAX_VALUE_LENGTH]) or '_'
        self._awaited = None
        text = f'#{word} '
        self._length += len(text)
        self._start = self._length
        return text

    def foresee(self) -> dict[str, TextSegmenter]:
        """Return a segmenter for either value of a bool; none where a text is awaited."""
        awaited = self._awaited
        if awaited is None or self._skill_set.skills[awaited.skill].returns != 'bool':
            return {}
        common = {id(it): it for it in (self._skill_set, self._object_names, self._scene)}
        others = [copy.deepcopy(self, {**common}) for _ in range(2)]
        return {others[0].observe('true'): others[0], others[1].observe('false'): others[1]}

    def finish(self) -> list[Segment]:
        """Take the end of the generation; return the whole plan's segment in ``whole_plan`` mode.

        Raises:
            PlanError: The text ends in the middle of a statement, or went wrong before.
        """
        self._raise_error()
        rest = ''.join(self._pieces).strip(' \t\r\n')
        if rest:
            self.error = IncompletePlanError(
                f'ended with {rest[-40:]!r}: expected the statement to end with ";"', self._length
            )
            raise self.error
        if not self._plan:
            return []
        statements = tuple(self._plan)
        self._plan.clear()
        return [self._segment(render(statements), statements, is_last=True)]

    def _scan(self, text: str, segments: list[Segment]) -> None:
        room = MAX_PLAN_LENGTH - self._length
        too_long = len(text) > room
        if self._awaited is None and not too_long and _MARK.search(text) is None:
            # As most tokens are: it ends nothing, and only its beginning can be wrong yet.
            self._begin(text)
            self._pieces.append(text)
            self._length += len(text)
            return
        if too_long:
            text = text[: max(0, room)]
        taken = seen = 0
        for match in _MARK.finditer(text):
            mark, end = match[0], match.end()
            if self._awaited is not None:
                break
            self._begin(text[seen:end])
            seen = end
            if mark == ';':
                if self._depth == 0:
                    self._pieces.append(text[taken:end])
                    self._complete(self._length + end, segments)
                    taken = end
            elif mark == '{':
                self._depth += 1
                if self._depth > MAX_DEPTH:
                    self._fail(
                        f'block inside {MAX_DEPTH} others: expected at most {MAX_DEPTH} deep',
                        match.start(),
                    )
            elif mark == '}':
                self._depth -= 1
                if self._depth < 0:
                    self._fail('"}": expected a statement', match.start())
            else:
                self._fail('"#": expected only the robot to write observations', match.start())
        if self._awaited is not None:
            early = _NOT_SPACE.search(text, taken)
            if early is not None:
                self._fail(
                    f'{text[early.start() : early.start() + 20]!r}: expected no text before the '
                    f'value of {self._awaited.text}',
                    early.start(),
                )
        else:
            self._begin(text[seen:])
        if taken < len(text):
            self._pieces.append(text[taken:])
        if too_long:
            self._fail(f'more text: expected at most {MAX_PLAN_LENGTH} characters', len(text))
        self._length += len(text)

    def _begin(self, text: str) -> None:
        """Look at further text of how a statement begins, until that is known to be right."""
        if self._beginning is not None and self._beginning.push(text, self._start):
            self._beginning = None

    def _complete(self, end: int, segments: list[Segment]) -> None:
        """Parse the statement that ends at ``end`` and emit its segment."""
        text = ''.join(self._pieces)
        self._pieces.clear()
        self._beginning = StatementBeginning(self._skill_set)
        statements = parse(text, self._skill_set, self._object_names, offset=self._start)
        self._meter.add(len(text), statements, self._scene, offset=self._start)
        self._start = end
        if self._whole_plan:
            self._plan.extend(statements)
            return
        call = statements[0]
        if isinstance(call, Call) and self._skill_set.skills[call.skill].blocking:
            self._awaited = call
        awaits_value = self._awaited is not None
        segments.append(self._segment(render(statements), statements, awaits_value=awaits_value))

    def _fail(self, problem: str, position: int) -> None:
        raise PlanSyntaxError(problem, self._length + position)
