"""Finds what a replay needs in a recorded run: tasks, shapes of plans, conditions."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.errors import SupersededError, TraceError
from timely_llm_ros.evaluation.what_if.plans import PlannedSegment, split_plan

if TYPE_CHECKING:
    from lrtrace.run import RecordedSegment, RecordedTask, Run

DEFAULT_NETWORK_S = 0.008
"""One-way time to a robot (s) where a trace does not tell: TimelyLLM, section 7.1."""

DEFAULT_MAX_RUNNING = 8
"""Generations in a step where a trace does not tell."""

DEFAULT_KV_TOKENS = 65536
"""The engine's room for KV where a trace does not tell."""


@dataclass(frozen=True, slots=True)
class ReplayedTask:
    """One task to run again.

    Attributes:
        record: What the trace says of it.
        segments: What is known of its plan, at least one segment.
        end_tokens: Tokens after the last segment, for example an end mark.
        when_busy: ``abort`` if it took over from another task, else ``queue``.
    """

    record: RecordedTask
    segments: tuple[PlannedSegment, ...]
    end_tokens: int
    when_busy: Literal['abort', 'queue']

    @property
    def skill_set(self) -> str:
        """Name of its skill set, ``robot`` where the trace has none."""
        return self.record.skill_set or 'robot'

    @property
    def compared(self) -> bool:
        """Whether its whole plan is known; otherwise it is only load for the others."""
        return self.record.succeeded


@dataclass(frozen=True, slots=True)
class Recording:
    """A run to be run again.

    Attributes:
        run: What the trace says.
        tasks: In the order of acceptance.
        left_out: Tasks without a known segment, which cannot be run again.
        split: Whether whole plans were split into estimated segments.
        network_s: Median time from a segment's closing token to its start on an idle robot (s).
        max_running: Most generations seen in one engine step.
        kv_tokens: Tokens of KV that the engine could hold.
    """

    run: Run
    tasks: tuple[ReplayedTask, ...]
    left_out: int
    split: bool
    network_s: float
    max_running: int
    kv_tokens: int

    @property
    def compared(self) -> int:
        """How many tasks figures are made of."""
        return sum(task.compared for task in self.tasks)


def recording_of(run: Run, *, split_plans: bool = False) -> Recording:
    """Return what of a run can be run again.

    With ``split_plans`` a plan that was served whole is split into its statements, which is an
    estimate (:func:`split_plan`).

    Raises:
        TraceError: The trace is damaged, or holds no task that succeeded and whose plan is known.
    """
    if run.damage:
        raise TraceError(
            f'trace {run.path!r}: {run.damage}: expected a whole one; "lrtrace repair" makes one '
            'of what is sound'
        )
    if not run.tasks:
        raise TraceError(
            f'trace {run.path!r}: no task in it: expected accepted tasks in messages of type '
            'timely_llm_ros/msg/TaskEvent'
        )
    split = split_plans and run.mode == 'whole_plan'
    # The error of a superseded task names the one that took over from it.
    take_overs = ' '.join(
        record.error.replace('-', '')
        for record in run.tasks
        if record.error_code == SupersededError.code
    )
    found = [_task(record, take_overs, split=split) for record in run.tasks]
    tasks = tuple(task for task in found if task.segments)
    if not any(task.compared for task in tasks):
        raise TraceError(
            f'trace {run.path!r}: none of its {len(run.tasks)} tasks succeeded with a plan that '
            'was recorded: expected at least one'
        )
    return Recording(
        run,
        tasks,
        left_out=len(found) - len(tasks),
        split=split,
        network_s=_network_s(run.tasks),
        max_running=max((sample.running for sample in run.samples), default=0)
        or DEFAULT_MAX_RUNNING,
        kv_tokens=run.kv_capacity_tokens or DEFAULT_KV_TOKENS,
    )


def _task(record: RecordedTask, take_overs: str, *, split: bool) -> ReplayedTask:
    segments: list[PlannedSegment] = []
    for index, segment in enumerate(record.ordered_segments):
        # What follows a gap cannot have been executed in order, and nothing is known without text.
        if segment.index != index or not segment.text or (index == 0 and not segment.tokens):
            break
        planned = _segment(segment)
        segments += split_plan(planned, segment.calls_expected_s) if split else [planned]
    end_tokens = max(0, record.tokens - sum(segment.tokens for segment in segments))
    return ReplayedTask(
        record,
        tuple(segments),
        end_tokens if record.succeeded else 0,
        'abort' if record.plan_id in take_overs else 'queue',
    )


def _segment(segment: RecordedSegment) -> PlannedSegment:
    execution_s = segment.execution_s
    if execution_s is None and segment.started_s is not None and segment.ended_s is not None:
        execution_s = max(0.0, segment.ended_s - segment.started_s)
    if execution_s is None:
        execution_s = segment.expected_execution_s
    return PlannedSegment(
        segment.text,
        segment.calls,
        segment.tokens,
        segment.expected_execution_s,
        execution_s,
        segment.awaits_value,
    )


def _network_s(tasks: list[RecordedTask]) -> float:
    delays = []
    for task in tasks:
        first = task.segments.get(0)
        if first is None or first.generated_s is None or first.started_s is None:
            continue
        if task.free_s <= first.generated_s <= first.started_s:
            delays.append(first.started_s - first.generated_s)
    return median(delays) if delays else DEFAULT_NETWORK_S
