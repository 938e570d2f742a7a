"""Serves thousands of plans in virtual time, with what the model's predictors really said of them.

Plans are drawn from a few hundred that a model generated. The scheduler is the engines'
own; a step takes the same time always. So loads can be compared without waiting for hours, and
what one policy gains is no luck of few requests.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import astuple, dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

import numpy as np

from timely_llm_ros.engines import GenerationEnded, GenerationRequest, SegmentGenerated
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine, StepTimeModel
from timely_llm_ros.prediction.lengths import EVERY
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Prompt, Scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines import EngineEvent

Way = Literal['none', 'prompt', 'probe', 'truth']

PACE_S = 0.0217
"""Least duration of a step (s), as in the demo: the decode step of an 8B model on an RTX 4090."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A plan's length, what its prompt said, and what its hidden states said after each token."""

    length: int
    first: float
    left: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RecordedLengths:
    """Predicts what was predicted then."""

    plans: Sequence[Spoken]
    way: Way

    def predict(self, name: str, length: int) -> float:
        """Return what the prompt said, or the truth."""
        return float(length) if self.way == 'truth' else self.plans[int(name)].first

    def refine(self, name: str, age: int, length: int) -> float | None:
        """Return what the hidden states said, or the truth, at the steps where they are asked.

        That is after the first token and every few.
        """
        if self.way == 'prompt' or (age > 1 and age % EVERY) or not 0 < age < length:
            return None
        return float(length - age) if self.way == 'truth' else self.plans[int(name)].left[age - 1]


@dataclass(frozen=True, slots=True)
class Replayed:
    """How one way to serve fared: whole plans and first tokens (s)."""

    mean_s: float
    median_s: float
    p99_s: float
    first_mean_s: float
    first_median_s: float
    first_p99_s: float

    @classmethod
    def of(cls, whole_s: Sequence[float], first_s: Sequence[float]) -> Replayed:
        """Return what is to be known of these times, of a plan each."""
        p99_s, first_p99_s = (float(np.quantile(it, 0.99)) for it in (whole_s, first_s))
        return cls(
            fmean(whole_s), median(whole_s), p99_s, fmean(first_s), median(first_s), first_p99_s
        )

    @classmethod
    def mean(cls, runs: Sequence[Replayed]) -> Replayed:
        """Return the mean of several runs."""
        return cls(*(fmean(column) for column in zip(*map(astuple, runs), strict=True)))


def serve(
    plans: Sequence[Spoken], arrivals_s: Sequence[float], *, policy: str, way: Way, share: float,
    slots: int, step_s: float,
) -> Replayed:  # fmt: skip
    """Serve plans that arrive at these times.

    Args:
        plans: What is to be served.
        arrivals_s: When each arrives, ascending (s).
        policy: Which one.
        way: What it knows of lengths.
        share: c.
        slots: Places in a step.
        step_s: How long a step takes (s).
    """
    skills, call = find_skill_set('tello'), 'move_forward(100);'

    async def main() -> Replayed:
        loop = asyncio.get_running_loop()
        first: dict[str, float] = {}
        ended: dict[str, float] = {}

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, SegmentGenerated):
                first.setdefault(event.generation_id, loop.time())
            elif isinstance(event, GenerationEnded):
                ended[event.generation_id] = loop.time()

        engine = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda request: (
                    call,
                    *[''] * (plans[int(request.generation_id)].length - 1),
                ),
                step_time=StepTimeModel(step_s, batch_factor=0.0, prefill_token_s=0.0),
                mode='stream',
                policy=policy,
                max_running=slots,
                max_kv_tokens=2**30,
                scheduling=SchedulingOptions(
                    admission='fixed',
                    interrupts=True,
                    age_bound_s=None,
                    preemption_share=share,
                ),
                lengths=None if way == 'none' else RecordedLengths(plans, way),
            )
        )
        await engine.start(on_event)
        begin_s = loop.time()
        for number, at_s in enumerate(arrivals_s):
            await asyncio.sleep(max(0.0, begin_s + at_s - loop.time()))
            engine.submit(
                GenerationRequest(
                    f'{number}', Prompt('robot', 'task'), skills, Scene(), NORMAL, begin_s + at_s
                )
            )
        while len(ended) < len(plans):
            await asyncio.sleep(50 * step_s)
        await engine.close()
        came = {f'{n}': begin_s + at_s for n, at_s in enumerate(arrivals_s)}
        whole = [ended[name] - at_s for name, at_s in came.items()]
        begun = [first[name] - at_s for name, at_s in came.items()]
        return Replayed.of(whole, begun)

    return run_virtual(main())


def draw_plans(
    known: Sequence[Spoken], count: int, per_s: float, seed: int
) -> tuple[list[Spoken], list[float]]:
    """Draw plans and their arrivals: Poisson, or all at once where the rate is 0."""
    rng = random.Random(seed)
    times, now_s = [], 0.0
    for _ in range(count):
        times.append(now_s)
        now_s += rng.expovariate(per_s) if per_s else 0.0
    return rng.choices(known, k=count), times
