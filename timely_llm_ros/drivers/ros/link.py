"""The protocol by which a driver calls what others serve. ``RosCalls`` has it over ROS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

EndpointKind = Literal['action', 'service', 'topic']
"""What is called."""

SUCCEEDED, CANCELED = 4, 5
"""Statuses of ``action_msgs/GoalStatus`` with which a goal ends; any other is a failure."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Something that a robot offers.

    Attributes:
        kind: What it is.
        name: Its name, with the robot's prefix.
        type_name: Its type, for example ``nav2_msgs/action/Wait``.
        where: File and line that name it.
    """

    kind: EndpointKind
    name: str
    type_name: str
    where: str = field(compare=False)

    def __str__(self) -> str:
        return f'{self.kind} {self.name!r}'


@dataclass(frozen=True, slots=True)
class GoalEnding:
    """How a goal ended: its status, and its result message."""

    status: int
    result: Any


class GoalRun(Protocol):
    """A goal that was sent.

    Attributes:
        accepted: Done once the server has answered: whether it takes the goal.
        ended: Done once the goal has ended.
        heard_s: When its server was last heard of it (s on the loop's clock).
        feedback: The latest feedback message; None before the first.
    """

    accepted: asyncio.Future[bool]
    ended: asyncio.Future[GoalEnding]
    heard_s: float
    feedback: Any

    def cancel(self) -> None:
        """Ask the server to cancel it, as soon as it is accepted; idempotent."""
        ...


class RosLink(Protocol):
    """What one robot offers. Used from one asyncio loop."""

    async def open(self, endpoints: Iterable[Endpoint], cancelled: Iterable[Endpoint]) -> None:
        """Begin to look for endpoints, and for actions whose goals may be cancelled; idempotent."""
        ...

    async def close(self) -> None:
        """Forget them, once what was published has arrived; idempotent."""
        ...

    def missing(self) -> str | None:
        """Return which endpoint has nobody at its other end, as text; None where none has."""
        ...

    def send_goal(self, endpoint: Endpoint, goal: Any) -> GoalRun:
        """Send a goal to an action."""
        ...

    def ask(self, endpoint: Endpoint, request: Any) -> asyncio.Future[Any]:
        """Send a request to a service; the future has the response. It may be cancelled."""
        ...

    def cancel_goals(self, endpoint: Endpoint) -> asyncio.Future[bool]:
        """Ask an action's server to cancel every goal, whoever sent it.

        The future says whether it does so; it may be cancelled.
        """
        ...

    def publish(self, endpoint: Endpoint, message: Any) -> None:
        """Publish on a topic."""
        ...
