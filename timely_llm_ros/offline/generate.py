"""Offline generation of thousands of plans: prompts in, answers out, in bins of like length."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.offline.length_features import LengthFeatures
from timely_llm_ros.options import check_options, option
from timely_llm_ros.planner.prompts import Answer
from timely_llm_ros.scheduling import (
    MultiBinQueue,
    equal_mass_boundaries,
    exponential_boundaries,
    optimal_boundaries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from timely_llm_ros.engines.torch.compute import Generated
    from timely_llm_ros.planner.prompts import OfflinePrompt

Boundaries = Literal['equal', 'optimal', 'exponential']
"""Where lengths are cut into bins: equal masses, least mean batch time, lemma A.1."""

Predictor = Literal['oracle', 'features', 'rlp']
"""Where a length comes from: the prompt gives it, earlier answers teach it, or RLP reads it."""


@dataclass(frozen=True, slots=True)
class BinOptions:
    """How prompts are joined into static batches.

    Raises:
        ConfigurationError: A value is out of range.
    """

    bins: int = option(1, 'bins of static batches, k', minimum=1)
    batch: int = option(8, 'prompts per batch, B', minimum=1)
    boundaries: Boundaries = option(
        'optimal', 'where lengths are cut into bins', choices=get_args(Boundaries)
    )
    predictor: Predictor = option(
        'features',
        "where lengths come from: the prompt's own, learned from the first answers, or the "
        "model's response-length predictor",
        choices=get_args(Predictor),
    )
    learn: int = option(
        128, 'first answers, served in one bin, that "features" learns from', minimum=1
    )
    max_wait_s: float = option(
        60.0, 'longest that a prompt waits for its batch to fill up (s)', minimum=0.0
    )

    def __post_init__(self) -> None:
        check_options(self)


def cut(lengths: Sequence[float], options: BinOptions) -> list[float]:
    """Return the boundaries of the bins for a sample of lengths; fewer where it has few values."""
    bins = min(options.bins, len(set(lengths)))
    if options.boundaries == 'equal':
        edges = equal_mass_boundaries(lengths, bins)
    elif options.boundaries == 'optimal':
        edges = optimal_boundaries(lengths, bins, options.batch)
    else:
        edges = exponential_boundaries(1.0 / float(np.mean(lengths)), options.batch, bins)
    # Two may coincide, as those of lemma A.1 do for batches of one.
    return sorted({float(edge) for edge in edges})


def generate(
    arrivals: Iterator[OfflinePrompt | None],
    serve: Callable[[Sequence[OfflinePrompt]], list[Generated]],
    options: BinOptions,
    *,
    read: Callable[[OfflinePrompt], float] | None = None,
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[list[Answer]]:
    """Serve prompts in static batches, bin by bin; yield each batch's answers.

    Args:
        arrivals: The prompts; None where none has come for a moment, so that batches that have
            waited too long are formed.
        serve: Generates a batch.
        options: How batches are formed.
        read: Predicts a prompt's length (tokens), for the predictor ``rlp``.
        now_s: Returns the time.

    Raises:
        ConfigurationError: A prompt has no length though the predictor is ``oracle``, or there
            is nothing to ``read`` with though it is ``rlp``.
    """
    number = 0

    def run(batch: Sequence[OfflinePrompt], lengths: dict[str, float]) -> list[Answer]:
        nonlocal number
        number += 1
        return [
            Answer(
                prompt.prompt_id,
                generated.text,
                generated.tokens,
                generated.error or ('' if generated.reason == 'stop' else generated.reason),
                number - 1,
                lengths.get(prompt.prompt_id),
            )
            for prompt, generated in zip(batch, serve(batch), strict=True)
        ]

    first: list[OfflinePrompt] = []
    taught: list[tuple[OfflinePrompt, int]] = []
    wanted = options.learn if options.bins > 1 and options.predictor == 'features' else 0
    for prompt in arrivals:
        if prompt is not None:
            first.append(prompt)
        if wanted and (len(first) == options.batch or (first and prompt is None)):
            answers = run(first, {})
            taught += zip(first, (answer.tokens for answer in answers), strict=True)
            first = []
            yield answers
        if len(taught) >= wanted:
            break
    else:
        if first:
            yield run(first, {})
        return
    if wanted:
        read = LengthFeatures(*map(list, zip(*taught, strict=True))).predict
    elif options.predictor == 'oracle':
        read = _own_length
    yield from _binned(first, arrivals, run, options, read, now_s)


def _own_length(prompt: OfflinePrompt) -> float:
    if prompt.length is None:
        raise ConfigurationError(
            f'prompt {prompt.prompt_id!r}: no length; expected one with the predictor "oracle"'
        )
    return float(prompt.length)


def _binned(
    first: list[OfflinePrompt],
    arrivals: Iterator[OfflinePrompt | None],
    run: Callable[[Sequence[OfflinePrompt], dict[str, float]], list[Answer]],
    options: BinOptions,
    read: Callable[[OfflinePrompt], float] | None,
    now_s: Callable[[], float],
) -> Iterator[list[Answer]]:
    """Serve what comes, bin by bin."""
    predicted: dict[str, float] = {}
    by_id: dict[str, OfflinePrompt] = {}
    queue: MultiBinQueue[str] | None = None
    # Boundaries are cut for what is there when the first batch is formed.
    early = list(first)

    def length_of(prompt: OfflinePrompt) -> float:
        if options.bins == 1:
            return 1.0
        if read is None:
            raise ConfigurationError(f'predictor {options.predictor!r}: expected one to be given')
        found = predicted.get(prompt.prompt_id)
        if found is None:
            found = predicted[prompt.prompt_id] = read(prompt)
        return found

    def push(prompt: OfflinePrompt, into: MultiBinQueue[str]) -> None:
        by_id[prompt.prompt_id] = prompt
        into.push(prompt.prompt_id, length_of(prompt), now_s())

    def opened() -> MultiBinQueue[str]:
        lengths = [length_of(prompt) for prompt in early]
        edges = cut(lengths, options) if options.bins > 1 else [0.0, 2.0]
        made: MultiBinQueue[str] = MultiBinQueue(edges, options.batch, options.max_wait_s)
        for prompt in early:
            push(prompt, made)
        early.clear()
        return made

    def formed(into: MultiBinQueue[str]) -> Iterator[list[Answer]]:
        while (batch := into.pop()) is not None:
            known = {} if options.bins == 1 else predicted
            yield run([by_id.pop(name) for name in batch.items], known)

    enough = max(options.learn, options.batch * options.bins)
    for prompt in arrivals:
        if queue is None:
            if prompt is not None:
                early.append(prompt)
            if len(early) >= enough or (prompt is None and early):
                queue = opened()
        elif prompt is not None:
            push(prompt, queue)
        if queue is not None:
            queue.advance(now_s())
            yield from formed(queue)
    if queue is None and early:
        queue = opened()
    if queue is not None:
        queue.flush(now_s())
        yield from formed(queue)
