"""What BEHAVIOR's evaluator takes from iGibson, in symbols: objects with states, and nothing else.

The evaluator has two worlds: iGibson's physics, and a graph of objects with rules on it. Its rate
of success comes from the graph. The graph's code asks iGibson for classes, and for the states that
objects have at first; iGibson itself needs a physics engine to be compiled, and scenes that are
under a licence. This gives the graph what it asks for. Sizes are unknown, so all are equally big.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_OF_ABILITY = {
    'cleaningTool': 'CleaningTool',
    'cookable': 'Cooked',
    'dustyable': 'Dusty',
    'freezable': 'Frozen',
    'openable': 'Open',
    'sliceable': 'Sliced',
    'slicer': 'Slicer',
    'soakable': 'Soaked',
    'stainable': 'Stained',
    'toggleable': 'ToggledOn',
}
"""The state that an object with an ability has: ``igibson/object_states/factory.py``."""

_RELATIONS = ('Inside', 'OnFloor', 'OnTop', 'Under', 'NextTo')
STATES: dict[str, type] = {
    name: type(name, (), {}) for name in (*_OF_ABILITY.values(), *_RELATIONS, 'Burnt')
}
"""iGibson's classes of states, by their names; a graph tells states apart by their class."""

BY_PREDICATE = {name.lower(): name for name in STATES}
"""The same names, by those of BDDL's predicates without underscores."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A state's value: whether it holds, or with which objects it does."""

    holds: bool = False
    others: frozenset[str] = frozenset()

    def get_value(self, other: Any = None) -> bool:
        return self.holds if other is None else other.name in self.others


@dataclass(eq=False)
class WorldObject:
    """One object with the states that it has at first.

    Attributes:
        name: Its name in the scene.
        abilities: What it can be, as BDDL calls it.
        facts: Names of the states that hold.
        relations: For each relation, the objects that it stands in it to.
    """

    name: str
    abilities: Iterable[str]
    facts: set[str]
    relations: Mapping[str, set[str]]
    states: dict[type, _Value] = field(init=False)
    bounding_box = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        own = {_OF_ABILITY[it] for it in self.abilities if it in _OF_ABILITY}
        self.states = {STATES[name]: _Value(name in self.facts) for name in own}
        for name in _RELATIONS:
            others = frozenset(self.relations.get(name, ()))
            self.states[STATES[name]] = _Value(others=others)


class ThingObject(WorldObject):
    """Anything that is no floor."""


class FloorObject(WorldObject):
    """The floor of a room."""


@dataclass(eq=False)
class ObjectParts:
    """The parts that a thing has once it is sliced."""

    objects: list[ThingObject]


class SliceableObject:
    """A thing before and after it is sliced."""

    def __init__(self, whole: ThingObject, parts: list[ThingObject]) -> None:
        self.name = f'{whole.name}_multiplexer'
        self._multiplexed_objects = [whole, ObjectParts(parts)]


class Nothing:
    """Stands for what is named and never used: robots, tasks, readers of logs."""


_MODULES: dict[str, dict[str, Any]] = {
    'gym': {},
    'igibson': {},
    'igibson.envs': {},
    'igibson.envs.igibson_env': {'iGibsonEnv': Nothing},
    'igibson.object_states': STATES,
    'igibson.object_states.on_floor': {'RoomFloor': FloorObject},
    'igibson.objects': {},
    'igibson.objects.articulated_object': {'URDFObject': ThingObject},
    'igibson.objects.multi_object_wrappers': {
        'ObjectGrouper': ObjectParts,
        'ObjectMultiplexer': SliceableObject,
    },
    'igibson.robots': {'BaseRobot': Nothing},
    'igibson.tasks': {},
    'igibson.tasks.behavior_task': {'BehaviorTask': Nothing},
    'igibson.utils': {},
    'igibson.utils.ig_logging': {'IGLogReader': Nothing},
    'igibson.utils.utils': {'parse_config': None},
    # The evaluator's own code that moves bodies in iGibson.
    'behavior_eval.transition_model.action_env': {'ActionEnv': Nothing},
}


@contextmanager
def stand_in() -> Iterator[None]:
    """Answer imports of iGibson for as long as this is open."""
    before = {name: sys.modules.get(name) for name in _MODULES}
    for name, content in _MODULES.items():
        module = ModuleType(name)
        module.__dict__.update(content, __path__=[])
        sys.modules[name] = module
        parent, _, child = name.rpartition('.')
        if parent in _MODULES:
            setattr(sys.modules[parent], child, module)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old
