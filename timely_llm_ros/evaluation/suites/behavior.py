"""BEHAVIOR's 100 tasks, judged by the graph of Embodied Agent Interface's evaluator.

The evaluator's physics needs iGibson, which cannot be had here; ``igibson_stand_in.py`` says what
stands in its place. How a world is at first is told by the task's start conditions. Where they
say nothing, three assumptions do, because iGibson would measure it: what stands nowhere is on the
floor; what can be open is closed; but a kind of thing that no right plan of the suite ever opens
(cartons) stands open.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from timely_llm_ros.evaluation.suites.igibson_stand_in import (
    BY_PREDICATE,
    FloorObject,
    SliceableObject,
    ThingObject,
    stand_in,
)
from timely_llm_ros.evaluation.suites.suite import SuiteTask, SuiteVerdict, as_word
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.evaluation.suites.archives import SuiteArchives
    from timely_llm_ros.skills import Call

_FOLDER = 'behavior_eval/evaluation/action_sequencing/resources/'
_CONDITIONS = 'behavior_eval/evaluation/transition_modeling/resources/behavior_bddl_info/'
_EVALUATOR = 'behavior_eval.evaluation.action_sequencing.action_sequence_evaluator'
_GRAPH = 'behavior_eval.evolving_graph.eval_evolving_graph_env'
_LISTED = re.compile(r"\{'name': '([^']+)', 'category': '([^']+)'\}")
_FLOOR = 'room_floor'
_PARTS = 2
_SAFE = 'stop'
_WHERE: dict[str, Literal['in', 'on', 'under', 'near']] = {
    'Inside': 'in',
    'OnTop': 'on',
    'Under': 'under',
    'NextTo': 'near',
    'OnFloor': 'on',
}
_TOLD = ('Open', 'Frozen', 'Stained', 'Dusty', 'Soaked', 'Sliced', 'ToggledOn', 'Cooked')


@dataclass(frozen=True, slots=True)
class _Start:
    """How a task begins.

    Attributes:
        names: The objects' names by those of BDDL, without the robot.
        kinds: The objects' kinds by their names.
        facts: States that hold, by object.
        denied: States that are said not to hold, by object.
        relations: For each object and relation, with which others it stands in it.
        goals: Each way to reach the goal: a list of conditions.
        wanted: The goal as the suite tells it.
    """

    names: dict[str, str]
    kinds: dict[str, str]
    facts: dict[str, set[str]]
    denied: dict[str, set[str]]
    relations: dict[str, dict[str, set[str]]]
    goals: list[list[list[str]]]
    wanted: list[list[str]]


class Behavior:
    """The suite ``behavior``."""

    name = 'behavior'

    def __init__(self, archives: SuiteArchives) -> None:
        self._archives = archives
        self.skill_set = find_skill_set(self.name)
        with stand_in():
            self._evaluator = archives.module(_EVALUATOR).ActionSequenceEvaluator
            self._graph = archives.module(_GRAPH)
        self._start = lru_cache(maxsize=4)(self._read_start)

    @cached_property
    def _prompts(self) -> dict[str, str]:
        """The part of each task's prompt that is its own."""
        found = self._archives.read_json(f'{_FOLDER}prompts/helm_prompts.json')
        return {it['identifier']: it['llm_prompt'].rpartition('Your task:')[2] for it in found}

    @cached_property
    def _abilities(self) -> dict[str, list[str]]:
        """What each kind of object can be."""
        found: dict[str, list[str]] = {}
        nodes = [self._archives.read_bddl_json('bddl/hierarchy_owned.json')]
        while nodes:
            node = nodes.pop()
            found[node['name']] = list(node['abilities'])
            nodes += node.get('children', ())
        return found

    @cached_property
    def _ever_opened(self) -> set[str]:
        """The kinds of object that right plans open."""
        kinds = set()
        for name in self._prompts:
            of = self._start(name).kinds
            kinds |= {of[objects[0]] for action, objects in self._gold(name) if action == 'OPEN'}
        return kinds

    def names(self) -> list[str]:
        """Return the names of all tasks, in the suite's order."""
        return list(self._prompts)

    def task(self, name: str) -> SuiteTask:
        """Return a task; what can be sliced has its two parts in the scene."""
        start = self._start(name)
        found = []
        for item, kind in start.kinds.items():
            found.append(_object(item, kind, start))
            if 'sliceable' in self._abilities.get(kind, ()):
                found += [_object(f'{item}_part_{part}', kind, start) for part in range(_PARTS)]
        scene = Scene(tuple(found))
        gold = ''.join(
            f'{action.lower()}({",".join(map(as_word, objects))});'
            for action, objects in self._gold(name)
        )
        wanted = '; '.join(' '.join(map(str, condition)) for condition in start.wanted)
        return SuiteTask(name, wanted, scene, scene, gold)

    def answer(self, name: str, calls: Iterable[Call]) -> str:
        """Return calls as the suite wants them: a list of ``{"action": .., "object": ..}``.

        The robot's safe action is none of the suite's words, and changes nothing in its world.
        """
        kinds = self._start(name).kinds
        parts = [f'{item}_part_{part}' for item in kinds for part in range(_PARTS)]
        names = {as_word(item): item for item in (*kinds, *parts)}
        return json.dumps(
            [
                {
                    'action': call.skill.upper(),
                    'object': ', '.join(names[str(it.value)] for it in call.arguments),
                }
                for call in calls
                if call.skill != _SAFE
            ]
        )

    def judge(self, name: str, answer: str) -> SuiteVerdict:
        """Return what the evaluator says of an answer."""
        # The evaluator takes an answer for Python; here it must be no more than a list.
        try:
            ast.literal_eval(answer[answer.find('[') : answer.find(']') + 1])
        except (SyntaxError, ValueError):
            answer = ''
        evaluator = self._new_evaluator(name)
        with contextlib.redirect_stdout(io.StringIO()):
            actions = evaluator.parse_response(answer)
            fits = evaluator.evaluate_format(actions)
            if fits:
                evaluator.evaluate_trajectory(actions)
            reached = evaluator.evolving_graph.action_env.cur_state.check_success(evaluator.task)
        said = evaluator.evaluation_info['error_type']
        refused = '' if fits else next(it for it in said if said[it] not in (None, True, False))
        errors = tuple(
            it.removeprefix('ErrorType.').lower().replace('_', ' ')
            for it in said
            if it.startswith('ErrorType.')
        )
        met, goals = _nearest(evaluator, self._start(name))
        return SuiteVerdict(
            refused,
            bool(fits and said['execution_success']),
            errors,
            met,
            goals,
            bool(fits and reached['success']),
        )

    def judge_gold(self, name: str) -> SuiteVerdict:
        """Return what it says of the suite's right plan, whose text is that of its file."""
        return self.judge(name, self._archives.read(f'{_FOLDER}human_annotations/{name}.json'))

    def _gold(self, name: str) -> list[tuple[str, list[str]]]:
        found = self._archives.read_json(f'{_FOLDER}human_annotations/{name}.json')
        return [(it['action'], [word.strip() for word in it['object'].split(',')]) for it in found]

    def _new_evaluator(self, name: str) -> Any:
        """Return an evaluator with its graph, and without its physics."""
        task = self._world(name)
        evaluator = object.__new__(self._evaluator)
        evaluator.task = task
        with contextlib.redirect_stdout(io.StringIO()):
            evaluator.evolving_graph = self._graph.EvalGraphEnv(task=task)
        evaluator.object_name = set(evaluator.evolving_graph.obj_name_to_obj)
        evaluator.action_name = {action.name for action in self._graph.EvalActions}
        errors = {'parsing': None, 'hullucination': None, 'arguments': None}
        evaluator.evaluation_info = {
            'error_type': {**errors, 'execution_success': True},
            'goal_rst': {'all_goal_satisfied_graph': None},
        }
        return evaluator

    def _world(self, name: str) -> SimpleNamespace:
        """Return what the evaluator knows of a task."""
        start = self._start(name)
        floors = [item for item in start.kinds if item.startswith(_FLOOR)]
        scope: dict[str, Any] = {}
        for called, item in start.names.items():
            kind = start.kinds[item]
            abilities = self._abilities.get(kind, [])
            facts, relations = set(start.facts[item]), dict(start.relations[item])
            if kind not in self._ever_opened and 'Open' not in start.denied[item]:
                facts.add('Open')
            if item in floors:
                scope[called] = FloorObject(item, abilities, facts, relations)
                continue
            if floors and not relations:
                relations['OnFloor'] = {floors[0]}
            whole = ThingObject(item, abilities, facts, relations)
            scope[called] = whole
            if 'sliceable' in abilities:
                parts = [
                    ThingObject(f'{item}_part_{part}', abilities, facts, {})
                    for part in range(_PARTS)
                ]
                scope[called] = SliceableObject(whole, parts)
        goal = SimpleNamespace(terms=[], flattened_condition_options=start.goals)
        return SimpleNamespace(object_scope=scope, goal_conditions=[goal])

    def _read_start(self, name: str) -> _Start:
        """Read a task; its file of conditions and its prompt list objects in the same order."""
        said = self._archives.read_json(f'{_CONDITIONS}{name}.json')
        called = [it for it in said['name_category'] if not it.startswith('agent')]
        listed = _LISTED.findall(self._prompts[name])
        names = {one: item for one, (item, _) in zip(called, listed, strict=True)}
        facts: dict[str, set[str]] = defaultdict(set)
        denied: dict[str, set[str]] = defaultdict(set)
        relations: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for condition in said['initial_condition']:
            holds = facts if condition[0] != 'not' else denied
            predicate, *terms = condition if condition[0] != 'not' else condition[1:]
            state = BY_PREDICATE[predicate.replace('_', '')]
            if terms[0] not in names:
                continue
            if len(terms) == 1:
                holds[names[terms[0]]].add(state)
            elif holds is facts:
                relations[names[terms[0]]][state].add(names[terms[1]])
        wanted = [[names.get(word, word) for word in it] for it in said['goal_condition']]
        return _Start(names, dict(listed), facts, denied, relations, said['goal_option'], wanted)


def _object(item: str, kind: str, start: _Start) -> SceneObject:
    states = [name.lower() for name in _TOLD if name in start.facts[item]]
    states += ['closed'] if 'Open' in start.denied[item] else []
    found = next((it for it in _WHERE if start.relations[item].get(it)), None)
    return SceneObject(
        as_word(item),
        as_word(kind.partition('.')[0]),
        '_'.join(states) or 'plain',
        'on' if found is None else _WHERE[found],
        'floor' if found is None else as_word(min(start.relations[item][found])),
    )


def _nearest(evaluator: Any, start: _Start) -> tuple[int, int]:
    """Return how many conditions hold of that way to the goal of which most do, and its length."""
    state = evaluator.evolving_graph.action_env.cur_state
    names, now = state.get_name_mapping(evaluator.task), state.get_state_dict(evaluator.task)

    def holding(way: list[list[str]]) -> int:
        return sum(state._check_goal(it, names, now) for it in way)  # noqa: SLF001

    best = max(start.goals, key=lambda way: holding(way) / len(way))
    return holding(best), len(best)
