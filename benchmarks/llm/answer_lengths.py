"""TRAIL's probe on a general model's answers, and how wrong it is beside what reads prompts alone.

Answers are split once: those to learn from, those to choose by (the layer, what an answer of the
probe is worth, how prompts are read), and those that judge, which nothing else sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.llm.chat_answers import LAYERS, MOST_TOKENS
from benchmarks.llm.prompt_lengths import by_form, left_errors, prompt_readings, still_running
from benchmarks.trail import Spoken, left_at_most, smoothed
from timely_llm_ros.prediction.lengths import LengthBins, LengthFilter
from timely_llm_ros.training import (
    ProbeTraining,
    calibrated,
    probe_errors,
    rlp_samples,
    train_probe,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from timely_llm_ros.prediction.lengths import (
        LengthDistribution,
        RemainingLengthProbe,
        ResponseLengthModel,
    )
    from timely_llm_ros.training import LengthSample

    Floats = NDArray[np.float64]

ROUND = 7
"""Of so many answers in a row, all but the last three are learned from, one is chosen by and two
judge. It has no divisor in common with the forms, which come in turn."""

TRAINING = ProbeTraining(bins=LengthBins(10, MOST_TOKENS))
"""The bins are TRAIL's."""

BY_PROMPT, RUNS = 'prompt only: ', 'prompt only, and that it runs: '
REFINED = 'refined at every token'
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Parts:
    """Answers to learn from, to choose by and to judge by.

    All that choose ended; of those that judge, errors are told of the ones that did.
    """

    learned: list[LengthSample]
    chosen: list[LengthSample]
    judged: list[LengthSample]


def split(samples: Sequence[LengthSample]) -> Parts:
    """Return the parts."""
    rows = [(place % ROUND, sample) for place, sample in enumerate(samples)]
    return Parts(
        [sample for place, sample in rows if place < ROUND - 3],
        [sample for place, sample in rows if place == ROUND - 3 and not sample.censored],
        [sample for place, sample in rows if place > ROUND - 3],
    )


@dataclass(frozen=True, slots=True)
class Probes:
    """What was learned.

    Attributes:
        layers: Mean errors (tokens) about the answers to choose by, by the layer's number.
        place: Of the layer that errs least, among the states.
        probe: Its probe, read for an answer at every token.
    """

    layers: dict[int, float]
    place: int
    probe: RemainingLengthProbe


def learn_probes(parts: Parts, forecasts: Sequence[LengthDistribution]) -> Probes:
    """Train a probe for each layer, and keep the one that errs least about ``parts.chosen``.

    ``forecasts`` are what the prompts of those say.
    """
    cut = [sample.censored for sample in parts.learned]
    found = {}
    for place, layer in enumerate(LAYERS):
        probe = train_probe(TRAINING, layer, states(parts.learned, place), censored=cut)
        tried = states(parts.chosen, place)
        found[layer] = probe, probe_errors(probe, tried, forecasts).refined
        print(f'layer {layer:2}: {found[layer][1]:.2f} tokens before calibration', flush=True)
    best = min(found, key=lambda layer: found[layer][1])
    place = LAYERS.index(best)
    probe = calibrated(found[best][0], states(parts.chosen, place), forecasts, every=1)
    return Probes({layer: error for layer, (_, error) in found.items()}, place, probe)


def states(samples: Sequence[LengthSample], place: int) -> list[NDArray[np.float16]]:
    """Return the states of one layer."""
    return [sample.states[:, place] for sample in samples]


def forecasts_of(
    rlp: ResponseLengthModel, folder: Path, samples: Sequence[LengthSample]
) -> list[LengthDistribution]:
    """Return what the response-length predictor says of each answer's prompt."""
    return [rlp.distribution(ids) for ids in rlp_samples(folder, samples)[0]]


@dataclass(frozen=True, slots=True)
class Judged:
    """How wrong every predictor is about the answers that judge.

    Attributes:
        tokens: After which each answer that ended still runs, ``[answers]``.
        errors: Sums of absolute errors about these (tokens), ``[answers]``, by the predictor.
        spoken: All answers, those cut off too, with what was predicted of each.
    """

    tokens: Floats
    errors: dict[str, Floats]
    spoken: list[Spoken]

    @property
    def means(self) -> dict[str, float]:
        """Mean absolute errors over all tokens (tokens)."""
        total = self.tokens.sum()
        return {name: float(sums.sum() / total) for name, sums in self.errors.items()}

    def best(self, begin: str) -> str:
        """Return which predictor of those whose names begin so errs least."""
        means = self.means
        return min((name for name in means if name.startswith(begin)), key=means.__getitem__)

    def ratio(self, above: str, below: str) -> tuple[float, float]:
        """Return the ratio of two errors, and its standard error over answers (bootstrap)."""
        count = len(self.tokens)
        rng = np.random.default_rng(0)
        shares = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES)
        again = (shares @ self.errors[above]) / (shares @ self.errors[below])
        means = self.means
        return means[above] / means[below], float(again.std())


def judge(parts: Parts, probes: Probes, rlp: ResponseLengthModel, folder: Path) -> Judged:
    """Ask every predictor about every answer that judges.

    Policies first hear what the prompt reading says that errs least about ``parts.chosen``.
    """
    place, probe = probes.place, probes.probe

    def readings(asked: Sequence[LengthSample]) -> dict[str, Floats]:
        said = forecasts_of(rlp, folder, asked)
        return prompt_readings(parts.learned, parts.chosen, asked, said, place, probe)

    tried = {
        name: np.concatenate(
            [left_errors(it.length, whole) for it, whole in zip(parts.chosen, said, strict=True)]
        ).mean()
        for name, said in readings(parts.chosen).items()
    }
    served = min(tried, key=tried.__getitem__)
    print(f'prompt reading that is served by: {served}', flush=True)
    prompts = readings(parts.judged)
    forms = by_form(parts.learned)
    plain = LengthFilter(probe.settings.bins, probe.weights['frequencies'], 0.0, divides=False)
    sums: dict[str, list[float]] = {}
    tokens, spoken = [], []
    for number, (sample, said) in enumerate(
        zip(parts.judged, forecasts_of(rlp, folder, parts.judged), strict=True)
    ):
        first, ages = max(1.0, float(prompts[served][number])), np.arange(1, sample.length)
        # An answer of one token ended before anybody could ask what is left of it.
        wholes = refined_wholes(sample, said, probes) if len(ages) else {REFINED: ages}
        spoken.append(Spoken(sample.length, first, tuple((wholes[REFINED] - ages).tolist())))
        if sample.censored or not len(ages):
            continue
        tokens.append(len(ages))
        for what, whole in (
            *((BY_PROMPT + name, whole[number]) for name, whole in prompts.items()),
            *(
                (RUNS + name, whole)
                for name, whole in still_running(
                    sample.length, said, forms[sample.kind], plain
                ).items()
            ),
            *wholes.items(),
        ):
            sums.setdefault(what, []).append(float(left_errors(sample.length, whole).sum()))
    errors = {what: np.array(found) for what, found in sums.items()}
    return Judged(np.array(tokens, np.float64), errors, spoken)


def refined_wholes(
    sample: LengthSample, said: LengthDistribution, probes: Probes
) -> dict[str, Floats]:
    """Return how long an answer will be (tokens) after each of its tokens, ``[length - 1]``.

    That is by the probe's answers; by each alone and by all up to then.
    """
    rows = sample.states[:-1, probes.place].astype(np.float32)
    ages = np.arange(1, sample.length)
    probe, bins = probes.probe, probes.probe.settings.bins
    single, refined = probe.follow(rows, 1, forecast=said)
    _, alone = probe.follow(rows, 1)
    left = np.arange(sample.length - 1, 0, -1)
    return {
        'single answers of the probe': ages + bins.expected(single),
        "TRAIL's smoothing at every token": ages + bins.expected(smoothed(bins, single)),
        REFINED: ages + probe.filter.left(refined, ages),
        'refined at every token, its median': ages + left_at_most(refined, ages, 0.5),
        'refined at every token, without the prompt': ages + probe.filter.left(alone, ages),
        'perfect bins': ages + bins.midpoints[bins.index(left)],
    }
