"""Plans of the embedded model with what RLP and probe say of them, token by token."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _timebill_jobs import make_jobs

from timely_llm_ros.budget.eviction_rule import FixedEviction
from timely_llm_ros.engines.engine import GenerationRequest
from timely_llm_ros.engines.length_samples import LONGEST, generate_samples
from timely_llm_ros.engines.model_files import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch_eviction import find_method
from timely_llm_ros.prediction.probe import EVERY, read_probe
from timely_llm_ros.prediction.probe_training import remaining_lengths
from timely_llm_ros.prediction.rlp import read_rlp
from timely_llm_ros.skills.skillset import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.engines.sampling import Sampling
    from timely_llm_ros.engines.torch_model import LoadedModel
    from timely_llm_ros.prediction.probe import RemainingLengthProbe
    from timely_llm_ros.prediction.response_length import LengthDistribution
    from timely_llm_ros.prediction.rlp import ResponseLengthModel

    Floats = NDArray[np.float64]

KV_TOKENS = 65536
LEAST_TOKENS = 30
QUANTILES = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Followed:
    """A plan and what was predicted of it.

    Attributes:
        length: Tokens, the end included.
        forecast: What the prompt said.
        plain: The same before calibration, which trades nearness for quantiles that hold.
        single: The probe's answer at every token, ``[length, bins]``.
        smoothed: The same smoothed, an answer every few tokens, beginning with what the prompt
            says, as the engine does.
        alone: The same without the prompt.
        eager: Smoothed with an answer at every token.
    """

    length: int
    forecast: LengthDistribution
    plain: LengthDistribution
    single: Floats
    smoothed: Floats
    alone: Floats
    eager: Floats

    @property
    def left(self) -> Floats:
        """How many tokens were left after each, ``[length]``."""
        return remaining_lengths(self.length).astype(np.float64)


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
    from timely_llm_ros.engines.torch_model import load_model

    return load_model(find_model(SHIPPED_MODEL), max_kv_tokens=KV_TOKENS)


def long_requests(loaded: LoadedModel, count: int, seed: int) -> list[GenerationRequest]:
    """Return tasks in scenes of 40 to 200 objects: more than RLP's prompt has room for."""

    def tokens(text: str) -> int:
        return len(loaded.texts.encode(text))

    return [
        GenerationRequest(
            f'{job.number}',
            job.prompt,
            find_skill_set(job.sample.skill_set),
            job.sample.scene,
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
    for sample in samples:
        states = sample.states[:, 0].astype(np.float32)
        said, before = (
            model.predict(sample.prompt.fixed, sample.prompt.body) for model in (rlp, plain)
        )
        prior = probe.prior(said)
        single, smoothed = probe.follow(states, EVERY, prior=prior)
        alone, eager = (
            probe.follow(states, every, prior=known)[1]
            for every, known in ((EVERY, None), (1, prior))
        )
        rows.append(Followed(sample.length, said, before, single, smoothed, alone, eager))
    return rows


def mean_errors(plans: Sequence[Followed], name: str = PREDICTORS) -> dict[str, float]:
    """Return mean absolute errors of the remaining length over all tokens (tokens)."""
    probe, _ = predictors(name)
    bins = probe.settings.bins
    errors: dict[str, list[Floats]] = {}
    for plan in plans:
        ages = np.arange(1, plan.length + 1)
        coarse = bins.midpoints[int(bins.index(plan.forecast.mean))]
        for what, found in (
            ('unrefined', bins.expected(plan.single)),
            ('refined', bins.expected(plan.smoothed)),
            ('refined, without the prompt', bins.expected(plan.alone)),
            ('refined at every token', bins.expected(plan.eager)),
            ('perfect bins', bins.midpoints[bins.index(plan.left)]),
            ('prompt only', np.maximum(plan.forecast.mean - ages, 0)),
            ('prompt only, its median', np.maximum(middle(plan.forecast) - ages, 0)),
            ('prompt only, uncalibrated', np.maximum(plan.plain.mean - ages, 0)),
            ('prompt only, uncalibrated median', np.maximum(middle(plan.plain) - ages, 0)),
            ('prompt only, middle of its bin', np.maximum(coarse - ages, 0)),
            ('mean of all plans', np.maximum(np.mean([it.length for it in plans]) - ages, 0)),
        ):
            errors.setdefault(what, []).append(np.abs(found - plan.left))
    return {what: float(np.concatenate(rows).mean()) for what, rows in errors.items()}


def middle(forecast: LengthDistribution) -> float:
    """Return the median of a predicted length (tokens), within its bucket as if all are alike."""
    below = 0.0
    for bucket, probability in enumerate(forecast.probabilities):
        if below + probability >= 0.5:
            return forecast.size * (bucket + (0.5 - below) / probability) + 0.5
        below += probability
    return forecast.size * len(forecast.probabilities)


def reliability(plans: Sequence[Followed], name: str = PREDICTORS) -> list[dict[str, float]]:
    """Return how often bins were right by what probability they were given."""
    probe, _ = predictors(name)
    bins = probe.settings.bins
    said = np.concatenate([plan.smoothed.ravel() for plan in plans])
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


def coverage(plans: Sequence[Followed], name: str = PREDICTORS) -> dict[str, dict[str, float]]:
    """Return how often quantiles held: the probe's over all tokens, the prompt's over plans."""
    probe, _ = predictors(name)
    bins = probe.settings.bins
    found: dict[str, dict[str, Any]] = {'probe': {}, 'prompt': {}}
    for share in QUANTILES:
        held = [plan.left <= bins.quantile(plan.smoothed, share) for plan in plans]
        found['probe'][f'{share}'] = float(np.concatenate(held).mean())
        found['prompt'][f'{share}'] = float(
            np.mean([plan.length <= plan.forecast.quantile(share) for plan in plans])
        )
    return found
