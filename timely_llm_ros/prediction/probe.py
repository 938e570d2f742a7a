"""TRAIL's probe: from one layer's hidden state to how much of a plan is left (section 3.1).

A network of two layers says in which of ten bins the remaining length is; Bayesian smoothing
(``remaining_length.py``) carries what it said from token to token. Two files in
the folder ``predictors`` of the model that it watches, ``probe.json`` and ``probe.safetensors``;
``timely-llm train-probe`` writes both.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.errors import ConfigurationError, ModelLoadError
from timely_llm_ros.prediction.remaining_length import LengthBins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.prediction.response_length import LengthDistribution

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]

FORMAT = 1
NAME = 'probe'
EVERY = 4
"""Tokens between two answers while a plan is generated."""

DOUBT = 0.1
"""Share of what a prompt says that is spread over all bins, because it may know nothing."""

LONGEST_GAP = 64
"""Tokens without an answer after which more make no difference."""


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """What a probe looks at, and how its answers are read.

    Attributes:
        layer: Whose state: 0 is the embedding, n what the n-th decoder layer gives.
        bins: Of remaining length.
        sharpness: Exponent of an answer when it is multiplied in. TRAIL has 1; as the answers of
            neighbouring tokens depend on each other, less makes the result as sure as it is right.
        divides: Whether an answer is divided by how often each bin occurs, which makes a
            likelihood of it. TRAIL does not.
    """

    layer: int
    bins: LengthBins
    sharpness: float = 1.0
    divides: bool = False


class RemainingLengthProbe:
    """A trained probe.

    Args:
        settings: What it looks at.
        weights: ``inner`` ``[hidden, width]``, ``inner_bias``, ``outer`` ``[bins, hidden]``,
            ``outer_bias``, and ``frequencies`` ``[bins]`` of the bins in training.
        about: How it was trained.

    Raises:
        ConfigurationError: The weights do not fit each other or the bins.
    """

    def __init__(
        self, settings: ProbeSettings, weights: Mapping[str, Singles], about: Mapping[str, Any]
    ) -> None:
        self.settings = settings
        self.about = dict(about)
        self.weights = {name: np.asarray(it, np.float32) for name, it in weights.items()}
        inner, outer = self.weights['inner'], self.weights['outer']
        if outer.shape != (settings.bins.count, len(inner)):
            raise ConfigurationError(
                f'probe {inner.shape}, {outer.shape}: expected {settings.bins.count} bins of '
                f'{len(inner)} numbers'
            )
        self._inner = np.ascontiguousarray(inner.T)
        self._outer = np.ascontiguousarray(outer.T)
        self._inner_bias = self.weights['inner_bias']
        self._outer_bias = self.weights['outer_bias']
        self._common = self.weights['frequencies'].astype(np.float64) ** -settings.sharpness
        self._powers = settings.bins.after_tokens(LONGEST_GAP)

    @property
    def width(self) -> int:
        """How many numbers a state has."""
        return len(self._inner)

    def answer(self, states: Singles) -> Floats:
        """Return the probability of each bin, ``[..., bins]``, of states ``[..., width]``."""
        hidden = states @ self._inner
        hidden += self._inner_bias
        np.maximum(hidden, 0.0, out=hidden)
        scores = (hidden @ self._outer + self._outer_bias).astype(np.float64)
        scores -= scores.max(axis=-1, keepdims=True)
        shares: Floats = np.exp(scores, out=scores)
        shares /= shares.sum(axis=-1, keepdims=True)
        return shares

    def prior(self, forecast: LengthDistribution) -> Floats:
        """Return what a prompt says of the remaining length after the first token, ``[bins]``."""
        bins, size = self.settings.bins, forecast.size
        places = bins.index(np.arange(len(forecast.probabilities) * size))
        shares = np.repeat(np.array(forecast.probabilities) / size, size)
        found = np.bincount(places, weights=shares, minlength=bins.count).astype(np.float64)
        mixed: Floats = (1 - DOUBT) * found + DOUBT / bins.count
        return mixed

    def smooth(self, before: Floats, gaps: Sequence[int], answers: Floats) -> Floats:
        """Return the distributions after new answers, ``[rows, bins]``, each summing to 1.

        Args:
            before: The distributions at the answers before, ``[rows, bins]``.
            gaps: How many tokens ago that was.
            answers: From :meth:`answer`, ``[rows, bins]``.
        """
        prior = (self._powers[np.minimum(gaps, LONGEST_GAP)] @ before[..., None])[..., 0]
        product = prior * self._evidence(answers)
        total = product.sum(axis=-1, keepdims=True)
        if not total.all():
            product = np.where(total > 0, product, answers)
            total = product.sum(axis=-1, keepdims=True)
        smoothed: Floats = product / total
        return smoothed

    def _evidence(self, answers: Floats) -> Floats:
        settings = self.settings
        if settings.sharpness != 1.0:
            answers = answers**settings.sharpness
        return answers * self._common if settings.divides else answers

    def follow(
        self, states: Singles, every: int = EVERY, *, prior: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return what a whole plan's states say: single answers and smoothed ones.

        Args:
            states: One per token generated, ``[tokens, width]``.
            every: Tokens between two answers that are used; in between nothing but the passing of
                tokens is known.
            prior: What the prompt says, see :meth:`prior`; None for nothing.

        Returns:
            Both ``[tokens, bins]``.
        """
        answers = self.answer(states)
        smoothed = np.empty_like(answers)
        last = 0
        smoothed[0] = answers[0] if prior is None else self.smooth(prior[None], [0], answers[:1])[0]
        for token in range(1, len(answers)):
            if token % every:
                prior = self._powers[min(token - last, LONGEST_GAP)] @ smoothed[last]
                smoothed[token] = prior / prior.sum()
            else:
                smoothed[token] = self.smooth(
                    smoothed[last][None], [token - last], answers[token][None]
                )[0]
                last = token
        return answers, smoothed


def write_probe(folder: Path, probe: RemainingLengthProbe) -> list[Path]:
    """Write a probe and return its files."""
    from safetensors.numpy import save_file

    settings = probe.settings
    content = {
        'format': FORMAT,
        'layer': settings.layer,
        'bins': asdict(settings.bins),
        'sharpness': settings.sharpness,
        'divides': settings.divides,
        'about': probe.about,
    }
    text, tensors = folder / f'{NAME}.json', folder / f'{NAME}.safetensors'
    save_file(probe.weights, tensors)
    text.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
    return [text, tensors]


def read_probe(folder: str | Path) -> RemainingLengthProbe:
    """Read the probe in a folder.

    Raises:
        ModelLoadError: There is none, or it is not one.
    """
    from safetensors.numpy import load_file

    place = Path(folder)
    try:
        content = json.loads((place / f'{NAME}.json').read_text(encoding='utf-8'))
        if content['format'] != FORMAT:
            raise ValueError(f'format {content["format"]!r}, expected {FORMAT}')
        settings = ProbeSettings(
            content['layer'],
            LengthBins(**content['bins']),
            content['sharpness'],
            content['divides'],
        )
        weights = load_file(place / f'{NAME}.safetensors')
        return RemainingLengthProbe(settings, weights, content['about'])
    except Exception as err:
        raise ModelLoadError(
            f'probe in {str(folder)!r}: {type(err).__name__}: {err}; expected {NAME}.json and '
            f'{NAME}.safetensors as "timely-llm train-probe" writes them'
        ) from err
