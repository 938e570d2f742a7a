"""Which client may command which robots, out of a YAML file.

A client is what a goal says of itself. Only where DDS security says who may send goals does
anybody prove it; see ``docs/reference/permissions.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.errors import NotAllowedError
from timely_llm_ros.skills.loading import YamlValue, compose, read_skill_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from timely_llm_ros.planner.task import Task

MAX_CLIENTS = 1000
MAX_NAMES = 1000
MAX_NAME_LENGTH = 64
"""As much as a planner reads of the name that a goal gives."""

ALL = 'all'
"""Stands for every name in place of a list of them."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client may command: a robot that is listed and whose skill set is.

    Attributes:
        robots: Their names; None for all.
        skill_sets: Their names; None for all.
    """

    robots: frozenset[str] | None = None
    skill_sets: frozenset[str] | None = None

    def covers(self, robot: str, skill_set: str) -> bool:
        """Whether it allows a robot with its skill set."""
        return (self.robots is None or robot in self.robots) and (
            self.skill_sets is None or skill_set in self.skill_sets
        )

    def __str__(self) -> str:
        parts = []
        if self.robots is not None:
            parts.append(f'robots {", ".join(sorted(self.robots))}')
        if self.skill_sets is not None:
            parts.append(f'skill sets {", ".join(sorted(self.skill_sets))}')
        return ' with '.join(parts) or 'any robot'


@dataclass(frozen=True, slots=True)
class AllowList:
    """What clients may command; whoever is not listed may only what anyone may.

    Attributes:
        source: The file that it is from.
        clients: What each listed client may, by its name.
        anyone: What every client may, goals without a client among them; None for nothing.
    """

    source: str
    clients: Mapping[str, Grant] = field(default_factory=dict)
    anyone: Grant | None = None

    def require(self, task: Task) -> None:
        """Check that a task's client may command its robot.

        Raises:
            NotAllowedError: It may not.
        """
        grants = [grant for grant in (self.clients.get(task.client), self.anyone) if grant]
        if any(grant.covers(task.robot, task.skill_set) for grant in grants):
            return
        who = f'client {task.client[:MAX_NAME_LENGTH]!r}' if task.client else 'a nameless client'
        may = ' or '.join(map(str, grants)) or 'a client that is listed'
        raise NotAllowedError(
            f'{who} may not command robot {task.robot!r} with skill set {task.skill_set!r}: '
            f'expected {may}, as {self.source} has it'
        )


def read_allow_list(path: str | Path, skill_set_of: Mapping[str, str]) -> AllowList:
    """Read an allow-list for a fleet.

    Args:
        path: The file.
        skill_set_of: Name of each robot's skill set; the file names only these.

    Raises:
        SkillSetError: It cannot be read, or has a value that is not what it must be; the message
            names file, line and key.
    """
    source = str(path)
    top = compose(read_skill_file(path), source).mapping(optional=('clients', 'anyone'))
    robots, skill_sets = tuple(skill_set_of), tuple(dict.fromkeys(skill_set_of.values()))
    clients: dict[str, Grant] = {}
    items = top['clients'].sequence(MAX_CLIENTS) if 'clients' in top else []
    for item in items:
        keys = item.mapping(required=('name',), optional=('robots', 'skill_sets'))
        name = keys['name'].line(MAX_NAME_LENGTH)
        if name in clients:
            keys['name'].refuse(f'{name!r} given twice: expected once')
        clients[name] = _grant(item, keys, robots, skill_sets)
    anyone = None
    if 'anyone' in top:
        keys = top['anyone'].mapping(optional=('robots', 'skill_sets'))
        anyone = _grant(top['anyone'], keys, robots, skill_sets)
    return AllowList(source, clients, anyone)


def _grant(
    item: YamlValue,
    keys: Mapping[str, YamlValue],
    robots: Collection[str],
    skill_sets: Collection[str],
) -> Grant:
    if 'robots' not in keys and 'skill_sets' not in keys:
        # What is forgotten must not be allowed.
        item.refuse(f'nothing: expected robots or skill_sets; {ALL!r} means each of them')
    return Grant(
        _names(keys['robots'], robots) if 'robots' in keys else None,
        _names(keys['skill_sets'], skill_sets) if 'skill_sets' in keys else None,
    )


def _names(item: YamlValue, known: Collection[str]) -> frozenset[str] | None:
    if item.form == 'text':
        item.one_of((ALL,))
        return None
    return frozenset(one.one_of(tuple(known)) for one in item.sequence(MAX_NAMES))
