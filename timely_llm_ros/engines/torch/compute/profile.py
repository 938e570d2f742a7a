"""Times the torch engine's model: prompts of any length, steps of any batch and context.

The times are those of the model's part of a step: forward pass, scores to the host, choice of
tokens. Grammars and the engine's own account are not in them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import torch

from timely_llm_ros.engines.torch.compute.attention import AttentionStep
from timely_llm_ros.engines.torch.compute.sampling import choose
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from timely_llm_ros.engines.torch.compute.kv import Slots
    from timely_llm_ros.engines.torch.compute.model import LoadedModel

STEPS = 6
"""Steps timed one after the other, by default."""

BRIEF_STEPS = 2
"""The same for a slow model, whose first steps are hardly slower than the others."""

WARMING = 3
"""For so many timed steps one goes before, untimed: the first steps are slower."""


class TorchStopwatch:
    """Times a loaded model, ``prefill_chunk`` prompt tokens at once, as in the engine.

    Tokens are random and contexts hold whatever is in the pool: times do not depend on either.

    Raises:
        ConfigurationError: No tokens at once, or no steps.
    """

    def __init__(self, loaded: LoadedModel, *, prefill_chunk: int, steps: int = STEPS) -> None:
        if prefill_chunk < 1 or steps < 1:
            raise ConfigurationError(
                f'prefill chunk {prefill_chunk}, {steps} steps: expected at least 1'
            )
        self._steps = steps
        self._model = loaded
        self._chunk = prefill_chunk
        self._rng = np.random.default_rng(0)

    @property
    def longest(self) -> int:
        """The longest context (tokens) that the model and its KV pool can have."""
        return min(self._model.context_limit, self._model.pool.capacity)

    def check(self, batch: int, tokens: int) -> None:
        """Check that ``batch`` contexts of ``tokens`` fit.

        Raises:
            ConfigurationError: They do not.
        """
        if tokens > self._model.context_limit:
            raise ConfigurationError(
                f'context of {tokens} tokens: expected at most {self._model.context_limit}, the '
                "model's limit"
            )
        if batch * tokens > self._model.pool.capacity:
            raise ConfigurationError(
                f'{batch} contexts of {tokens} tokens: expected at most '
                f'{self._model.pool.capacity} tokens of KV together'
            )

    def prefill_s(self, tokens: int, cached: int) -> float:
        """Return how long a prompt takes beyond its cached beginning, chunk by chunk (s)."""
        self.check(1, tokens)
        ids = self._ids(tokens)
        slots = self._model.pool.allocate(tokens)
        try:
            started_s = time.perf_counter()
            for start in range(cached, tokens, self._chunk):
                end = min(start + self._chunk, tokens)
                last = [end - start - 1] if end == tokens else []
                self._run(
                    ids[start:end], list(range(start, end)), [(end - start, slots[:end])], last
                )
            return time.perf_counter() - started_s
        finally:
            self._model.pool.free(slots)

    def steps_s(self, batch: int, kv_tokens: int) -> list[float]:
        """Return how long steps of ``batch`` take, each with ``kv_tokens`` of context (s)."""
        self.check(batch, kv_tokens + 1)
        pool = self._model.pool
        slots = [pool.allocate(kv_tokens + 1) for _ in range(batch)]
        ids, wanted = self._ids(batch), list(range(batch))
        times_s = []
        try:
            warming = self._steps // WARMING
            for number in range(warming + self._steps):
                started_s = time.perf_counter()
                self._run(ids, [kv_tokens] * batch, [(1, own) for own in slots], wanted)
                if number >= warming:
                    times_s.append(time.perf_counter() - started_s)
        finally:
            for own in slots:
                pool.free(own)
        return times_s

    def _ids(self, count: int) -> list[int]:
        ids: list[int] = self._rng.integers(self._model.texts.size, size=count).tolist()
        return ids

    def _run(
        self,
        ids: list[int],
        positions: list[int],
        parts: list[tuple[int, Slots]],
        wanted: list[int],
    ) -> None:
        model = self._model
        with torch.inference_mode():
            step = AttentionStep.build(parts, model.device)
            logits = model.forward(ids, positions, step, wanted)
            scores = logits[:, : model.texts.size].float().cpu().numpy()
        if wanted:
            choose(scores, np.full((len(wanted), model.texts.mask_words), -1, np.int32))
