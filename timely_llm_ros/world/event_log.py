"""What happens in a world, in order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EventKind = Literal['hit', 'near', 'wreck', 'grip', 'let_go', 'fall', 'task', 'verdict', 'danger']
"""``hit``: a drone or an arm's hand touched something. ``near``: a drone came too near to a person.
``wreck``: it turned over. ``grip``: an arm's fingers closed on something, or on ``nothing``.
``let_go``: they opened. ``fall``: something fell off a table. ``task``: one began. ``verdict``: the
world judged one. ``danger``: somebody set out to where a drone is."""


@dataclass(frozen=True, slots=True)
class WorldEvent:
    """One event.

    Attributes:
        t_s: When, since the world began (s).
        event: What kind of event it is.
        robot: To whom it happened.
        what: The other party, or the task.
        detail: More of it, in words.
        plan: Id of the task's plan, for a verdict; empty where it is not known.
        facts: What a picture of it is drawn from, as JSON values. Of a task: ``things``, where each
            thing of its bay is by name, ``targets``, and the camera's ``view``, its width (rad) and
            range (m). Of a danger: its ``way``, from x, y to x, y, and how long it takes (s).
            Places are in m in the room.
    """

    t_s: float
    event: EventKind
    robot: str
    what: str
    detail: str = ''
    plan: str = ''
    facts: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """Return it as a line of JSON, the same for the same event."""
        return json.dumps(
            {
                't': round(self.t_s, 6),
                'event': self.event,
                'robot': self.robot,
                'what': self.what,
                'detail': self.detail,
                **({'plan': self.plan} if self.plan else {}),
                **self.facts,
            }
        )


class EventLog:
    """Keeps events and tells them to whoever listens."""

    def __init__(self, on_event: Callable[[WorldEvent], None] = lambda _: None) -> None:
        self.events: list[WorldEvent] = []
        self._on_event = on_event

    def note(
        self,
        t_s: float,
        event: EventKind,
        robot: str,
        what: str,
        detail: str = '',
        plan: str = '',
        **facts: Any,
    ) -> None:
        """Append an event."""
        entry = WorldEvent(t_s, event, robot, what, detail, plan, facts)
        self.events.append(entry)
        self._on_event(entry)

    @property
    def text(self) -> str:
        """All events, a line each."""
        return ''.join(f'{entry.line()}\n' for entry in self.events)
