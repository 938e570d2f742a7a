"""A simulated robot: its skills take a time drawn from their duration models."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers.journal import Journal
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError, SkillFailedError
from timely_llm_ros.options import check_options, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.skills import Call, Scene, SkillSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedOptions:
    """How one robot is simulated; the executor node has these options as parameters too.

    A call that fails does so half-way through its time. A line of the journal is
    ``{"t": s on the clock, "pid": .., "event": "start" | "end" | "safe", "call": ..}``.

    Raises:
        ConfigurationError: A value is out of range.
    """

    seed: int = option(
        0,
        "Seed of the simulated driver; each robot's times follow from it and the robot's name.",
        minimum=0,
        maximum=2**32 - 1,
    )
    time_scale: float = option(
        1.0,
        'The simulated driver multiplies the duration of every skill by this.',
        minimum=0.0,
        maximum=1000.0,
    )
    failure_probability: float = option(
        0.0, 'How likely a call of the simulated driver fails.', minimum=0.0, maximum=1.0
    )
    journal_path: str = option(
        '',
        "File to which the simulated driver appends what the robot's body is told, as JSON lines; "
        '{robot} stands for the name of the robot; "" for none.',
    )

    def __post_init__(self) -> None:
        check_options(self)


_DEFAULTS = SimulatedOptions()


class SimulatedDriver:
    """Does every skill of a skill set by sleeping for a drawn time.

    Args:
        skill_set: The robot's skills, with their duration models.
        options: How it is simulated.
        clock: The clock to sleep on; by default the loop's.
        values: Says what a blocking skill returns. By default a bool is drawn, true in seven cases
            of ten, and a text is the first names in the scene.
    """

    def __init__(
        self,
        skill_set: SkillSet,
        options: SimulatedOptions = _DEFAULTS,
        *,
        clock: Clock | None = None,
        values: Callable[[Call, Scene], CallValue] | None = None,
    ) -> None:
        self._skill_set, self._options = skill_set, options
        self._random = random.Random(options.seed)
        self._clock: Clock = clock if clock is not None else LoopClock()
        self._values = values
        self._journal: Journal | None = None

    async def connect(self) -> None:
        """Open the journal."""
        if self._journal is not None:
            return
        path = self._options.journal_path
        try:
            self._journal = Journal(path)
        except OSError as err:
            raise ConfigurationError(
                f'journal {path!r}: expected a writable file: {err.strerror}'
            ) from err

    async def close(self) -> None:
        """Close the journal."""
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
        duration_s = self._options.time_scale * skill.duration.sample_s(call, scene, self._random)
        fails = self._random.random() < self._options.failure_probability
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
        if self._journal is None:
            raise RobotUnavailableError('simulated robot: expected to be connected')

    def _note(self, event: str, call: str) -> None:
        if self._journal is not None and self._options.journal_path:
            line = {'t': self._clock.now(), 'pid': os.getpid(), 'event': event, 'call': call}
            self._journal.note(line)
