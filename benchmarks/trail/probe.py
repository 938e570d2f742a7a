"""Plans of the embedded model with what RLP and probe say of them, token by token."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timebill import make_jobs
from benchmarks.trail.distributions import binned, left_at_most, middle
from benchmarks.trail.replay import Spoken
from benchmarks.trail.smoothing import smoothed
from timely_llm_ros.budget import FixedEviction
from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch import RARE
from timely_llm_ros.engines.torch.compute import find_method
from timely_llm_ros.prediction.lengths import EVERY, read_probe, read_rlp
from timely_llm_ros.training import LONGEST, generate_samples, remaining_lengths
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.prediction.lengths import (
        LengthBins,
        LengthDistribution,
        RemainingLengthProbe,
        ResponseLengthModel,
    )

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]

KV_TOKENS = 65536
LEAST_TOKENS = 30
QUANTILES = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Followed:
    """A plan and what was predicted of it.

    A row of an array is a token after which the plan still runs: at its last one nobody asks what
    is left.

    Attributes:
        name: Its request's id.
        length: Tokens, the end included.
        forecast: What the prompt said.
        plain: The same before calibration, which trades nearness for quantiles that hold.
        single: The probe's answers, ``[length - 1, bins]``.
        refined: How long it will be, from the prompt and an answer every few tokens, as the engine
            has it, ``[length - 1, longest]``.
        rare: The same where few generations run, so that answers are rare.
        alone: The same as ``refined`` without the prompt.
        eager: The same with an answer at every token.
        trail: TRAIL's smoothing over bins, an answer at every token and no prompt.
    """

    name: str
    length: int
    forecast: LengthDistribution
    plain: LengthDistribution
    single: Singles
    refined: Floats
    rare: Floats
    alone: Floats
    eager: Floats
    trail: Floats

    @property
    def ages(self) -> NDArray[np.int64]:
        """How many tokens there are at each, ``[length - 1]``."""
        return np.arange(1, self.length)

    @property
    def left(self) -> Floats:
        """How many tokens were left after each, ``[length - 1]``."""
        return remaining_lengths(self.length)[:-1].astype(np.float64)


@cache
def predictors(name: str = PREDICTORS) -> tuple[RemainingLengthProbe, ResponseLengthModel]:
    """Return those that came with the embedded model."""
    folder = Path(find_model(SHIPPED_MODEL)) / name
    return read_probe(folder), read_rlp(folder)


def uncalibrated(rlp: ResponseLengthModel) -> ResponseLengthModel:
    """Return the predictor without its calibration."""
    plain = copy(rlp)
    calibration = replace(rlp.settings.calibration, temperature=1.0, prior_share=0.0)
    plain.settings = replace(rlp.settings, calibration=calibration)
    return plain


def load_planner() -> LoadedModel:
    """Load the embedded model."""
    from timely_llm_ros.engines.torch.compute import load_model

    return load_model(find_model(SHIPPED_MODEL), max_kv_tokens=KV_TOKENS)


def long_requests(loaded: LoadedModel, count: int, seed: int) -> list[GenerationRequest]:
    """Return tasks in scenes of 40 to 200 objects: more than RLP's prompt has room for."""

    def tokens(text: str) -> int:
        return len(loaded.texts.encode(text))

    return [
        GenerationRequest(
            f'{job.number}',
            job.prompt,
            job.skills,
            job.scene,
            NORMAL,
            0.0,
            max_tokens=LONGEST,
        )
        for job in make_jobs(count, seed, tokens=tokens, least_tokens=LEAST_TOKENS)
    ]


def follow(
    loaded: LoadedModel,
    requests: Iterable[GenerationRequest],
    *,
    evicted: float = 0.0,
    sampling: Sampling | None = None,
    name: str = PREDICTORS,
) -> list[Followed]:
    """Generate these plans and ask both predictors; plans without an end are left out.

    Args:
        loaded: The model; used up.
        requests: What to generate.
        evicted: Share of each prompt's KV that is evicted.
        sampling: How tokens are chosen; None for the likeliest always.
        name: The predictors' folder.
    """
    probe, rlp = predictors(name)
    plain = uncalibrated(rlp)
    rule = FixedEviction(evicted) if evicted else None
    samples = generate_samples(
        loaded,
        (replace(it, eviction=rule) for it in requests),
        layers=[probe.settings.layer],
        eviction=find_method('snapkv') if evicted else None,
        sampling=sampling,
    )
    rows = []
    for made, sample in samples.items():
        states = sample.states[:, 0].astype(np.float32)
        said, before = (
            model.predict(sample.prompt.fixed, sample.prompt.body) for model in (rlp, plain)
        )
        (single, refined), (_, rare), (_, alone), (_, eager) = (
            probe.follow(states[:-1], every, forecast=known)
            for every, known in ((EVERY, said), (RARE * EVERY, said), (EVERY, None), (1, said))
        )
        trail = smoothed(probe.settings.bins, single)
        rows.append(
            Followed(made, sample.length, said, before, single, refined, rare, alone, eager, trail)
        )
    return rows


def spoken(plan: Followed, probe: RemainingLengthProbe) -> Spoken:
    """Return a plan with the means that policies rank by."""
    left = probe.filter.left(plan.refined, plan.ages)
    return Spoken(plan.length, plan.forecast.mean, tuple(left.tolist()))


def mean_errors(plans: Sequence[Followed], name: str = PREDICTORS) -> dict[str, float]:
    """Return mean absolute errors of the remaining length over all tokens (tokens)."""
    probe, _ = predictors(name)
    bins, lengths = probe.settings.bins, probe.filter
    errors: dict[str, list[Floats]] = {}
    for plan in plans:
        ages = plan.ages
        for what, found in (
            ('unrefined', bins.expected(plan.single)),
            ('refined', lengths.left(plan.refined, ages)),
            ('refined, its median', left_at_most(plan.refined, ages, 0.5)),
            ('refined, few generations', lengths.left(plan.rare, ages)),
            ('refined, without the prompt', lengths.left(plan.alone, ages)),
            ('refined at every token', lengths.left(plan.eager, ages)),
            ("TRAIL's smoothing", bins.expected(plan.trail)),
            ('perfect bins', bins.midpoints[bins.index(plan.left)]),
            *(
                (what, np.maximum(length - ages, 0))
                for what, length in readings(plan, bins).items()
            ),
            ('mean of all plans', np.maximum(np.mean([it.length for it in plans]) - ages, 0)),
        ):
            errors.setdefault(what, []).append(np.abs(found - plan.left))
    return {what: float(np.concatenate(rows).mean()) for what, rows in errors.items()}


def readings(plan: Followed, bins: LengthBins) -> dict[str, float]:
    """Return the whole length (tokens) by every reading of what a plan's prompt said."""
    return {
        'prompt only': plan.forecast.mean,
        'prompt only, its median': middle(plan.forecast),
        'prompt only, uncalibrated': plan.plain.mean,
        'prompt only, uncalibrated median': middle(plan.plain),
        'prompt only, middle of its bin': float(
            bins.midpoints[int(bins.index(plan.forecast.mean))]
        ),
    }


def reliability(plans: Sequence[Followed], name: str = PREDICTORS) -> list[dict[str, float]]:
    """Return how often bins were right by what probability they were given."""
    probe, _ = predictors(name)
    bins = probe.settings.bins
    said = np.concatenate([binned(bins, plan.refined, plan.ages).ravel() for plan in plans])
    was = np.concatenate(
        [(np.arange(bins.count) == bins.index(plan.left)[:, None]).ravel() for plan in plans]
    )
    place = np.clip(np.digitize(said, np.linspace(0, 1, 11)) - 1, 0, 9)
    return [
        {
            'said': float(said[place == it].mean()),
            'was': float(was[place == it].mean()),
            'answers': int((place == it).sum()),
        }
        for it in range(10)
        if (place == it).any()
    ]


def coverage(plans: Sequence[Followed]) -> dict[str, dict[str, float]]:
    """Return how often quantiles held: the probe's over all tokens, the prompt's over plans."""
    found: dict[str, dict[str, Any]] = {'probe': {}, 'prompt': {}}
    for share in QUANTILES:
        held = [plan.left <= left_at_most(plan.refined, plan.ages, share) for plan in plans]
        found['probe'][f'{share}'] = float(np.concatenate(held).mean())
        found['prompt'][f'{share}'] = float(
            np.mean([plan.length <= plan.forecast.quantile(share) for plan in plans])
        )
    return found
