"""A plan that is being written under the grammar: what of it is open, and how it can still end.

A grammar alone cannot keep a plan within its skill set's limits, because loops multiply, nor within
a number of tokens. So whoever chooses tokens asks here what a text would need to end, and allows
only tokens after which that is still possible.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import PlanLimitError
from timely_llm_ros.skills.argument_kinds import MAX_NUMBER_LENGTH
from timely_llm_ros.skills.grammar.items import NOTHING, Rule, Text, shortest, with_first
from timely_llm_ros.skills.grammar.reader import read_grammar
from timely_llm_ros.skills.grammar.remaining_grammar import without
from timely_llm_ros.skills.language import MAX_DEPTH, parse
from timely_llm_ros.skills.limits import MAX_PLAN_LENGTH
from timely_llm_ros.skills.plan_meter import most_of
from timely_llm_ros.skills.statements import Argument, Call

if TYPE_CHECKING:
    from timely_llm_ros.skills.grammar.items import Item
    from timely_llm_ros.skills.scene import Scene
    from timely_llm_ros.skills.skill_types import Skill, SkillSet

_MARK = re.compile(r'[;{}]')
_OBSERVATION = re.compile(r'#[^ ]* ')
_REPEAT = re.compile(r'repeat\((\d+)\)')
_CONDITION = re.compile(r'if\(!?(.*)\)', re.DOTALL)
_MOST_KEPT = 4096
"""Results that are kept of each kind."""

_LONGEST_TOKEN = 64
"""Characters that a token is assumed to have at most, where lengths near their limits."""

Cost = tuple[int, float]
"""Calls, and their expected time (s)."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that is open.

    Attributes:
        kind: What it belongs to.
        count: How often it runs.
        asked: Cost of the condition.
        then: Cost of the other branch, where this is the second one.
        inside: Cost of its statements so far, once.
        statements: How many there are.
    """

    kind: Literal['repeat', 'then', 'else']
    count: int = 1
    asked: Cost = (0, 0.0)
    then: Cost = (0, 0.0)
    inside: Cost = (0, 0.0)
    statements: int = 0

    def cost(self, inside: Cost) -> Cost:
        """Return what its statement costs if the block costs that much."""
        branch = max(inside[0], self.then[0]), max(inside[1], self.then[1])
        return self.asked[0] + self.count * branch[0], self.asked[1] + self.count * branch[1]


@dataclass(frozen=True, slots=True)
class _State:
    """How far a plan is.

    Attributes:
        blocks: The open blocks, outermost first.
        part: Text since the last mark.
        closed: The block that has just ended and whose statement has not; None for none.
        plan: Cost of all complete statements.
        length: Characters of the plan.
        start: Where the open statement begins.
        statements: How many statements are complete.
    """

    blocks: tuple[_Block, ...] = ()
    part: str = ''
    closed: _Block | None = None
    plan: Cost = (0, 0.0)
    length: int = 0
    start: int = 0
    statements: int = 0


class PlanRules:
    """What the open plans of one skill set and scene have in common.

    Args:
        grammar: Their decoding grammar.
        skill_set: The skills, with the limits of their plans.
        scene: The objects.
        whole_plan: Whether a plan is one segment.
    """

    def __init__(
        self, grammar: str, skill_set: SkillSet, scene: Scene, *, whole_plan: bool = False
    ) -> None:
        self.skill_set, self.scene, self.whole_plan = skill_set, scene, whole_plan
        self.safe = f'{skill_set.safe_action};'
        self._grammar = grammar
        self._derived: dict[tuple[int, str], Item] = {}
        self._rests: dict[tuple[int, str], str | None] = {}
        self._costs: dict[str, Cost] = {}
        self.longest_call_s = max(map(self._longest_s, skill_set.skills.values()))
        self.safe_cost = self.cost(skill_set.safe_action)
        self.longest_end = self._longest_end()
        """Characters that :meth:`OpenPlan.ending` has at most."""

    @functools.cached_property
    def _rules(self) -> dict[str, Item]:
        rules, _ = read_grammar(self._grammar)
        # A block that must end soon holds the safe action alone.
        blocks = {f'block_{depth}': Text(f'{{{self.safe}}}') for depth in range(1, MAX_DEPTH + 1)}
        return {**rules, **blocks}

    def finish(self, depth: int, part: str) -> str | None:
        """Return the shortest rest of a statement; None where none begins like that."""
        key = depth, part
        if key not in self._rests:
            item = self._derive(depth, part)
            if len(self._rests) >= _MOST_KEPT:
                self._rests.clear()
            self._rests[key] = None if item == NOTHING else shortest(item, self._rules)
        return self._rests[key]

    def _derive(self, depth: int, part: str) -> Item:
        """Return what may follow ``part`` of a statement."""
        if not part:
            return Rule(f'statement_{depth}')
        found = self._derived.get((depth, part))
        if found is None:
            before = self._derive(depth, part[:-1])
            found = with_first(before, functools.partial(without, part[-1]), self._rules)
            if len(self._derived) >= _MOST_KEPT:
                self._derived.clear()
            self._derived[depth, part] = found
        return found

    def cost(self, call: str) -> Cost:
        """Return what a call costs, given its text."""
        found = self._costs.get(call)
        if found is None:
            statements = parse(f'{call};', self.skill_set, self.scene)
            if len(self._costs) >= _MOST_KEPT:
                self._costs.clear()
            found = self._costs[call] = most_of(statements, self.skill_set, self.scene)
        return found

    def _longest_s(self, skill: Skill) -> float:
        """Return a bound on the time that a call of a skill is expected to take (s)."""
        arguments = []
        distances = [(item.distance_m, item.name) for item in self.scene.objects] or [(0.0, '')]
        for spec in skill.arguments:
            value: float | str
            match spec.kind:
                case 'int' | 'number':
                    value = max(abs(spec.si(spec.minimum)), abs(spec.si(spec.maximum)))
                case 'object':
                    value = max(distances)[1]
                case 'string':
                    value = 'a ' * (spec.max_length // 2 + 1)
                case 'choice':
                    value = ''
            arguments.append(Argument(spec.name, '', value))
        return skill.duration.expected_s(Call(skill.name, tuple(arguments)), self.scene)

    def _longest_end(self) -> int:
        longest_name = max((len(name) for name in self.scene.names), default=0)
        longest = 0
        for skill in self.skill_set.skills.values():
            size = len(skill.name) + 2
            for spec in skill.arguments:
                words = [*map(len, spec.choices), longest_name, MAX_NUMBER_LENGTH, 3]
                size += max(words) + 1
            longest = max(longest, size)
        around = len('if(!){') + len(self.safe) + len('}else{') + len(self.safe) + len('};')
        return longest + around + 2 * MAX_DEPTH


class OpenPlan:
    """A plan in the shortest form, which is what the grammar allows."""

    def __init__(self, rules: PlanRules) -> None:
        self._rules = rules
        self._state = _State()

    def take(self, text: str) -> None:
        """Go on by text that the grammar allows, observations included.

        Raises:
            PlanLimitError: A statement in it asks for more than the skill set allows; nothing was
                taken.
        """
        self._state = self._after(self._state, text)

    def ending(self, more: str = '') -> str | None:
        """Return the shortest text that completes the plan; empty where it may end.

        None where it cannot end within its limits. ``more`` is text that is to be taken first.
        """
        try:
            state = self._after(self._state, more)
            text = self._ending(state)
            if text is not None:
                self._after(state, text)
        except PlanLimitError:
            return None
        return text

    @property
    def in_string(self) -> bool:
        """Whether the text stands between quotes."""
        return self._state.part.count('"') % 2 == 1

    @property
    def roomy(self) -> bool:
        """Whether any one token that the grammar allows leaves the plan a way to end.

        A token is taken to concern two calls at most, and one loop's count.
        """
        rules, state, limits = self._rules, self._state, self._rules.skill_set.limits
        most = limits.segment_length - _LONGEST_TOKEN - rules.longest_end
        if state.length - (0 if rules.whole_plan else state.start) > most:
            return False
        if state.length > MAX_PLAN_LENGTH - _LONGEST_TOKEN - rules.longest_end:
            return False
        calls, seconds = 2, 2 * rules.longest_call_s
        loops = 2 * rules.skill_set.max_repeat
        calls, seconds = calls + loops, seconds + loops * rules.safe_cost[1]
        if state.closed is not None:
            closed = state.closed.cost(state.closed.inside)
            calls, seconds = calls + closed[0], seconds + closed[1]
        for block in reversed(state.blocks):
            inside = block.inside[0] + calls, block.inside[1] + seconds
            calls, seconds = block.cost(inside)
        plan = state.plan[0] + calls, state.plan[1] + seconds
        segment = plan if rules.whole_plan else (calls, seconds)
        return (
            segment[0] <= limits.segment_calls
            and segment[1] <= limits.segment_s
            and plan[0] <= limits.plan_calls
            and plan[1] <= limits.plan_s
        )

    def _ending(self, state: _State) -> str | None:
        blocks = state.blocks
        if state.closed is not None:
            # What has begun behind a block is either its end or the word "else".
            text = ';' if not state.part else f'{"else"[len(state.part) :]}{{{self._rules.safe}}};'
        elif state.part:
            rest = self._rules.finish(len(blocks), state.part)
            if rest is None:
                return None
            # What follows a call that waits for its value is the robot's to write.
            text = rest.partition('#')[0]
        elif blocks:
            text = '' if blocks[-1].statements else self._rules.safe
        else:
            text = '' if state.statements else self._rules.safe
        return text + '};' * len(blocks)

    def _after(self, state: _State, text: str) -> _State:
        place = 0
        for match in _MARK.finditer(text):
            part = _OBSERVATION.sub('', state.part + text[place : match.start()])
            length = state.length + match.end() - place
            state = self._marked(replace(state, part=part, length=length), match[0])
            place = match.end()
        if place < len(text):
            part = _OBSERVATION.sub('', state.part + text[place:])
            start = state.start
            if not state.blocks and state.closed is None and not part:
                start = state.length + len(text) - place
            length = state.length + len(text) - place
            state = replace(state, part=part, length=length, start=start)
        return state

    def _marked(self, state: _State, mark: str) -> _State:
        part, closed = state.part, state.closed
        match mark:
            case '{':
                return replace(
                    state, blocks=(*state.blocks, self._opened(state)), part='', closed=None
                )
            case '}':
                *outer, block = state.blocks
                return replace(state, blocks=tuple(outer), part='', closed=block)
            case _:
                cost = self._rules.cost(part) if closed is None else closed.cost(closed.inside)
                state = replace(state, part='', closed=None)
                return self._add(state, cost)

    def _opened(self, state: _State) -> _Block:
        if state.closed is not None:
            # The first branch counts as far as it costs more than the second.
            return replace(
                state.closed, kind='else', then=state.closed.inside, inside=(0, 0.0), statements=0
            )
        repeat = _REPEAT.fullmatch(state.part)
        if repeat is not None:
            return _Block('repeat', int(repeat[1]))
        condition = _CONDITION.fullmatch(state.part)
        asked = self._rules.cost(condition[1]) if condition is not None else (0, math.inf)
        return _Block('then', asked=asked)

    def _add(self, state: _State, cost: Cost) -> _State:
        """Add a statement that has ended to its block, or to the plan if that may have it."""
        if state.blocks:
            *outer, block = state.blocks
            inside = block.inside[0] + cost[0], block.inside[1] + cost[1]
            block = replace(block, inside=inside, statements=block.statements + 1)
            return replace(state, blocks=(*outer, block))
        rules, limits = self._rules, self._rules.skill_set.limits
        plan = state.plan[0] + cost[0], state.plan[1] + cost[1]
        segment, start = (plan, 0) if rules.whole_plan else (cost, state.start)
        if not (
            segment[0] <= limits.segment_calls
            and segment[1] <= limits.segment_s
            and plan[0] <= limits.plan_calls
            and plan[1] <= limits.plan_s
            and state.length - start <= limits.segment_length
            and state.length <= MAX_PLAN_LENGTH
        ):
            raise PlanLimitError('statement: expected one within the limits', state.start)
        return replace(state, plan=plan, start=state.length, statements=state.statements + 1)
