"""Serves whole plans on the torch engine at given times, one policy after another."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.trail.replay import PACE_S
from timely_llm_ros.engines import GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.torch import TorchConfig, TorchEngine
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines import EngineEvent, GenerationRequest

SHORT, LONG = (1, 6, 7, 8), (10, 11)
"""Kinds of task: plans of 11 to 24 tokens, and of 19 to 68."""

LONG_SHARE = 0.25
SLOTS = 2


@dataclass(frozen=True, slots=True)
class System:
    """One way to serve.

    Attributes:
        name: What the table calls it.
        policy: Its policy.
        share: c.
        predictors: What the engine predicts with.
        prediction: What requests say of their lengths: nothing, the prompt-only prediction, or
            the truth.
    """

    name: str
    policy: str = 'srpt'
    share: float = 0.8
    predictors: str = 'off'
    prediction: str = ''


SYSTEMS = (
    System('fcfs', 'fcfs'),
    System('sjf, prompt only', share=0.0, prediction='prompt'),
    System('trail', predictors='auto'),
    System('srpt, oracle', prediction='truth'),
)


@dataclass(frozen=True, slots=True)
class Run:
    """How one way fared at one load: times in seconds."""

    system: str
    share: float
    load: float
    per_s: float
    mean_s: float
    median_s: float
    first_mean_s: float
    first_median_s: float
    spilled: int


def workload(count: int, seed: int) -> list[GenerationRequest]:
    """Draw tasks in held-out scenes and wordings."""
    from timely_llm_ros.training import draw_requests

    rng = random.Random(seed)
    many = {kinds: draw_requests(count, seed, 'held_out', kinds=kinds) for kinds in (SHORT, LONG)}
    chosen = [next(many[LONG if rng.random() < LONG_SHARE else SHORT]) for _ in range(count)]
    return [replace(item, generation_id=f'{place}') for place, item in enumerate(chosen)]


def arrivals(count: int, per_s: float, seed: int) -> list[float]:
    """Draw Poisson arrivals (s); all at once where the rate is 0."""
    rng = random.Random(seed)
    times, now = [], 0.0
    for _ in range(count):
        times.append(now)
        now += rng.expovariate(per_s) if per_s else 0.0
    return times


class Served:
    """An engine, and what became of the plans of the latest run."""

    def __init__(self, system: System, *, kv_tokens: int, slots: int = SLOTS) -> None:
        self.system = system
        self.engine = TorchEngine(
            TorchConfig(
                mode='stream',
                policy=system.policy,
                max_running=slots,
                min_step_s=PACE_S,
                max_kv_tokens=kv_tokens,
                predictors=system.predictors,
                scheduling=SchedulingOptions(
                    admission='fixed',
                    interrupts=True,
                    age_bound_s=None,
                    preemption_share=system.share,
                ),
            )
        )
        self.tokens: dict[str, int] = {}
        self._first: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._spilled = 0
        self._round = 0

    def _on_event(self, event: EngineEvent) -> None:
        now_s = asyncio.get_running_loop().time()
        if isinstance(event, SegmentGenerated):
            self._first.setdefault(event.generation_id, now_s)
        elif isinstance(event, GenerationEnded):
            if event.reason != 'stop':
                raise RuntimeError(f'{event}: expected a plan to its end')
            self._ended[event.generation_id] = now_s
            self.tokens[event.generation_id.partition('/')[2]] = event.tokens + 1
        elif hasattr(event, 'state'):
            self._spilled = event.state.spilled

    async def start(self) -> None:
        await self.engine.start(self._on_event)

    async def run(
        self,
        requests: Sequence[GenerationRequest],
        times_s: Sequence[float],
        predicted: dict[str, dict[str, float]],
        load: float,
    ) -> Run:
        """Serve the requests at these times; return how it went."""
        loop = asyncio.get_running_loop()
        self._round += 1
        before = self._spilled
        begin_s = loop.time() + 0.05
        came: dict[str, float] = {}
        for request, at_s in zip(requests, times_s, strict=True):
            wait_s = begin_s + at_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            name = f'{self._round}/{request.generation_id}'
            tokens = predicted.get(self.system.prediction, {}).get(request.generation_id)
            came[name] = begin_s + at_s
            self.engine.submit(
                replace(
                    request,
                    generation_id=name,
                    arrival_s=begin_s + at_s,
                    predicted_tokens=tokens,
                )
            )
        while not came.keys() <= self._ended.keys():
            await asyncio.sleep(0.02)
        whole = [self._ended[name] - at_s for name, at_s in came.items()]
        first = [self._first[name] - at_s for name, at_s in came.items()]
        return Run(
            self.system.name, self.system.share, load, len(whole) / max(
                self._ended[name] - begin_s for name in came
            ), fmean(whole), median(whole), fmean(first), median(first), self._spilled - before,
        )  # fmt: skip

    async def close(self) -> None:
        await self.engine.close()


def as_row(run: Run) -> dict[str, Any]:
    """Return a run for the result file, rounded."""
    from dataclasses import asdict

    return {name: round(it, 4) if isinstance(it, float) else it for name, it in asdict(run).items()}
