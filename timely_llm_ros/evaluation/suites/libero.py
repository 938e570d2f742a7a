"""LIBERO's 130 tasks (Liu et al., 2023) as plans: its goals, judged by its own predicates.

LIBERO measures policies that move an arm in physics, and has neither right plans nor words for
them. Here a plan is calls of ``skills/libero.yaml``, the right one is made from the goal, and
:mod:`table_of_symbols` stands in place of the physics.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import TimelyError
from timely_llm_ros.evaluation.suites.suite import SuiteTask, SuiteVerdict, as_word
from timely_llm_ros.evaluation.suites.table_of_symbols import CannotError, Table, Thing
from timely_llm_ros.skills import Call, Scene, SceneObject, parse
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.evaluation.suites.archives import SuiteArchives

_SAFE = 'stop'
_MARK = re.compile(r'[()]|[^\s()]+')


@dataclass(frozen=True, slots=True)
class _Start:
    """How a task begins, and what it asks for.

    Attributes:
        instruction: In words.
        table: The table.
        goal: Conditions, all of which have to hold: a predicate and what it is of.
    """

    instruction: str
    table: Table
    goal: tuple[tuple[str, ...], ...]


class Libero:
    """The suite ``libero``."""

    name = 'libero'

    def __init__(self, archives: SuiteArchives) -> None:
        self._archives = archives
        self.skill_set = find_skill_set(self.name)
        self._holds = archives.libero_predicates().eval_predicate_fn
        self._start = lru_cache(maxsize=4)(self._read_start)

    def names(self) -> list[str]:
        """Return the names of all tasks, each after the part of LIBERO that it is of."""
        return self._archives.libero_tasks()

    def task(self, name: str) -> SuiteTask:
        """Return a task."""
        start = self._start(name)
        scene = _scene(start.table)
        gold = ''.join(f'{skill}({target});' for skill, target in _right_plan(start))
        return SuiteTask(name, start.instruction, scene, scene, gold)

    def answer(self, name: str, calls: Iterable[Call]) -> str:  # noqa: ARG002 -- a suite's method
        """Return calls as a plan: LIBERO has no words of its own. The safe action moves nothing."""
        return ''.join(f'{call.text};' for call in calls if call.skill != _SAFE)

    def judge(self, name: str, answer: str) -> SuiteVerdict:
        """Carry a plan out up to what cannot be done, and ask LIBERO's predicates of the goal."""
        start = self._start(name)
        table = copy.deepcopy(start.table)
        calls = self._calls(answer, _scene(start.table))
        if not calls:
            met = self._met(start, table)
            return SuiteVerdict('parsing', False, (), met, len(start.goal), False)
        errors = []
        for call in calls:
            try:
                table.do(call.skill, str(call.arguments[0].value) if call.arguments else '')
            except CannotError as err:
                errors.append(f'{call.text}: {err}')
                break
        met, goals = self._met(start, table), len(start.goal)
        return SuiteVerdict('', not errors, tuple(errors), met, goals, not errors and met == goals)

    def judge_gold(self, name: str) -> SuiteVerdict:
        """Return what it says of the right plan, which is ours and not LIBERO's."""
        return self.judge(name, self.task(name).gold)

    def _calls(self, answer: str, scene: Scene) -> list[Call]:
        """Return a plan's calls; none where it is no list of calls in the scene."""
        try:
            statements = parse(answer, self.skill_set, scene) if answer else ()
        except TimelyError:
            return []
        calls = [it for it in statements if isinstance(it, Call)]
        return calls if len(calls) == len(statements) else []

    def _met(self, start: _Start, table: Table) -> int:
        return sum(
            self._holds(predicate, *(Thing(it, table) for it in names))
            for predicate, *names in start.goal
        )

    def _read_start(self, name: str) -> _Start:
        # Like LIBERO's own reader, without telling capitals from small letters.
        _, *parts = _read(self._archives.libero_task(name).lower())
        said: dict[str, list[Any]] = {part[0]: part[1:] for part in parts}
        fixtures, loose = _typed(said[':fixtures']), _typed(said[':objects'])
        begun = {condition[-1] for condition in said[':init']}
        owners, regions = {}, {}
        for region, *about in said[':regions']:
            told = {it[0]: it[1:] for it in about}
            (owner,) = told[':target']
            owners[f'{owner}_{region}'] = owner
            # A part of a table that things begin on is a place of chance, and nobody's goal.
            if ':ranges' not in told or f'{owner}_{region}' not in begun:
                regions[f'{owner}_{region}'] = owner
        kinds = {thing: as_word(kind) for thing, kind in (fixtures | loose).items()}
        table = Table(kinds, set(loose), regions)
        for predicate, *names in said[':init']:
            if predicate in ('on', 'in'):
                thing, place = names
                known = place in regions or place in kinds
                table.at[thing] = predicate, place if known else owners[place]
            elif predicate == 'open':
                table.opened.add(names[0])
            elif predicate == 'turnon':
                table.running.add(names[0])
        ((_, *goal),) = said[':goal']
        return _Start(' '.join(said[':language']), table, tuple(map(tuple, goal)))


def _read(text: str) -> list[Any]:
    """Return what stands in a file's outer parentheses."""
    open_lists: list[list[Any]] = [[]]
    for mark in _MARK.findall(text):
        if mark == '(':
            open_lists.append([])
        elif mark == ')':
            done = open_lists.pop()
            open_lists[-1].append(done)
        else:
            open_lists[-1].append(mark)
    found: list[Any] = open_lists[0][0]
    return found


def _typed(words: list[str]) -> dict[str, str]:
    """Return the type of each name in ``name name - type ...``."""
    found, names = dict[str, str](), list[str]()
    rest = iter(words)
    for word in rest:
        if word != '-':
            names.append(word)
            continue
        found |= dict.fromkeys(names, next(rest))
        names.clear()
    return found


def _scene(table: Table) -> Scene:
    found = []
    for name, kind in table.kinds.items():
        relation, place = table.at.get(name, ('on', 'floor'))
        found.append(SceneObject(name, kind, _state(table, name), relation, place))
    for name, owner in table.regions.items():
        part = as_word(name.removeprefix(f'{owner}_'))
        found.append(SceneObject(name, part, _state(table, name), 'in', owner))
    return Scene(tuple(found))


def _state(table: Table, name: str) -> str:
    if table.has_switch(name):
        return 'on' if name in table.running else 'off'
    if table.door(name) == name:
        return 'open' if name in table.opened else 'closed'
    return 'plain'


def _right_plan(start: _Start) -> list[tuple[str, str]]:
    """Return calls that bring the goal about: things first, what carries others before these."""
    table = copy.deepcopy(start.table)
    plan: list[tuple[str, str]] = []

    def do(skill: str, target: str) -> None:
        table.do(skill, target)
        plan.append((skill, target))

    def reach(place: str) -> None:
        if door := table.shut(place):
            do('open', door)

    placed = {it[1]: it for it in start.goal if it[0] in ('in', 'on')}

    def depth(thing: str) -> int:
        return 1 + depth(placed[thing][2]) if thing in placed else 0

    for thing in sorted(placed, key=depth):
        how, _, place = placed[thing]
        if table.at[thing] == (how, place):
            continue
        reach(table.at[thing][1])
        reach(place)
        do('pick', thing)
        do(f'place_{how}', place)
    for predicate, *names in start.goal:
        match predicate:
            case 'open' if names[0] not in table.opened:
                do('open', names[0])
            case 'close' if names[0] in table.opened:
                do('close', names[0])
            case 'turnon' if names[0] not in table.running:
                do('turn_on', names[0])
            case 'turnoff' if names[0] in table.running:
                do('turn_off', names[0])
    return plan
