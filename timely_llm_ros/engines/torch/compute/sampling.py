"""Draws tokens from logits under a grammar's masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def allowed_tokens(masks: NDArray[np.int32], width: int) -> NDArray[np.bool_]:
    """Return which tokens may come, ``[rows, width]``, from one bit per token."""
    bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder='little')
    return bits[:, :width].view(np.bool_)


def choose(logits: NDArray[np.float32], masks: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return each row's best allowed token, -1 where none is allowed.

    Both have a row per generation: logits for the tokens that have a text, masks one bit per token
    in little-endian words.
    """
    allowed = allowed_tokens(masks, logits.shape[1])
    best: NDArray[np.int64] = np.where(allowed, logits, -np.inf).argmax(axis=1)
    best[~allowed.any(axis=1)] = -1
    return best


def draw(
    logits: NDArray[np.float32],
    masks: NDArray[np.int32],
    chances: ArrayLike,
    *,
    temperature: float,
    top_p: float = 1.0,
) -> NDArray[np.int64]:
    """Return a token for each row, drawn from the allowed ones; -1 where none is allowed.

    The number from 0 up to 1 in ``chances`` decides for its row. Only the likeliest tokens that
    together have the probability ``top_p`` may come. The rest is as for :func:`choose`.
    """
    allowed = allowed_tokens(masks, logits.shape[1])
    some = allowed.any(axis=1)
    # In place: vocabularies are large, and fresh memory costs as much as the arithmetic.
    scores = logits.astype(np.float64)
    np.putmask(scores, ~allowed, -np.inf)
    scores[~some] = 0.0
    scores -= scores.max(axis=1, keepdims=True)
    scores /= temperature
    shares = np.exp(scores, out=scores)
    shares /= shares.sum(axis=1, keepdims=True)
    if top_p < 1.0:
        # Tokens rarer than this have less than half of the rest together: they need no sorting.
        rarest = 0.5 * (1.0 - top_p) / shares.shape[1]
        for row in shares:
            places = np.flatnonzero(row >= rarest)
            order = places[np.argsort(-row[places], kind='stable')]
            ordered = row[order]
            # A token stays if those before it do not suffice, so the likeliest always does.
            stays = np.cumsum(ordered) - ordered < top_p
            row[:] = 0.0
            row[order[stays]] = ordered[stays]
    sums = np.cumsum(shares, axis=1)
    reached = sums <= np.asarray(chances)[:, None] * sums[:, -1:]
    drawn: NDArray[np.int64] = reached.sum(axis=1)
    drawn[~some] = -1
    return drawn
