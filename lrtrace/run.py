"""The records of one run of a fleet: its tasks, their segments, the engine over time.

Times are in s since the run began. ``lrtrace.timeline`` makes these records from a trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from timely_llm_ros.skills import Scene

SUCCEEDED = 4
"""``status`` of ``action_msgs/GoalStatus`` for a goal that succeeded."""

CANCELED = 5
"""The same for a goal that was canceled."""


@dataclass(slots=True)
class RecordedSegment:
    """One segment. A time is None where the trace does not hold it.

    Attributes:
        index: Its place in the plan.
        text: In the plan language.
        calls: Texts of its calls.
        tokens: Generated for it.
        generated_s: When its closing token was known.
        generation_s: Engine time spent on it (s).
        expected_execution_s: By the skill set's duration models (s).
        calls_expected_s: The same of each of ``calls`` (s).
        awaits_value: Whether the generation was held until its value was back.
        started_s: When its first call started.
        ended_s: When its end on the robot was known.
        execution_s: How long it took, by the robot's own clock.
        error: What went wrong on the robot; empty if nothing did.
    """

    index: int
    text: str = ''
    calls: tuple[str, ...] = ()
    tokens: int = 0
    generated_s: float | None = None
    generation_s: float = 0.0
    expected_execution_s: float = 0.0
    calls_expected_s: tuple[float, ...] = ()
    awaits_value: bool = False
    started_s: float | None = None
    ended_s: float | None = None
    execution_s: float | None = None
    error: str = ''


@dataclass(slots=True)
class RecordedTask:
    """One task. Durations and times in s; None where the trace does not hold them.

    Attributes:
        plan_id: The task's id, as hexadecimal digits.
        robot: Whose task.
        kind: Its label, ``other`` where it had none.
        instruction: What the user said.
        received_s: When it was received.
        free_s: When its robot was free for it: received, or an earlier task of the robot ended.
        expected_response_s: ERT of its time utility.
        slope_per_s: alpha of its time utility.
        peak: beta of its time utility.
        segments: By index.
        ended_s: When its result was known.
        status: ``action_msgs/GoalStatus``; 0 while it has not ended.
        error_code: Of ``action/PlanTask``; 0 for success.
        error: What went wrong; empty for success.
        response_s: Received to the start of the first action.
        waiting_s: Sum of the robot's waits before each segment.
        execution_s: Sum of the segments' execution times.
        completion_s: Waiting and execution.
        utility: Achieved.
        tokens: Generated.
        skill_set: Name of its robot's skill set.
        scene: What the model was told of the robot's surroundings.
        time_budget_s: Within which its generation had to end; None for no limit.
    """

    plan_id: str
    robot: str
    kind: str
    instruction: str
    received_s: float
    free_s: float
    expected_response_s: float
    slope_per_s: float
    peak: float
    segments: dict[int, RecordedSegment] = field(default_factory=dict)
    ended_s: float | None = None
    status: int = 0
    error_code: int = 0
    error: str = ''
    response_s: float | None = None
    waiting_s: float = 0.0
    execution_s: float = 0.0
    completion_s: float = 0.0
    utility: float = 0.0
    tokens: int = 0
    skill_set: str = ''
    scene: Scene = field(default_factory=Scene)
    time_budget_s: float | None = None

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
        """Whether its robot started acting after the expected response time, or never did."""
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
        """The response time in its parts, None where the trace does not hold them.

        They are the time behind an earlier task of the robot, the wait for the engine, the
        generation of the first segment, and the delivery: closing token to first action.
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
class EngineSample:
    """The engine at one moment: generations by phase, KV tokens, duration of a step (s)."""

    at_s: float
    running: int
    suspended: int
    held: int
    queued: int
    kv_tokens: int
    step_s: float


@dataclass(slots=True)
class Run:
    """One run of a fleet.

    Attributes:
        label: What the report calls it.
        tasks: In the order of acceptance.
        refused: Tasks that were refused, as (robot, why).
        samples: The engine over time.
        start_ns: When time 0 was (ns since the epoch).
        duration_s: Until the last thing that happened.
        engine: The engine's name.
        model: The model's name.
        mode: The serving mode.
        policy: The policy.
        kv_capacity_tokens: Tokens of KV that the engine could hold; 0 if the trace does not say.
        custom_data: What the recorder was told of the run.
        damage: What was wrong with the trace; empty if nothing was.
        path: Where the trace is.
    """

    label: str
    tasks: list[RecordedTask] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    samples: list[EngineSample] = field(default_factory=list)
    start_ns: int = 0
    duration_s: float = 0.0
    engine: str = ''
    model: str = ''
    mode: str = ''
    policy: str = ''
    kv_capacity_tokens: int = 0
    custom_data: dict[str, str] = field(default_factory=dict)
    damage: str = ''
    path: str = ''

    @property
    def robots(self) -> list[str]:
        """Names of the robots that had tasks, sorted so that robot_10 comes after robot_9."""
        return sorted({task.robot for task in self.tasks}, key=natural_key)


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders the numbers in a name by value."""
    return [
        (0, int(part), '') if part.isdecimal() else (1, 0, part)
        for part in re.split(r'(\d+)', name)
        if part
    ]


def note_busy_robots(tasks: list[RecordedTask]) -> None:
    """Set ``free_s`` of a run's tasks, given in the order of acceptance."""
    free_s: dict[str, float] = {}
    for task in tasks:
        # A task that takes over ends the earlier one at once; one that queues waits for its end.
        task.free_s = max(task.received_s, free_s.get(task.robot, 0.0))
        if task.ended_s is not None:
            free_s[task.robot] = max(free_s.get(task.robot, 0.0), task.ended_s)
