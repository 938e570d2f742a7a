"""What the probe adds to a decode step: with and without it in turns, in one process.

A round has two stretches of steps with the probe between two without, on the same generations. What
a busy moment of the machine costs falls on both. The probe answers at the same places of every
stretch, so times are compared place by place: the median over many rounds at each, then the mean
over the places. A moment that spoils a step so spoils one place of one round, not a stretch.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import Target
from timely_llm_ros.engines import Submit
from timely_llm_ros.engines.core import CoreOptions, EngineCore
from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch import FEW, RARE, StateReader
from timely_llm_ros.engines.torch.compute import TorchBackend, load_model
from timely_llm_ros.prediction.lengths import EVERY, read_probe
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.training import draw_requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from timely_llm_ros.prediction.lengths import RemainingLengthProbe

    Floats = NDArray[np.float64]

STRETCH = RARE * EVERY
"""Steps in a row with the probe or without; a whole number of its answers."""

TOKENS = 448
"""Of a generation: long, so that prefills are rare. No plan is so long, so what is to be written
is given; its grammar is left out, which makes steps shorter and so the probe's share larger."""

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Overhead:
    """What was found for one batch size.

    Attributes:
        step_ms: A step without the probe, median.
        share: What the probe adds to it: mean over the places of a stretch of the medians over the
            rounds.
        standard_error: Of that.
        rounds: How many.
    """

    step_ms: float
    share: float
    standard_error: float
    rounds: int


class _Steps:
    """Decoding steps of so many generations on the embedded model, as the worker makes them."""

    def __init__(self, path: str, probe: RemainingLengthProbe, batch: int) -> None:
        self._loaded = load_model(path, max_kv_tokens=32768)
        self._reader = StateReader(self._loaded, probe)
        self._tap = self._loaded.tap
        self._backend = TorchBackend(self._loaded)
        self._batch = batch
        self._core = EngineCore(
            self._backend,
            CoreOptions(
                policy='srpt',
                mode='stream',
                max_running=batch,
                max_kv_tokens=32768,
                prefill_chunk=4096,
                scheduling=SchedulingOptions(admission='fixed', interrupts=True, age_bound_s=None),
            ),
        )
        ids = self._loaded.texts.encode('move_forward(100);')
        self._ids = tuple((ids * TOKENS)[:TOKENS])
        self._requests = draw_requests(10**6, 3, 'held_out', kinds=(1,))
        self._left = 0
        self._names: list[str] = []

    def step(self, *, watched: bool) -> int:
        """Make one step; return for how many plans the probe answered after it."""
        now_s = time.perf_counter()
        plan = self._core.plan(now_s)
        assert plan is not None
        outputs = self._backend.execute(plan)
        self._core.complete(plan, outputs, now_s, time.perf_counter())
        self._core.take_events()
        left = self._reader.after_step(plan, self._backend) if watched else {}
        if left:
            self._core.refine(left)
        self._left -= 1
        return len(left)

    def stretch_s(self, *, watched: bool) -> Floats:
        """Make a stretch of steps; return how long each took (s), ``[places]``."""
        self._loaded.tap = self._tap if watched else None
        at_s = [time.perf_counter()]
        for _ in range(STRETCH):
            self.step(watched=watched)
            at_s.append(time.perf_counter())
        return np.diff(at_s)

    def make_ready(self, steps: int) -> None:
        """Begin new generations unless so many more steps only decode."""
        if self._left >= steps:
            return
        self._loaded.tap = self._tap
        while self._core.generations.running or self._core.generations.waiting:
            self.step(watched=True)
        self._reader.forget(self._names)
        requests = [next(self._requests) for _ in range(self._batch)]
        self._names = [request.generation_id for request in requests]
        for request in requests:
            request = replace(request, forced_token_ids=self._ids, max_tokens=TOKENS + 1)
            self._core.apply(Submit(request))
        # Prompts take a step or two; then all of them only decode.
        begun = 0
        while begun < 4 or self._core.generations.waiting:
            self.step(watched=True)
            begun += 1
        # A stretch begins after an answer, so that its answers have the same places always.
        while self.step(watched=True) < self._batch:
            begun += 1
        self._left = TOKENS - begun - 1


def measure_overhead(path: str, probe: RemainingLengthProbe, batch: int, rounds: int) -> Overhead:
    """Return what a probe adds to a decode step of so many generations.

    Args:
        path: The model's folder.
        probe: The probe.
        batch: Generations in a step.
        rounds: Each four stretches of steps.
    """
    steps = _Steps(path, probe, batch)
    ratios, without_s = [], []
    for number in range(-2, rounds):
        steps.make_ready(4 * STRETCH)
        order = (True, False, False, True) if number % 2 else (False, True, True, False)
        took_s = [steps.stretch_s(watched=watched) for watched in order]
        with_, without = (
            np.mean([it for it, watched in zip(took_s, order, strict=True) if watched == which], 0)
            for which in (True, False)
        )
        if number >= 0:
            ratios.append(with_ / without - 1)
            without_s.append(without)
    found = np.array(ratios)
    drawn = np.random.default_rng(0).integers(rounds, size=(RESAMPLES, rounds))
    errors = [np.median(found[rows], axis=0).mean() for rows in drawn]
    share = float(np.median(found, axis=0).mean())
    return Overhead(1e3 * float(np.median(without_s)), share, float(np.std(errors)), rounds)


def overhead_part(rounds: int) -> tuple[dict[str, Any], list[Target]]:
    """What watching a layer and predicting from it adds to a decode step."""
    path = find_model(SHIPPED_MODEL)
    probe = read_probe(Path(path) / PREDICTORS)
    rows = {}
    for batch in (1, 8):
        row = measure_overhead(path, probe, batch, rounds)
        rows[batch] = row
        print(
            f'step of {batch}: {row.step_ms:.2f} ms, predicting adds '
            f'{row.share:.2%} (standard error {row.standard_error:.2%}, {rounds} rounds)'
        )
    figures = {
        'every': EVERY,
        'few': FEW,
        'rare': RARE,
        'batches': {f'{batch}': asdict(row) for batch, row in rows.items()},
    }
    return figures, [
        Target(f'share of a decode step of {batch} that predicting adds', row.share, '<=', 0.01)
        for batch, row in rows.items()
    ]
