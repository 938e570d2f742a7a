"""A robot that is not there: skills take the time their duration models say, with variation."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError, SkillFailedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import TextIOWrapper
    from pathlib import Path

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.skills import Call, Scene, SkillSet


class SimulatedDriver:
    """Does every skill of a skill set by sleeping a drawn time.

    Args:
        skill_set: The robot's skills, with their duration models.
        seed: Equal seeds give equal times and values.
        time_scale: Drawn times are multiplied by this.
        journal_path: JSON lines of what the robot's body is told, appended and flushed one by one:
            ``{"t": s on the clock, "pid": .., "event": "start" | "end" | "safe", "call": ..}``.
        clock: What it sleeps on; the loop's time by default.
        values: What blocking skills return; by default drawn, true in seven cases of ten, and
            the names in the scene for a text.
        failure_probability: How likely a call fails, half-way through its time.

    Raises:
        ConfigurationError: An option is out of range.
    """

    def __init__(
        self,
        skill_set: SkillSet,
        *,
        seed: int = 0,
        time_scale: float = 1.0,
        journal_path: str | Path | None = None,
        clock: Clock | None = None,
        values: Callable[[Call, Scene], CallValue] | None = None,
        failure_probability: float = 0.0,
    ) -> None:
        if not time_scale >= 0:
            raise ConfigurationError(f'time scale {time_scale!r}: expected a number >= 0')
        if not 0 <= failure_probability <= 1:
            raise ConfigurationError(
                f'failure probability {failure_probability!r}: expected a number from 0 to 1'
            )
        self._skill_set, self._time_scale = skill_set, time_scale
        self._random = random.Random(seed)
        self._clock: Clock = clock if clock is not None else LoopClock()
        self._values = values
        self._failure_probability = failure_probability
        self._journal_path = journal_path
        self._journal: TextIOWrapper | None = None
        self._connected = False

    async def connect(self) -> None:
        """Open the journal."""
        if self._journal_path is not None and self._journal is None:
            try:
                self._journal = open(self._journal_path, 'a', encoding='utf-8')  # noqa: SIM115
            except OSError as err:
                raise ConfigurationError(
                    f'journal {str(self._journal_path)!r}: expected a writable file: {err.strerror}'
                ) from err
        self._connected = True

    async def close(self) -> None:
        """Close the journal."""
        self._connected = False
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Sleep as long as the skill takes; a cancelled call has a start and no end."""
        self._require_connection()
        skill = self._skill_set.skills.get(call.skill)
        if skill is None:
            raise SkillFailedError(
                f'skill {call.skill!r}: expected one of skill set {self._skill_set.name!r}'
            )
        duration_s = self._time_scale * skill.duration.sample_s(call, scene, self._random)
        fails = self._random.random() < self._failure_probability
        draw = self._random.random()
        text = call.text
        self._note('start', text)
        if fails:
            await self._clock.sleep(duration_s / 2)
            raise SkillFailedError(f'{text}: simulated failure')
        await self._clock.sleep(duration_s)
        self._note('end', text)
        if self._values is not None:
            return self._values(call, scene)
        match skill.returns:
            case 'bool':
                return draw < 0.7
            case 'text':
                return ','.join(scene.names[:3]) or 'none'
            case 'none':
                return None

    async def safe(self) -> None:
        """Note the skill set's safe action."""
        self._require_connection()
        self._note('safe', self._skill_set.safe_action)

    def _require_connection(self) -> None:
        if not self._connected:
            raise RobotUnavailableError('simulated robot: expected to be connected')

    def _note(self, event: str, call: str) -> None:
        if self._journal is not None:
            line = {'t': self._clock.now(), 'pid': os.getpid(), 'event': event, 'call': call}
            self._journal.write(json.dumps(line) + '\n')
            self._journal.flush()
