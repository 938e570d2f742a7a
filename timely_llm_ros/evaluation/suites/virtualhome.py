"""VirtualHome's 342 tasks, judged by the action-sequencing evaluator of Embodied Agent Interface.

That evaluator runs without Unity: its world is a graph, its motions are rules on it. What it does
with one answer is in the middle of a function that reads and writes folders
(``action_sequencing/scripts/evaluate_results.py``), so the same steps are taken here, with its own
functions. Two things differ. It takes the right plan's text for executable without executing it,
and never counts it as a success; here every plan is executed. It orders action goals by the hash
of their text, which changes from process to process; here they stay in their order.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from timely_llm_ros.evaluation.suites.suite import SuiteTask, SuiteVerdict, as_word
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from timely_llm_ros.evaluation.suites.archives import SuiteArchives
    from timely_llm_ros.skills import Call

_TABLES = 'virtualhome_eval/resources/virtualhome/'
_DATA = 'virtualhome_eval/dataset/programs_processed_precond_nograb_morepreconds/'
_SCENE = 'TrimmedTestScene1_graph/results_intentions_march-13-18'
_CODE = 'virtualhome_eval.simulation.evolving_graph.'
_ROBOT = 65
"""Node of the character that acts."""

_ACTION = re.compile(r'\[(\w+)\].*')
_OBJECT = re.compile(r'<([^>]+)> \((?:\d+\.)?(\d+)\)')
_ERRORS = {
    0: 'wrong temporal order',
    1: 'missing step',
    2: 'affordance',
    3: 'unseen object',
    4: 'additional step',
}
"""What the evaluator's numbers mean; for some mistakes it has none."""

_ADDITIONAL = 4
"""A step that changes nothing; the evaluator goes on after it."""

_STANDS = {'INSIDE': 'in', 'ON': 'on'}
_STATES = ('CLOSED', 'OPEN', 'OFF', 'ON', 'DIRTY')
"""States that are worth telling; that it is clean and plugged in goes without saying."""

_SAFE = 'stop'


@dataclass(frozen=True, slots=True)
class _Goals:
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    actions: list[str]

    @property
    def count(self) -> int:
        return len(self.nodes) + len(self.edges) + len(self.actions)


class VirtualHome:
    """The suite ``virtualhome``."""

    name = 'virtualhome'

    def __init__(self, archives: SuiteArchives) -> None:
        self._archives = archives
        self.skill_set = find_skill_set(self.name)
        self._eval = archives.module(f'{_CODE}eval_utils')
        self._checker = archives.module(f'{_CODE}checker').TemporalOrderChecker
        utils = archives.module(f'{_CODE}utils')
        self._tables = (
            utils.load_name_equivalence(),
            utils.load_properties_data(),
            utils.load_object_placing(),
        )
        self._graphs = lru_cache(maxsize=2)(self._read_graphs)

    @cached_property
    def _tasks(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """What is done and its goals, by the name of the task."""
        by_kind = self._archives.read_json(f'{_TABLES}task_state_LTL_formula_accurate.json')
        return {
            name: (kind, task['vh_goal'])
            for kind, tasks in by_kind['scene_1'].items()
            for name, task in tasks.items()
        }

    def names(self) -> list[str]:
        """Return the names of all tasks, in the suite's order."""
        return list(self._tasks)

    def task(self, name: str) -> SuiteTask:
        """Return a task; its scene is the whole flat, and shown is what its own prompt lists."""
        called = self._called(name)
        scene = Scene(_objects(self._graphs(name)['init_graph'], called))
        shown = {called[int(node)] for node in self._planner(name)[1].values()}
        gold = ''.join(
            _statement(action, [called[node] for _, node in objects])
            for action, objects in self._program(name)
        )
        return SuiteTask(
            name,
            _instruction(self._tasks[name][0], self._goals(name), called),
            scene,
            Scene(tuple(item for item in scene.objects if item.name in shown)),
            gold,
        )

    def answer(self, name: str, calls: Iterable[Call]) -> str:
        """Return calls as the suite wants them: JSON whose keys repeat, ``{"WALK": [..], ..}``.

        The robot's safe action is none of the suite's words, and changes nothing in its world.
        """
        classes = {node['id']: node['class_name'] for node in self._nodes(name)}
        nodes = {word: node for node, word in self._called(name).items()}
        actions = []
        for call in calls:
            found = [nodes[str(it.value)] for it in call.arguments]
            if call.skill != _SAFE:
                actions.append((call.skill.upper(), [(classes[node], node) for node in found]))
        return _text(actions)

    def judge(self, name: str, answer: str) -> SuiteVerdict:
        """Return what the evaluator says of an answer."""
        refused, actions = self._read_answer(name, answer)
        return self._run(name, actions, refused)

    def judge_gold(self, name: str) -> SuiteVerdict:
        """Return what it says of the suite's right plan, whose actions are those of its file."""
        refused, _ = self._read_answer(name, _text(self._program(name)))
        actions, _ = self._eval.reformat_actions(self._lines(name))
        return self._run(name, actions, refused)

    def _read_answer(self, name: str, answer: str) -> tuple[str, list[str]]:
        """Return why an answer is refused, empty where it is not, and its actions."""
        text = answer.strip().replace('\n', '').replace("'", '"')
        try:
            parsed = self._eval.load_json_preserving_order(text)
        except json.JSONDecodeError:
            parsed = []
        if not parsed or not self._eval.check_name_id_format(parsed)[0]:
            return 'parsing', []
        refused = ''
        relevant = self._planner(name)[1]
        if not (
            self._eval.check_no_hallucination_in_action(parsed)
            and self._eval.check_no_hallucination_in_arg(parsed, relevant)
        ):
            refused = 'hallucination'
        elif not self._eval.check_action_grammar(parsed)[0]:
            refused = 'parameters'
        if not all(it.lower() in self.skill_set.skills for action in parsed for it in action):
            return refused, []
        # It stops where it refuses. To say more of such a plan too, it is executed all the same.
        known = {f'{node["class_name"]}_{node["id"]}': node['id'] for node in self._nodes(name)}
        return refused, self._eval.json_to_action(parsed, known)

    def _run(self, name: str, actions: Sequence[str], refused: str) -> SuiteVerdict:
        planner, _ = self._planner(name)
        goals = self._goals(name)
        planner.reset()
        done: list[str] = []
        errors: list[str] = []
        executable = bool(actions)
        for action in actions:
            fine, info = planner.my_execute_primitive_action_eval(action)
            if fine:
                done.append(action)
                continue
            found = self._checker(info, self._states(name, done)).run_checker().get_error_type()
            errors.append(_ERRORS.get(found, 'unknown'))
            if found != _ADDITIONAL:
                executable = False
                break
        nodes, edges, acts, success, *_ = self._eval.scene_evaluate_wID(
            planner.env_state.to_dict(),
            goals.nodes,
            goals.edges,
            planner.acting_char_id,
            action_seq=done,
            action_goals=goals.actions,
        )
        return SuiteVerdict(
            refused,
            executable,
            tuple(errors),
            nodes + edges + acts,
            goals.count,
            bool(success) and not refused,
        )

    def _states(self, name: str, actions: Sequence[str]) -> list[dict[str, Any]]:
        """Return the world at first and after each action."""
        planner, _ = self._planner(name)
        planner.reset()
        states = [copy.deepcopy(planner.env_state.to_dict())]
        for action in actions:
            planner.my_execute_primitive_action_eval(action)
            states.append(copy.deepcopy(planner.env_state.to_dict()))
        return states

    def _planner(self, name: str) -> tuple[Any, dict[str, int]]:
        """Return the evaluator's world of a task, and the objects that its prompt lists."""
        graphs, goals = self._graphs(name), self._goals(name)
        planner = self._eval.MotionPlanner(
            self._eval.EnvironmentGraph(graphs['init_graph']),
            graphs['final_graph'],
            *self._tables,
            acting_char_id=_ROBOT,
        )
        said = planner.get_symbolic_goal_nl(goals.nodes, goals.edges, action_goals=goals.actions)
        return planner, said[-1]

    def _goals(self, name: str) -> _Goals:
        _, goals = self._tasks[name]
        unique = self._eval.remove_duplicate_dicts
        return _Goals(
            unique([goal for goal in goals['goal'] if 'state' in goal]),
            unique([goal for goal in goals['goal'] if 'relation_type' in goal]),
            list(dict.fromkeys(goals['actions'])),
        )

    def _read_graphs(self, name: str) -> Any:
        return self._archives.read_json(f'{_DATA}init_and_final_graphs/{_SCENE}/file{name}.json')

    def _nodes(self, name: str) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self._graphs(name)['init_graph']['nodes']
        return nodes

    def _called(self, name: str) -> dict[int, str]:
        """Return what plans call each node."""
        return {
            node['id']: as_word(f'{node["class_name"]}_{node["id"]}') for node in self._nodes(name)
        }

    def _lines(self, name: str) -> list[str]:
        text = self._archives.read(f'{_DATA}executable_programs/{_SCENE}/file{name}.txt')
        return [line.strip() for line in text.splitlines() if line.startswith('[')]

    def _program(self, name: str) -> list[tuple[str, list[tuple[str, int]]]]:
        """Return the right plan: each action with its objects, class and node."""
        return [
            (_ACTION.sub(r'\1', line), [(kind, int(node)) for kind, node in _OBJECT.findall(line)])
            for line in self._lines(name)
        ]


def _statement(action: str, objects: Sequence[str]) -> str:
    skill = action.lower()
    return f'{skill}({",".join(objects)});' if objects else f'{skill};'


def _text(actions: Iterable[tuple[str, list[tuple[str, int]]]]) -> str:
    """Return actions as JSON whose keys repeat; the space in ``[ ]`` keeps it from being missed."""
    parts = []
    for action, objects in actions:
        words = [word for kind, node in objects for word in (kind, str(node))]
        parts.append(f'"{action}": {json.dumps(words) if words else "[ ]"}')
    return '{' + ', '.join(parts) + '}'


def _objects(graph: dict[str, Any], called: dict[int, str]) -> tuple[SceneObject, ...]:
    """Return a graph's objects, each with what carries it: a thing sooner than a room."""
    rooms = {node['id'] for node in graph['nodes'] if node['category'] == 'Rooms'}
    carried: dict[int, tuple[str, int]] = {}
    for edge in graph['edges']:
        relation, item, support = edge['relation_type'], edge['from_id'], edge['to_id']
        if relation in _STANDS and (item not in carried or carried[item][1] in rooms):
            carried[item] = relation, support
    found = []
    for node in graph['nodes']:
        states = [state.lower() for state in _STATES if state in node['states']]
        relation, support = carried.get(node['id'], ('ON', -1))
        found.append(
            SceneObject(
                called[node['id']],
                as_word(node['class_name']),
                '_'.join(states) or 'plain',
                'in' if _STANDS[relation] == 'in' else 'on',
                called.get(support, 'floor'),
            )
        )
    return tuple(found)


def _instruction(kind: str, goals: _Goals, called: dict[int, str]) -> str:
    """Return a task's goals in words: states, then relations, then actions in their order."""
    wanted = [f'{called[it["id"]]} is {it["state"].lower()}' for it in goals.nodes]
    wanted += [
        f'{called[it["from_id"]]} is {it["relation_type"].lower()} {called[it["to_id"]]}'
        for it in goals.edges
    ]
    wanted += [f'then {goal.lower().replace("|", " or ")}' for goal in goals.actions]
    return f'{kind.lower()}: {"; ".join(wanted)}'
