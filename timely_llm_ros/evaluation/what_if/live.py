"""Recorded tasks on an engine that runs a model, in real time: its own plans, recorded durations.

The model writes its plans anew. What a call takes is what the same call of the same robot took in
the trace, in turn; a call that is not in it takes what its skill set's duration model says.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lrtrace.call_samples import measured_calls
from lrtrace.executed_segments import read_executed
from timely_llm_ros.clock import WallClock
from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.evaluation.what_if.observer import RunObserver
from timely_llm_ros.execution import ExecutorLimits, LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import Planner, PlannerConfig, SegmentReady, Task
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lrtrace.run import Run
    from lrtrace.storage import Trace
    from timely_llm_ros.clock import Clock
    from timely_llm_ros.engines import Engine, EngineEvent
    from timely_llm_ros.evaluation.what_if.recorded import Recording, ReplayedTask
    from timely_llm_ros.evaluation.what_if.what_if import WhatIf
    from timely_llm_ros.execution import CallValue
    from timely_llm_ros.planner import PlannerEvent
    from timely_llm_ros.skills import Call, Scene, SkillSet

    Durations = Mapping[str, Sequence[float]]

YES = 0.7
"""How often a call that asks something is answered with yes: traces do not hold the answers."""

NO_LIMIT_S = 1e6


class RecordedDriver:
    """A robot that takes for each call what it took in a trace.

    Args:
        skill_set: Its skills, for calls that are not in the trace.
        recorded: How long calls took (s), by their text; taken in turn.
        clock: What it sleeps on.
        seed: Equal seeds give equal answers.
    """

    def __init__(
        self, skill_set: SkillSet, recorded: Durations, clock: Clock, *, seed: int
    ) -> None:
        self._skill_set, self._recorded, self._clock = skill_set, recorded, clock
        self._made: dict[str, int] = defaultdict(int)
        self._random = random.Random(seed)

    async def connect(self) -> None:
        """Nothing is there to connect to."""

    async def close(self) -> None:
        """Nothing is held."""

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Sleep as long as the call took."""
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

    async def safe(self) -> None:
        """It does nothing anyway."""


class _LiveObserver(RunObserver):
    """Keeps times since the replay's begin, and the words that the model wrote."""

    def __init__(self, tasks: Iterable[ReplayedTask], start_s: float) -> None:
        super().__init__(tasks)
        self._start_s = start_s

    def begin(self, start_s: float) -> None:
        """Count from now on; forget what the engine said while it loaded."""
        self._start_s = start_s
        self._samples.clear()

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Note what happened to a task."""
        moved: dict[str, Any] = {'at_s': event.at_s - self._start_s}
        if isinstance(event, SegmentReady):
            moved['token_at_s'] = event.token_at_s - self._start_s
        super().on_planner_event(replace(event, **moved))
        if isinstance(event, SegmentReady):
            segment = self._segment(self._found[event.task_id], event.segment.index)
            segment.text = event.segment.text
            segment.calls = tuple(call.text for call in event.segment.calls)

    def on_engine_event(self, event: EngineEvent) -> None:
        """Note the engine's state."""
        before = len(self._samples)
        super().on_engine_event(event)
        for place in range(before, len(self._samples)):
            sample = self._samples[place]
            self._samples[place] = replace(sample, at_s=sample.at_s - self._start_s)


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
        what_if: Mode and policy, for the record; the engine was made for them.
        make_engine: Makes the engine.
        label: What reports call it; by default the what-if's own label.
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
    run = asyncio.run(_serve(recording, durations, make_engine(), on_progress))
    run.label = label or what_if.label()
    run.mode, run.policy, run.start_ns = what_if.mode, what_if.policy, recording.run.start_ns
    run.custom_data = {'replay_of': recording.run.path}
    return run


async def _serve(
    recording: Recording,
    durations: Mapping[str, Durations],
    engine: Engine,
    on_progress: Callable[[int, float], None] | None,
) -> Run:
    clock = WallClock()
    kinds = {task.record.robot: task.record.skill_set for task in recording.tasks}
    skill_sets = {name: find_skill_set(name) for name in sorted(set(kinds.values()))}
    executors = {
        robot: SegmentExecutor(
            RecordedDriver(skill_sets[name], durations.get(name, {}), clock, seed=number),
            skill_sets[name],
            clock,
            # What a recorded robot took, it took: no call is too long.
            ExecutorLimits(timeout_margin_s=NO_LIMIT_S),
        )
        for number, (robot, name) in enumerate(sorted(kinds.items()))
    }
    observer = _LiveObserver(recording.tasks, clock.now())
    planner = Planner(
        engine=engine,
        robots={
            name: LocalRobotLink(one, clock, latency_s=recording.network_s)
            for name, one in executors.items()
        },
        skill_sets=skill_sets,
        clock=clock,
        on_event=observer.on_planner_event,
        on_engine_event=observer.on_engine_event,
        config=PlannerConfig(max_queue_per_robot=len(recording.tasks)),
    )
    for executor in executors.values():
        await executor.start()
    try:
        info = await planner.start()
        start_s = clock.now()
        observer.begin(start_s)
        waiting: list[asyncio.Future[Any]] = []
        telling = asyncio.create_task(_tell(waiting, start_s, clock, on_progress))
        for task in recording.tasks:
            await clock.sleep(start_s + task.record.received_s - clock.now())
            try:
                handle = planner.submit(planner.prepare(_task(task)))
            except TimelyError as err:
                observer.refused(task, task.record.robot, err)
            else:
                waiting.append(asyncio.ensure_future(handle.result()))
        await asyncio.gather(*waiting)
        telling.cancel()
    finally:
        await planner.close()
        for executor in executors.values():
            await executor.close()
    run = observer.run('')
    run.engine, run.model = info.engine, info.model
    run.kv_capacity_tokens = info.kv_capacity_tokens
    return run


async def _tell(
    waiting: Sequence[asyncio.Future[Any]],
    start_s: float,
    clock: Clock,
    on_progress: Callable[[int, float], None] | None,
) -> None:
    while on_progress is not None:
        on_progress(sum(one.done() for one in waiting), clock.now() - start_s)
        await clock.sleep(1.0)


def _task(task: ReplayedTask) -> Task:
    record = task.record
    return Task(
        record.plan_id,
        record.robot,
        record.skill_set,
        record.instruction,
        record.scene,
        TimeUtility(record.expected_response_s, record.slope_per_s, record.peak),
        time_budget_s=record.time_budget_s,
        when_busy=task.when_busy,
        task_kind=record.kind,
    )
