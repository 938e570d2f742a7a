"""What writing plans in segments costs a torch engine: more steps, and work beside the model."""

from __future__ import annotations

import contextlib
import functools
import random
import statistics
import subprocess
import time
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from rich.progress import track

from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    Resume,
    SegmentGenerated,
    Submit,
)
from timely_llm_ros.engines.core import LanedCore
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch import frame
from timely_llm_ros.engines.torch.compute import TorchBackend, load_model
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.sample_tasks import TaskSample, sample_task
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from timely_llm_ros.engines.torch import TorchConfig
    from timely_llm_ros.engines.torch.compute import LoadedModel

KINDS = (1, 3, 4, 5, 9, 10, 11)
"""Of the tasks whose plans are written."""

_skill_set = functools.cache(find_skill_set)

WAYS: tuple[ServingMode, ...] = ('segmented', 'whole_plan')


@dataclass(frozen=True, slots=True)
class Written:
    """What writing plans once took.

    Attributes:
        steps: Of the engine.
        tokens: Of the plans.
        model_s: Time in which the model computed (s).
        beside_s: Processor time of everything else: choosing, cutting, checking, events and their
            bytes (s).
    """

    steps: int
    tokens: int
    model_s: float
    beside_s: float


class Writer:
    """An engine's core on a model that other writers share, so that all have the same memory."""

    def __init__(
        self,
        engine: TorchConfig,
        loaded: LoadedModel,
        mode: ServingMode,
        at_once: int,
        sink: IO[bytes],
    ) -> None:
        self._sink = sink
        options = replace(
            engine,
            mode=mode,
            policy='fcfs',
            max_running=at_once,
            scheduling=SchedulingOptions(admission='feasible', interrupts=True),
        )
        self._backend = TorchBackend(loaded, observations=mode == 'segmented')
        self._core = LanedCore(
            self._backend, options.core_options(context_limit=loaded.context_limit)
        )
        self._prompts = load_prompts('auto', find_model(options.model_path))
        self._count = 0

    def write(self, samples: Sequence[TaskSample]) -> Written:
        """Write the plans of all samples; a value that a plan waits for is there at once."""
        requests = [self._request(sample) for sample in samples]
        left, tokens, steps, model_s, model_cpu_s = len(samples), 0, 0, 0.0, 0.0
        begun_cpu_s = time.thread_time()
        for request in requests:
            self._core.apply(Submit(request))
        while left:
            plan = self._core.plan(time.monotonic())
            if plan is None:
                raise RuntimeError(f'{left} plans are left: expected a step')
            start_s, start_cpu_s = time.monotonic(), time.thread_time()
            outputs = self._backend.execute(plan)
            end_s, end_cpu_s = time.monotonic(), time.thread_time()
            steps, model_s = steps + 1, model_s + end_s - start_s
            model_cpu_s += end_cpu_s - start_cpu_s
            self._core.complete(plan, outputs, start_s, end_s)
            events = self._core.take_events()
            if events:
                self._sink.write(frame(events))
            for event in events:
                if isinstance(event, SegmentGenerated) and event.segment.awaits_value:
                    self._core.apply(Resume(event.generation_id, 'true'))
                elif isinstance(event, GenerationEnded):
                    left, tokens = left - 1, tokens + event.tokens
        return Written(steps, tokens, model_s, time.thread_time() - begun_cpu_s - model_cpu_s)

    def _request(self, sample: TaskSample) -> GenerationRequest:
        self._count += 1
        skill_set = _skill_set(sample.skill_set)
        return GenerationRequest(
            generation_id=f'{self._count}',
            prompt=self._prompts.build(skill_set, sample.scene, sample.instruction),
            skill_set=skill_set,
            scene=sample.scene,
            utility=NORMAL,
            arrival_s=time.monotonic(),
        )


def measure(engine: TorchConfig, rounds: int, plans: int, at_once: int) -> dict[str, Any]:
    """Write the same plans both ways, in turns; return what each took, and the overhead.

    Both ways serve first come, first served, so that nothing differs but the segments: they are
    cut, checked and packed one by one, and each ends in a suspension. One and the same computation
    takes the model some percent longer at one time than at another, which is more than what is
    looked for. So a step counts what a step takes on average, whichever way it was, and what lies
    beside the model is timed.

    Args:
        engine: The engine's options; mode, policy and batch are set here.
        rounds: How often each way, after one that is thrown away.
        plans: How many plans are written each time.
        at_once: Most plans in a step. With fewer than there are, who waits for a place, and so how
            full steps are, differs between the ways too.
    """
    rng = random.Random(1)
    samples = [sample_task(rng, KINDS[number % len(KINDS)], 10) for number in range(plans)]
    groups = [samples[first : first + at_once] for first in range(0, plans, at_once)]
    loaded = load_model(
        find_model(engine.model_path),
        max_kv_tokens=engine.max_kv_tokens,
        device=engine.device,
        dtype=engine.dtype,
        threads=engine.threads,
    )
    found: dict[ServingMode, list[Written]] = {way: [] for way in WAYS}
    with _reader() as sink:
        writers = {way: Writer(engine, loaded, way, at_once, sink) for way in WAYS}
        for number in track(range(rounds + 1), f'{at_once} at once'):
            times: dict[ServingMode, list[Written]] = {way: [] for way in WAYS}
            for group in groups:
                for way in WAYS if number % 2 else WAYS[::-1]:
                    times[way].append(writers[way].write(group))
            if number:
                for way in WAYS:
                    found[way].append(_sum(times[way]))
    step_s = sum(one.model_s for each in found.values() for one in each) / sum(
        one.steps for each in found.values() for one in each
    )
    overheads = [
        100 * (_time_s(segmented, step_s) / _time_s(whole, step_s) - 1)
        for segmented, whole in zip(*found.values(), strict=True)
    ]
    return {
        'rounds': rounds,
        'plans': plans,
        'at_once': at_once,
        'step_s': step_s,
        'ways': {
            way: {
                'steps': statistics.fmean(one.steps for one in each),
                'tokens': each[0].tokens,
                'model_s': statistics.fmean(one.model_s for one in each),
                'beside_s': statistics.fmean(one.beside_s for one in each),
            }
            for way, each in found.items()
        },
        'overhead_percent': statistics.fmean(overheads),
        'overhead_error_percent': statistics.stdev(overheads) / rounds**0.5,
    }


def show(cost: dict[str, Any]) -> None:
    """Print what :func:`measure` has found."""
    print(f'{cost["plans"]} plans, {cost["at_once"]} at once, {cost["rounds"]} rounds each way')
    for way, took in cost['ways'].items():
        print(
            f'  {way:<12} {took["steps"]:6.1f} steps of {1000 * cost["step_s"]:.2f} ms, '
            f'{1000 * took["beside_s"]:7.2f} ms beside the model, {took["tokens"]} tokens'
        )
    print(
        f'  overhead     {cost["overhead_percent"]:6.2f} % '
        f'(standard error {cost["overhead_error_percent"]:.2f})'
    )


@contextlib.contextmanager
def _reader() -> Iterator[IO[bytes]]:
    """Start a process that reads events, as the planner's does; yield where they are written."""
    with subprocess.Popen(
        ['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0
    ) as process:
        assert process.stdin is not None
        yield process.stdin


def _sum(times: Sequence[Written]) -> Written:
    return Written(
        sum(one.steps for one in times),
        sum(one.tokens for one in times),
        sum(one.model_s for one in times),
        sum(one.beside_s for one in times),
    )


def _time_s(written: Written, step_s: float) -> float:
    return written.steps * step_s + written.beside_s
