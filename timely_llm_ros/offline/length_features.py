"""Predicts a plan's length from its prompt: ridge regression on words, learned from answers."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.planner.prompts import OfflinePrompt

WORDS = 256
"""Words are hashed into so many features."""

_WORD = re.compile(r'[a-z]+|[0-9]+')
_PENALTY = 1.0


class LengthFeatures:
    """A linear model of the length, on hashed words of the instruction and the scene's kinds.

    Raises:
        ConfigurationError: Nothing to learn from.
    """

    def __init__(self, prompts: Sequence[OfflinePrompt], lengths: Sequence[int]) -> None:
        if not prompts:
            raise ConfigurationError('no answers to learn lengths from: expected at least one')
        rows = np.array([_features(prompt) for prompt in prompts])
        target = np.asarray(lengths, float)
        self._mean = float(target.mean())
        penalty = _PENALTY * np.eye(rows.shape[1])
        self._weights = np.linalg.solve(rows.T @ rows + penalty, rows.T @ (target - self._mean))

    def predict(self, prompt: OfflinePrompt) -> float:
        """Return the expected length (tokens), at least 1."""
        return max(1.0, self._mean + float(_features(prompt) @ self._weights))


def _features(prompt: OfflinePrompt) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found = np.zeros(WORDS + 2)
    words = _WORD.findall(prompt.instruction.lower())
    for word in (prompt.skill_set, *words):
        found[zlib.crc32(word.encode()) % WORDS] += 1.0
    # What the instruction names counts by how many of it there are.
    named = sum(item.kind in words or f'{item.kind}s' in words for item in prompt.scene.objects)
    found[WORDS] = named
    found[WORDS + 1] = len(prompt.scene.objects) / 10
    return found
