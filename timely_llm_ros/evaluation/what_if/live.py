"""Recorded tasks on an engine that runs a model, in real time: its own plans, recorded durations.

The model writes its plans anew. A call takes as long as the same call of the same skill set took in
the trace, in turn; a call that is not in the trace takes what its duration model says.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import TYPE_CHECKING

from lrtrace.call_samples import measured_calls
from lrtrace.executed_segments import read_executed
from timely_llm_ros.clock import WallClock
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.what_if.fleet import ReplayDriver, ReplayFleet
from timely_llm_ros.evaluation.what_if.observer import RunObserver
from timely_llm_ros.planner import PlannerConfig
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lrtrace.run import Run
    from lrtrace.storage import Trace
    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine
    from timely_llm_ros.evaluation.what_if.recorded import Recording
    from timely_llm_ros.evaluation.what_if.what_if import WhatIf
    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.planner import SegmentReady
    from timely_llm_ros.skills import Call, Scene, SkillSet

YES = 0.7
"""How often a call that asks something is answered with yes: traces do not hold the answers."""


class RecordedDriver(ReplayDriver):
    """A robot that takes for each call what it took in a trace.

    Args:
        skill_set: Its skills, for calls that are not in the trace.
        recorded: How long calls took (s), by their text; taken in turn.
        clock: What it sleeps on.
        seed: Of its answers.
    """

    def __init__(
        self,
        skill_set: SkillSet,
        recorded: Mapping[str, Sequence[float]],
        clock: Clock,
        *,
        seed: int,
    ) -> None:
        super().__init__(clock)
        self._skill_set, self._recorded = skill_set, recorded
        self._made: dict[str, int] = defaultdict(int)
        self._random = random.Random(seed)

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Sleep as long as the call took, then make up the value that it returns."""
        skill = self._skill_set.skills[call.skill]
        known = self._recorded.get(call.text, ())
        if known:
            duration_s = known[self._made[call.text] % len(known)]
        else:
            duration_s = skill.duration.expected_s(call, scene)
        self._made[call.text] += 1
        await self._clock.sleep(duration_s)
        match skill.returns:
            case 'bool':
                return self._random.random() < YES
            case 'text':
                return ','.join(scene.names[:3]) or 'none'
            case _:
                return None


class _LiveObserver(RunObserver):
    """Keeps the words that the model wrote, in place of the recorded ones."""

    def _words(self, event: SegmentReady) -> tuple[str, tuple[str, ...]]:
        return event.segment.text, tuple(call.text for call in event.segment.calls)


def recorded_durations(trace: Trace) -> dict[str, dict[str, list[float]]]:
    """Return how long each call took (s), by skill set and text, in the order of the trace.

    Raises:
        TraceError: The trace cannot be read, or is not one of a fleet.
        ConfigurationError: A skill set of it is not known here, or has other skills.
    """
    segments = read_executed(trace)
    found: dict[str, dict[str, list[float]]] = {}
    for name in sorted({segment.skill_set for segment in segments if segment.skill_set}):
        calls: dict[str, list[float]] = defaultdict(list)
        for samples in measured_calls(segments, find_skill_set(name)).samples.values():
            for sample in samples:
                calls[sample.call.text].append(sample.duration_s)
        found[name] = calls
    return found


def replay_live(
    trace: Trace,
    recording: Recording,
    what_if: WhatIf,
    make_engine: Callable[[], Engine],
    *,
    label: str = '',
    on_progress: Callable[[int, float], None] | None = None,
) -> Run:
    """Serve the recorded tasks in real time; return what happened, times since the begin.

    Args:
        trace: Where the durations of calls are.
        recording: The tasks.
        what_if: Mode and policy, for the record; the engine is made for them.
        make_engine: Makes the engine, once all else is found to be right.
        label: What reports call the run; by default the what-if's own label.
        on_progress: Called about once a second with tasks ended and seconds passed.

    Raises:
        ConfigurationError: A skill set of the trace is not known here, or an option is wrong.
        ModelLoadError: The model cannot be loaded.
    """
    if what_if.robots is not None:
        raise ConfigurationError(
            f'{what_if.robots} robots: expected the recorded ones: an engine that runs a model '
            'replays with durations of the recorded robots'
        )
    durations = recorded_durations(trace)
    clock = WallClock()
    kinds = {task.record.robot: task.skill_set for task in recording.tasks}
    seeds = {robot: number for number, robot in enumerate(sorted(kinds))}
    observer = _LiveObserver(recording.tasks)
    fleet = ReplayFleet(
        recording.tasks,
        [(task.record.robot,) for task in recording.tasks],
        {name: find_skill_set(name) for name in sorted(set(kinds.values()))},
        lambda robot, skill_set: RecordedDriver(
            skill_set, durations.get(kinds[robot], {}), clock, seed=seeds[robot]
        ),
        make_engine(),
        clock,
        PlannerConfig(max_queue_per_robot=len(recording.tasks)),
        recording.network_s,
        take_over=True,
        observer=observer,
        on_progress=on_progress,
    )
    info = asyncio.run(fleet.serve())
    run = observer.run(label or what_if.label())
    run.engine, run.model, run.kv_capacity_tokens = info.engine, info.model, info.kv_capacity_tokens
    run.mode, run.policy, run.start_ns = what_if.mode, what_if.policy, recording.run.start_ns
    run.custom_data = {'replay_of': recording.run.path}
    return run
