"""Makes a response-length predictor of a model's plans: trains it, then calibrates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.prediction.lengths import RlpSettings, bucket_of, bucket_prior, calibrate
from timely_llm_ros.training.rlp_samples import PROMPT_TOKENS, rlp_samples, target_embedding
from timely_llm_ros.training.rlp_training import (
    body_weights,
    build_network,
    network_scores,
    train_network,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from timely_llm_ros.training.length_samples import LengthSample
    from timely_llm_ros.training.rlp_training import RlpTraining


def train_rlp(
    training: RlpTraining,
    folder: Path,
    learned: Sequence[LengthSample],
    tuned_on: Sequence[LengthSample],
    *,
    scene: bool = False,
    advance: Callable[[float], None] = lambda _loss: None,
) -> tuple[RlpSettings, dict[str, NDArray[np.float32]]]:
    """Return a predictor's settings and weights, deterministically.

    Args:
        training: How it is trained; it has classes.
        folder: The model whose plans they are.
        learned: What it learns from, those that were cut off too.
        tuned_on: Others, all of which ended, that say how far its probabilities can be trusted.
        scene: Whether it reads lines of the scene.
        advance: Called with each step's loss.
    """
    size = training.size
    if size is None:
        raise ValueError('size None: expected a predictor with classes')
    prompts, lengths = rlp_samples(folder, learned, scene=scene)
    tuned_prompts, tuned_lengths = rlp_samples(folder, tuned_on, scene=scene)
    network = build_network(training, *target_embedding(folder))
    train_network(
        network,
        training,
        prompts,
        lengths,
        censored=[sample.censored for sample in learned],
        advance=advance,
    )

    def buckets(lengths: Sequence[int]) -> list[int]:
        return [bucket_of(length, size, training.longest) for length in lengths]

    calibration = calibrate(
        network_scores(network, tuned_prompts),
        buckets(tuned_lengths),
        bucket_prior(buckets(lengths), training.classes),
    )
    settings = RlpSettings(
        size, training.longest, PROMPT_TOKENS, training.shape, calibration, scene
    )
    return settings, body_weights(network)
