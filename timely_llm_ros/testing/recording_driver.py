"""A robot for tests: it remembers what it was told and fails when a test says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.drivers import SimulatedDriver
from timely_llm_ros.errors import RobotUnavailableError, SkillFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.skills import Call, Scene, SkillSet


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that a robot was told.

    Attributes:
        at_s: When, on the loop's clock (s).
        robot: The robot's name.
        event: ``start`` or ``end`` of a call, or ``safe`` for the safe action.
        call: The call's text.
    """

    at_s: float
    robot: str
    event: str
    call: str


class RecordingDriver(SimulatedDriver):
    """Does every skill by sleeping for its expected time, and notes what it is told.

    Attributes:
        value: What blocking skills return.
        on_end: Called when a call ends.
        fails_at: The text of the call at which the robot reports failure.
        hangs_at: The text of the call that never ends.
        broken: Whether every call fails.
        gone: Whether contact with the robot is lost, so that every request raises.
        was_gone: Whether there was a request while contact was lost.
        safe_s: How long it takes to tell the robot its safe action (s).
    """

    def __init__(self, skill_set: SkillSet, robot: str, on_note: Callable[[Note], object]) -> None:
        super().__init__(skill_set, values=self._value)
        self._robot, self._on_note = robot, on_note
        self.value: CallValue = True
        self.on_end: Callable[[], object] | None = None
        self.fails_at: str | None = None
        self.hangs_at: str | None = None
        self.broken = False
        self.gone = False
        self.was_gone = False
        self.safe_s = 0.0

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Do a call, or fail or hang at it."""
        self._require_contact()
        if self.broken or call.text == self.fails_at:
            self._note('start', call.text)
            raise SkillFailedError(f'{call.text}: motor stop')
        if call.text == self.hangs_at:
            self._note('start', call.text)
            await asyncio.sleep(1e6)
        return await super().execute(call, scene)

    async def safe(self) -> None:
        """Take the safe action, after ``safe_s``."""
        self._require_contact()
        await asyncio.sleep(self.safe_s)
        await super().safe()

    def _value(self, _call: Call, _scene: Scene) -> CallValue:
        if self.on_end is not None:
            self.on_end()
        return self.value

    def _require_contact(self) -> None:
        if self.gone:
            self.was_gone = True
            raise RobotUnavailableError(f'robot {self._robot!r} is gone')

    def _note(self, event: str, call: str) -> None:
        self._on_note(Note(asyncio.get_running_loop().time(), self._robot, event, call))
