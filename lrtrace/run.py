"""The records of one run of a fleet: tasks, segments, the engine over time.

``lrtrace.timeline`` reads them from a trace. Times are in s since the run began.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from lrtrace.world_moments import WorldMoment
    from lrtrace.world_verdicts import WorldVerdict

MOST_NUMBERS = 4
"""So many numbers in a robot's name count where names are ordered."""

SUCCEEDED, CANCELED = 4, 5
"""``status`` of ``action_msgs/GoalStatus``."""


@dataclass(slots=True)
class RecordedSegment:
    """One segment of a plan. A time is None if the trace does not hold it."""

    index: int
    text: str = ''
    calls: tuple[str, ...] = ()
    tokens: int = 0
    generated_s: float | None = None
    """When its closing token was known."""

    generation_s: float = 0.0
    """Engine time spent on it."""

    expected_execution_s: float = 0.0
    calls_expected_s: tuple[float, ...] = ()
    awaits_value: bool = False
    """Whether the generation was held until the robot sent a value back."""

    started_s: float | None = None
    """When its first call started."""

    ended_s: float | None = None
    """When its end on the robot was known."""

    execution_s: float | None = None
    """How long it took by the robot's clock."""

    error: str = ''
    """What went wrong on the robot; empty if nothing did."""


@dataclass(slots=True)
class RecordedTask:
    """One task. A time is None if the trace does not hold it."""

    plan_id: str
    """Its id as hexadecimal digits."""

    robot: str
    kind: str
    """Its label, ``other`` if it had none."""

    instruction: str
    received_s: float
    free_s: float
    """When the task was received and every earlier task of its robot had ended."""

    expected_response_s: float
    slope_per_s: float
    peak: float
    """The last three are ERT, alpha and beta of its time utility."""

    segments: dict[int, RecordedSegment] = field(default_factory=dict)
    ended_s: float | None = None
    """When its result was known."""

    status: int = 0
    """``action_msgs/GoalStatus``; 0 while it has not ended."""

    error_code: int = 0
    """Of ``action/PlanTask``; 0 for success."""

    error: str = ''
    response_s: float | None = None
    waiting_s: float = 0.0
    execution_s: float = 0.0
    completion_s: float = 0.0
    utility: float = 0.0
    tokens: int = 0
    skill_set: str = ''
    scene: Scene = field(default_factory=Scene)
    """What the model was told of the robot's surroundings."""

    history: tuple[str, ...] = ()
    """What was said before in a chat, by its user and the answers in turn."""

    time_budget_s: float | None = None
    """None for no limit."""

    told_response_s: float | None = None
    """The response that its client was told to expect; None where nothing was known."""

    promised_response_s: float | None = None
    """The one that nine of ten tasks keep."""

    world_verdict: WorldVerdict | None = None
    """How a simulated world judged it; None where none did."""

    @property
    def succeeded(self) -> bool:
        """Whether its whole plan was executed."""
        return self.status == SUCCEEDED and self.error_code == 0

    @property
    def deadline_s(self) -> float:
        """When its utility begins to fall."""
        return self.received_s + self.expected_response_s

    @property
    def late(self) -> bool:
        """Whether its robot started acting after the expected response time or never."""
        return self.response_s is None or self.response_s > self.expected_response_s

    @property
    def urgent(self) -> bool:
        """Whether its peak utility is above that of a normal task."""
        return self.peak > 1.0

    @property
    def ordered_segments(self) -> list[RecordedSegment]:
        """The segments in the order of the plan."""
        return [self.segments[index] for index in sorted(self.segments)]

    @property
    def response_parts_s(self) -> tuple[float, float, float, float] | None:
        """The parts of the response time, None if the trace does not hold them.

        They are the wait for an earlier task of the robot, the wait for the engine, the generation
        of the first segment, and the delivery from its closing token to the first action.
        """
        first = self.segments.get(0)
        if first is None or first.generated_s is None or self.response_s is None:
            return None
        generated_s = max(first.generated_s - self.received_s, 0.0)
        behind_s = min(self.free_s - self.received_s, generated_s)
        generation_s = min(first.generation_s, generated_s - behind_s)
        return (
            behind_s,
            generated_s - behind_s - generation_s,
            generation_s,
            max(self.response_s - generated_s, 0.0),
        )


@dataclass(frozen=True, slots=True)
class RefusedTask:
    """A task that was not taken."""

    robot: str
    why: str
    kind: str = 'other'
    instruction: str = ''
    at_s: float = 0.0
    """When it was refused."""


@dataclass(frozen=True, slots=True)
class EngineSample:
    """The engine at one moment: generations by phase, tokens in its KV cache, step duration."""

    at_s: float
    running: int
    suspended: int
    held: int
    queued: int
    kv_tokens: int
    step_s: float


@dataclass(slots=True)
class Run:
    """One run of a fleet; ``label`` is what the report calls it."""

    label: str
    tasks: list[RecordedTask] = field(default_factory=list)
    """In the order of acceptance."""

    refused: list[RefusedTask] = field(default_factory=list)
    """In the order in which they were refused."""

    samples: list[EngineSample] = field(default_factory=list)
    moments: list[WorldMoment] = field(default_factory=list)
    """The tasks that a world judged, each at the moment that matters; empty where none did."""

    start_ns: int = 0
    """When time 0 was (ns since the epoch)."""

    duration_s: float = 0.0
    """Until the last event."""

    engine: str = ''
    model: str = ''
    mode: str = ''
    policy: str = ''
    kv_capacity_tokens: int = 0
    """0 if the trace does not say."""

    custom_data: dict[str, str] = field(default_factory=dict)
    """The recorder's notes on the run."""

    damage: str = ''
    """What was wrong with the trace; empty if nothing was."""

    path: str = ''

    @property
    def robots(self) -> list[str]:
        """The robots that had tasks; robot_10 comes after robot_9."""
        return sorted({task.robot for task in self.tasks}, key=natural_key)


def tell_apart(runs: list[Run]) -> None:
    """Add its path to the label of every run that is labelled as another is."""
    counts = Counter(run.label for run in runs)
    for run in runs:
        if counts[run.label] > 1:
            run.label += f', {run.path}'


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders the numbers in a name by value."""
    return [
        # Python reads no number of thousands of digits.
        (0, int(part), '') if part.isdecimal() and len(part) < 1000 else (1, 0, part)
        for part in re.split(r'(\d+)', name, maxsplit=MOST_NUMBERS)
        if part
    ]


def note_busy_robots(tasks: list[RecordedTask]) -> None:
    """Set ``free_s`` of a run's tasks, given in the order of acceptance."""
    free_s: dict[str, float] = {}
    for task in tasks:
        # A task that takes over ends the earlier one at once; a queued one waits for its end.
        task.free_s = max(task.received_s, free_s.get(task.robot, 0.0))
        if task.ended_s is not None:
            free_s[task.robot] = max(free_s.get(task.robot, 0.0), task.ended_s)
