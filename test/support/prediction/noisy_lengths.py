"""Predictions of known lengths, as wrong as wanted."""

from __future__ import annotations

import random
from dataclasses import dataclass

from timely_llm_ros.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class NoisyLengths:
    """Predicts true lengths times a log-normal error; the same ones for the same seed and name.

    Attributes:
        first: Spread of the first prediction's logarithm; 0 for the truth.
        refined: The same of later predictions; None for none, so that a generation's remaining
            length is its first prediction less its age.
        every: Tokens between later predictions.
        seed: Another one, other errors.

    Raises:
        ConfigurationError: A value is out of range.
    """

    first: float = 0.0
    refined: float | None = 0.0
    every: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.first < 10 or not (self.refined is None or 0 <= self.refined < 10):
            raise ConfigurationError(
                f'spread of errors {self.first!r}, {self.refined!r}: expected 0 up to 10'
            )
        if self.every < 1:
            raise ConfigurationError(
                f'a prediction every {self.every!r} tokens: expected 1 or more'
            )

    def predict(self, name: str, length: int) -> float:
        """Return the first prediction of a plan's length (tokens)."""
        return max(1.0, length * self._error(name, 0, self.first))

    def refine(self, name: str, age: int, length: int) -> float | None:
        """Return the prediction at that age of what is left (tokens); None where there is none."""
        if self.refined is None or age % self.every:
            return None
        return max(1.0, (length - age) * self._error(name, age, self.refined))

    def _error(self, name: str, age: int, spread: float) -> float:
        if not spread:
            return 1.0
        return random.Random(f'{self.seed} {name} {age}').lognormvariate(0.0, spread)
