"""Finds hints that training gives the network besides the right plan, so that it learns sooner.

Late hints count at the output: where a plan names an object or moves away from one, that object's
number is a second, less likely answer. Early hints count after the second layer. They tell

* at a noun of the instruction the number of the one object that it can mean and, in danger, the
  moves away from it;
* at a surface to tend the first thing on it, at a container what goes into it;
* at a thing taken the next one and its sort, at a thing described by its place the place.

Hints lose their weight as training goes on; a trained model never sees or writes any.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timely_llm_ros.sample_tasks import (
    ATTRIBUTES,
    BLOCKS,
    CONTAINERS,
    DRONE_KINDS,
    FRUITS,
    KINDS,
    SURFACES,
    VEGETABLES,
    plural,
)
from timely_llm_ros.training.model.tokenizer import EOS_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from timely_llm_ros.sample_tasks import TaskSample
    from timely_llm_ros.skills import SceneObject

NOTHING = -100
"""No hint here; cross entropy ignores this target."""

_SPACE = 'Ġ'
MOVES = ('move_left', 'move_right', 'move_forward', 'move_backward')
_MOVE = re.compile('|'.join(MOVES))
_FLOWN_TO = re.compile(r'goto\((\w+)\)')
_TAKE = re.compile(r'(?:pick|sort_into)\((\w+)_(\d+)')


class Hinter:
    """Finds the hints as ids of the tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer.get_vocab()
        self._number = {
            int(token[1:]): index
            for token, index in vocabulary.items()
            if re.fullmatch(r'_\d+', token)
        }
        self._numbers = set(self._number.values())
        self._moves = {move: vocabulary[move] for move in MOVES}
        self._goto = vocabulary['goto']
        self._takes = {vocabulary['pick'], vocabulary['sort_into']}
        self._vocabulary = vocabulary
        self._kind_of_food = {vocabulary[kind]: kind for kind in (*FRUITS, *VEGETABLES)}
        self._kinds: dict[int, str] = {}
        for kind in (*DRONE_KINDS, *BLOCKS, *CONTAINERS, *SURFACES):
            for form in (kind, plural(kind)):
                if _SPACE + form in vocabulary:
                    self._kinds[vocabulary[_SPACE + form]] = kind
        self._attributes = {
            vocabulary[_SPACE + attribute]: attribute
            for attribute in ATTRIBUTES
            if _SPACE + attribute in vocabulary
        }

    def late(self, task: TaskSample, plan: Sequence[int]) -> list[int]:
        """Return for every token of the plan the number of the object it follows from."""
        item = task.scene.get(task.danger)
        danger = NOTHING if item is None else self._number_of(item)
        hints = []
        for token, following in zip(plan, [*plan[1:], EOS_ID], strict=True):
            if item is not None and token in self._moves.values():
                hints.append(danger)
            else:
                hints.append(following if following in self._numbers else NOTHING)
        return hints

    def instruction(self, task: TaskSample, prompt: Sequence[int]) -> list[tuple[int, int]]:
        """Return the early hints: (place in the prompt, what the network should know there)."""
        hints = []
        danger = task.scene.get(task.danger)
        for place, token in enumerate(prompt):
            kind = self._kinds.get(token)
            if kind is None:
                continue
            meant = [item for item in task.scene.objects if item.kind == kind]
            attribute = self._attributes.get(prompt[place - 1])
            if attribute is not None:
                meant = [item for item in meant if item.attribute == attribute]
            if len(meant) == 1:
                hints.append((place, self._number_of(meant[0])))
                if meant[0] is danger:
                    moves = _MOVE.findall(task.plan)
                    hints += [(place, self._moves[move]) for move in moves]
            if KINDS[task.kind].name == 'sort' and kind in CONTAINERS and len(meant) == 1:
                hints += [(place, token) for token in self._sort_of_content(task, meant[0].name)]
            if kind in SURFACES and (first := self._first_taken(task)):
                hints += [(place, token) for token in first]
        return hints

    def _sort_of_content(self, task: TaskSample, container: str) -> list[int]:
        """Return the word for what the plan puts into the container, if anything."""
        found = re.search(rf'sort_into\(([a-z]+)_\d+,{container}\)', task.plan)
        return [] if found is None else [self._sort_of_food(found[1])]

    def _sort_of_food(self, kind: str) -> int:
        fruit, vegetables = (self._vocabulary[_SPACE + word] for word in ('fruit', 'vegetables'))
        return fruit if kind in FRUITS else vegetables

    def _first_taken(self, task: TaskSample) -> list[int]:
        """Return kind and number of the first thing that an arm takes off a surface."""
        found = _TAKE.search(task.plan)
        if found is None or KINDS[task.kind].name not in ('clean', 'sort'):
            return []
        return [self._vocabulary[found[1]], self._number[int(found[2])]]

    def _number_of(self, item: SceneObject) -> int:
        return self._number[int(item.name.rpartition('_')[2])]

    def plan(self, task: TaskSample, plan: Sequence[int]) -> list[tuple[int, int]]:
        """Return the early hints: (place in the plan, what the network should know there)."""
        name = KINDS[task.kind].name
        if name in ('check_on', 'find_under'):
            place = plan.index(self._goto) + 2
            item = task.scene.get(_FLOWN_TO.findall(task.plan)[0])
            if item is None:
                return []
            described = (_SPACE + item.relation, _SPACE + item.support)
            return [(place, self._vocabulary[word]) for word in described]
        if name not in ('clean', 'sort'):
            return []
        named = [place + 3 for place, token in enumerate(plan) if token in self._takes]
        hints = []
        for place, following in zip(named, [*named[1:], None], strict=True):
            if following is None:
                hints.append((place, EOS_ID))
            else:
                hints += [(place, plan[following - 1]), (place, plan[following])]
            if name == 'sort':
                kind = self._kind_of_food[plan[place - 1]]
                hints.append((place, self._sort_of_food(kind)))
        return hints
