"""TRAIL's probe: it reads from one layer's hidden state how much of a plan is left (section 3.1).

A network of two layers says in which of ten bins the remaining length is; a Bayesian filter over
lengths (``length_filter.py``) combines its answers with what the prompt said. ``timely-llm
train-probe`` writes ``probe.json`` and ``probe.safetensors`` into the folder ``predictors`` of the
model that the probe watches.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.errors import ConfigurationError, ModelLoadError
from timely_llm_ros.prediction.lengths.length_bins import LengthBins
from timely_llm_ros.prediction.lengths.length_filter import LengthFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from timely_llm_ros.prediction.lengths.response_length import LengthDistribution

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]

FORMAT = 2
"""Version of the files."""

PROBE_NAME = 'probe'
EVERY = 4
"""Tokens between two answers while a plan is generated."""


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """What a probe looks at, and how its answers are read.

    Attributes:
        layer: Whose state: 0 is the embedding, n what the n-th decoder layer gives.
        bins: Of remaining length.
        sharpness: Exponent of an answer when it is multiplied in, see ``LengthFilter``.
        prompt_weight: Exponent of what a prompt says, see there.
        divides: Whether an answer is divided by how often each bin occurs, which makes a
            likelihood of it.
    """

    layer: int
    bins: LengthBins
    sharpness: float = 0.5
    divides: bool = False
    prompt_weight: float = 1.0


class RemainingLengthProbe:
    """A trained probe.

    Args:
        settings: What it looks at, and how its answers are read.
        weights: ``inner`` ``[hidden, width]``, ``inner_bias``, ``outer`` ``[bins, hidden]``,
            ``outer_bias``, and ``frequencies`` ``[bins]`` of the bins in training.
        about: How it was trained.

    Raises:
        ConfigurationError: The weights do not fit each other or the bins.

    Attributes:
        filter: Combines its answers with what prompts say.
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
        self.filter = LengthFilter(
            settings.bins,
            self.weights['frequencies'],
            settings.sharpness,
            divides=settings.divides,
            prompt_weight=settings.prompt_weight,
        )

    def answer(self, states: Singles) -> Singles:
        """Return the probability of each bin, ``[..., bins]``, of states ``[..., width]``."""
        hidden = states @ self._inner
        hidden += self.weights['inner_bias']
        np.maximum(hidden, 0.0, out=hidden)
        scores = hidden @ self._outer
        scores += self.weights['outer_bias']
        # Their methods max and sum take longer than what they do.
        scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
        shares: Singles = np.exp(scores, out=scores)
        shares /= np.add.reduce(shares, axis=-1, keepdims=True)
        return shares

    def follow(
        self, states: Singles, every: int = EVERY, *, forecast: LengthDistribution | None = None
    ) -> tuple[Singles, Floats]:
        """Return what a whole plan's states say: single answers, and the whole length after them.

        Args:
            states: One per token generated, ``[tokens, width]``.
            every: Tokens between two answers that the filter uses.
            forecast: What the prompt says; None for nothing.

        Returns:
            The answers ``[tokens, bins]`` and the filter's rows ``[tokens, longest]``: at row i the
            plan has i + 1 tokens and still runs.
        """
        answers = self.answer(states)
        known = self.filter.start if forecast is None else self.filter.prior(forecast)
        shares = np.empty((len(answers), self.filter.longest))
        for token in range(0, len(answers), every):
            rows, _ = self.filter.refine(known[None], [token + 1], answers[token : token + 1])
            known = rows[0]
            shares[token : token + every] = known
        return answers, self.filter.running(shares, np.arange(1, len(answers) + 1))


def write_probe(folder: Path, probe: RemainingLengthProbe) -> list[Path]:
    """Write a probe and return its files."""
    from safetensors.numpy import save_file

    content = {'format': FORMAT, **asdict(probe.settings), 'about': probe.about}
    text, tensors = folder / f'{PROBE_NAME}.json', folder / f'{PROBE_NAME}.safetensors'
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
        content = json.loads((place / f'{PROBE_NAME}.json').read_text(encoding='utf-8'))
        weights = load_file(place / f'{PROBE_NAME}.safetensors')
        return RemainingLengthProbe(_settings(content), weights, content['about'])
    except Exception as err:
        raise ModelLoadError(
            f'probe in {str(folder)!r}: {type(err).__name__}: {err}; expected {PROBE_NAME}.json '
            f'and {PROBE_NAME}.safetensors as "timely-llm train-probe" writes them'
        ) from err


def _settings(content: Mapping[str, Any]) -> ProbeSettings:
    if content['format'] != FORMAT:
        raise ValueError(f'format {content["format"]!r}, expected {FORMAT}')
    known = {field.name: content[field.name] for field in fields(ProbeSettings)}
    return ProbeSettings(**known | {'bins': LengthBins(**content['bins'])})
