"""LIBERO's tables in symbols: where things are, what is open, what is on, what a gripper holds.

LIBERO judges a state of MuJoCo by predicates over objects. The predicates are its own; what they
ask objects for, which is contact, containment, and the angles of joints, is answered from symbols.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Relation = Literal['in', 'on']

DRAWERS = {'wooden_cabinet', 'white_cabinet'}
"""Kinds of fixture whose regions open one by one."""

DOORS = {'microwave'}
"""Kinds of fixture that open as a whole, with what is in them."""

SWITCHED = {'flat_stove'}
"""Kinds of fixture with a switch."""

_LEVELS = ('top_region', 'middle_region', 'bottom_region')


class CannotError(Exception):
    """A call cannot be done in that state; says why."""


@dataclass(slots=True)
class Table:
    """The state of one task's table.

    Attributes:
        kinds: The kind of each object and fixture.
        loose: Those that a gripper can carry.
        regions: Of each region that a plan may name, what it belongs to.
        at: How and where each thing is.
        opened: What is open: drawers by their region, doors by their fixture.
        running: What is turned on.
        held: What the gripper holds; empty for nothing.
    """

    kinds: dict[str, str]
    loose: set[str]
    regions: dict[str, str]
    at: dict[str, tuple[Relation, str]] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    held: str = ''

    def door(self, place: str) -> str:
        """Return what has to be open for a gripper to reach into a place; empty for nothing."""
        owner = self.regions.get(place, place)
        kind = self.kinds.get(owner, '')
        if kind in DRAWERS and place.endswith(_LEVELS):
            return place
        return owner if kind in DOORS and not place.endswith('_side') else ''

    def shut(self, place: str) -> str:
        """Return the door that keeps a gripper from a place; empty where none does."""
        door = self.door(place)
        return '' if door in self.opened else door

    def has_switch(self, name: str) -> bool:
        """Return whether a thing can be turned on."""
        return self.kinds.get(name) in SWITCHED

    def do(self, skill: str, target: str) -> None:
        """Carry a call out.

        Raises:
            CannotError: It cannot be done.
        """
        match skill:
            case 'pick':
                self._pick(target)
            case 'place_in' | 'place_on':
                self._place('in' if skill == 'place_in' else 'on', target)
            case 'open' | 'close':
                self._move_door(target, opens=skill == 'open')
            case 'turn_on' | 'turn_off':
                self._switch(target, on=skill == 'turn_on')

    def _require_free(self) -> None:
        if self.held:
            raise CannotError(f'the gripper holds {self.held}')

    def _pick(self, target: str) -> None:
        self._require_free()
        if target not in self.loose:
            raise CannotError(f'{target} cannot be carried')
        above = sorted(name for name, (_, place) in self.at.items() if place == target)
        if above:
            raise CannotError(f'{above[0]} is on it')
        if target in self.at and (door := self.shut(self.at[target][1])):
            raise CannotError(f'{door} is closed')
        self.held = target
        self.at.pop(target, None)

    def _place(self, how: Relation, target: str) -> None:
        if not self.held:
            raise CannotError('the gripper holds nothing')
        if target == self.held:
            raise CannotError(f'{target} is what the gripper holds')
        if door := self.shut(target):
            raise CannotError(f'{door} is closed')
        self.at[self.held] = how, target
        self.held = ''

    def _move_door(self, target: str, *, opens: bool) -> None:
        self._require_free()
        if self.door(target) != target:
            raise CannotError(f'{target} is no drawer and no door')
        (self.opened.add if opens else self.opened.discard)(target)

    def _switch(self, target: str, *, on: bool) -> None:
        self._require_free()
        if not self.has_switch(target):
            raise CannotError(f'{target} has no switch')
        (self.running.add if on else self.running.discard)(target)


@dataclass(frozen=True, slots=True)
class Thing:
    """What LIBERO's predicates ask an object or a region for.

    Attributes:
        name: Its name.
        table: The table that it is on.
    """

    name: str
    table: Table

    def check_contact(self, other: Thing) -> bool:
        """Return whether the other one rests at this one."""
        return self.table.at.get(other.name, ('', ''))[1] == self.name

    def check_contain(self, other: Thing) -> bool:
        """Return whether the other one is in this one."""
        return self.table.at.get(other.name) == ('in', self.name)

    def check_ontop(self, other: Thing) -> bool:
        """Return whether the other one is on this one."""
        return self.table.at.get(other.name) == ('on', self.name)

    def is_open(self) -> bool:
        """Return whether it is open."""
        return self.name in self.table.opened

    def is_close(self) -> bool:
        """Return whether it is closed."""
        return self.name not in self.table.opened

    def turn_on(self) -> bool:
        """Return whether it is on; changes nothing, whatever its name says."""
        return self.name in self.table.running

    def turn_off(self) -> bool:
        """Return whether it is off; changes nothing either."""
        return self.name not in self.table.running
