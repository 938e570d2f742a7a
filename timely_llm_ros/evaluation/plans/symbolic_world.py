"""What a plan brings about, in symbols: where things are at its end, and what was done to them.

Two plans that bring about the same have done the same task, whatever their order and their detours.
Skills are those of the shipped skill sets; one that is not known changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.skills import Call, If, Repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from timely_llm_ros.skills import Statement

_MOVES = {
    'move_forward': (0, 1), 'move_backward': (0, -1), 'move_left': (1, 1), 'move_right': (1, -1),
    'move_up': (2, 1), 'move_down': (2, -1),
}  # fmt: skip
"""Axis and sign of each of a drone's moves."""

_MOST_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What there is at the end of a plan.

    Attributes:
        places: What every object that was moved lies on or in.
        wiped: What was wiped clean.
        held: What the gripper holds; empty for nothing.
        pictures: Where each picture was taken: the object flown to, and the way from it (cm).
        messages: What was sent.
        flying: Whether a drone that was on the ground flies; None where it neither took off nor
            landed.
        away_cm: The way flown without an object as its beginning (cm), ahead, left and up.
    """

    places: tuple[tuple[str, str], ...]
    wiped: tuple[str, ...]
    held: str
    pictures: tuple[tuple[str, tuple[float, ...]], ...]
    messages: tuple[str, ...]
    flying: bool | None
    away_cm: tuple[float, ...]


@dataclass(slots=True)
class _World:
    sees: Callable[[Call], bool]
    places: dict[str, str] = field(default_factory=dict)
    wiped: set[str] = field(default_factory=set)
    pictures: set[tuple[str, tuple[float, ...]]] = field(default_factory=set)
    messages: set[str] = field(default_factory=set)
    held: str = ''
    at: str = ''
    way: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    flying: bool | None = None
    calls: int = 0

    def run(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            if self.calls > _MOST_CALLS:
                return
            match statement:
                case Call():
                    self.do(statement)
                case Repeat():
                    for _ in range(statement.count):
                        self.run(statement.body)
                case If():
                    holds = self.sees(statement.condition) != statement.negated
                    self.run(statement.then if holds else statement.otherwise)

    def do(self, call: Call) -> None:
        self.calls += 1
        values = [argument.value for argument in call.arguments]
        match call.skill, values:
            case 'pick', [str(item)]:
                self.held = item
            case 'place', [str(where)] if self.held:
                self.places[self.held], self.held = where, ''
            case 'sort_into', [str(item), str(where)]:
                self.places[item] = where
            case 'push', [str(item), _]:
                self.places[item] = 'elsewhere'
            case 'wipe', [str(item)]:
                self.wiped.add(item)
            case 'open_gripper', []:
                self.held = ''
            case 'goto', [str(item)]:
                self.at, self.way = item, [0.0, 0.0, 0.0]
            case 'take_picture', []:
                self.pictures.add((self.at, tuple(self.way)))
            case 'log', [str(text)]:
                self.messages.add(text)
            case (('takeoff' | 'land'), []):
                self.flying = call.skill == 'takeoff'
            case name, [float() | int() as metres] if name in _MOVES:
                axis, sign = _MOVES[name]
                self.way[axis] += sign * round(100.0 * metres)
            case _:
                pass


def outcome_of(statements: Iterable[Statement], sees: Callable[[Call], bool]) -> Outcome:
    """Return what a plan brings about.

    Args:
        statements: The plan.
        sees: Says whether a condition holds.
    """
    world = _World(sees)
    world.run(statements)
    return Outcome(
        tuple(sorted(world.places.items())),
        tuple(sorted(world.wiped)),
        world.held,
        tuple(sorted(world.pictures)),
        tuple(sorted(world.messages)),
        world.flying,
        # Where a drone has flown to an object, that is where it is.
        (0.0, 0.0, 0.0) if world.at else tuple(world.way),
    )
