"""How many tokens vLLM may schedule in its next step where its model is a pipeline of stages.

By itself vLLM puts all that can run into the first step and leaves nothing for the steps behind it,
which the other stages wait for. Here every step gets its share of the generations that decode and
of the prompts; urgent prompts go first and as a whole. The number of micro-batches follows from
measured times, among those numbers that keep the tightest deadline.

The scheduler calls :meth:`PipelineBudget.compose` once per step. This module imports no vLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from timely_llm_ros.scheduling import PipelineModel, PipelineTimes, TokenBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Composed(NamedTuple):
    """A step: requests inside vLLM that take part, requests that enter, and most tokens."""

    running: list[Any]
    entering: list[Any]
    tokens: int


class _Prefill(NamedTuple):
    request: Any
    tokens: int
    left_s: float
    inside: bool


class _Round(NamedTuple):
    """What the next micro-batches share."""

    decoding: int
    context_tokens: int
    prefills: list[_Prefill]

    @property
    def prefill_tokens(self) -> int:
        return _sum(self.prefills)


class PipelineBudget:
    """Composes steps and learns from their times.

    Args:
        stages: Stages of the pipeline.
        most_micro_batches: Most micro-batches that share tokens.
        most_tokens: Most tokens of a step, ``max_num_batched_tokens``.
        due_s: Returns when a request's first token is due (s).

    Raises:
        ConfigurationError: A number is out of range.
    """

    def __init__(
        self,
        stages: int,
        *,
        most_micro_batches: int,
        most_tokens: int,
        due_s: Callable[[Any], float],
    ) -> None:
        self._stages, self._most = stages, most_micro_batches
        self._due_s = due_s
        self._budget = TokenBudget(most_tokens)
        self.times = PipelineTimes(stages)
        self.micro_batches = min(stages, most_micro_batches)
        """How many micro-batches share tokens now."""

    def compose(self, running: Sequence[Any], entering: Sequence[Any], now_s: float) -> Composed:
        """Return the next step's part of the requests that are to run.

        Args:
            running: Those in vLLM's worker, in flight or not, best rank first.
            entering: The others, best rank first.
            now_s: The time (s).
        """
        decodes: list[Any] = []
        prefills: list[_Prefill] = []
        in_flight = 0
        for request in running:
            tokens = _left(request)
            if tokens > 1:
                left_s = self._due_s(request) - now_s
                prefills.append(_Prefill(request, tokens, left_s, True))
            elif tokens:
                decodes.append(request)
            else:
                in_flight += 1
        for request in entering:
            left_s = self._due_s(request) - now_s
            prefills.append(_Prefill(request, max(1, _left(request)), left_s, False))
        costs = self.times.costs
        model = None if costs is None else PipelineModel(self._stages, self._most, costs)
        decoding = len(decodes) + in_flight
        contexts = sum(request.num_computed_tokens for request in running)
        work = _Round(decoding, contexts, prefills)
        self.micro_batches = count = self._count(work, model)
        shared_s = 0.0 if model is None else _shared_first_s(model, work, count)
        urgent = [item for item in prefills if item.left_s < shared_s]
        urgent.sort(key=lambda item: item.left_s)
        others = [item for item in prefills if item not in urgent]
        new = self._new(_sum(others), urgent=False), self._new(_sum(urgent), urgent=True)
        share = self._budget.issue(count, decoding, *new)
        while not share.total and prefills:
            # There are fewer tokens than micro-batches, but no step is to be empty.
            share = self._budget.issue(count, decoding)
        taken = decodes[: share.decode]
        if not share.prefill:
            others = []
        elif not all(item.inside for item in urgent):
            # vLLM serves those inside before those that enter.
            others = [item for item in others if not item.inside]
        return Composed(
            [*_requests(urgent, inside=True), *taken, *_requests(others, inside=True)],
            [*_requests(urgent, inside=False), *_requests(others, inside=False)],
            len(taken) + share.urgent + share.prefill,
        )

    def entered(self, tokens: int, now_s: float, context_tokens: int) -> None:
        """Note that a step with so many tokens goes into the pipeline."""
        if tokens:
            self.times.enter(tokens, now_s, context_tokens)

    def left(self, tokens: int, now_s: float) -> None:
        """Note that the oldest step in the pipeline, with so many tokens, comes out."""
        if tokens:
            self.times.leave(now_s)

    def _count(self, work: _Round, model: PipelineModel | None) -> int:
        """Return how many micro-batches share tokens."""
        if model is None:
            return min(self._stages, self._most)
        contexts = work.context_tokens
        usual = model.sure_count(work.decoding + work.prefill_tokens, contexts)
        if not work.prefills:
            return usual
        tightest = min(work.prefills, key=lambda item: item.left_s)
        if _shared_first_s(model, work, usual) <= tightest.left_s:
            return usual
        found = model.count_in_time(
            work.decoding,
            work.prefill_tokens,
            tightest.left_s,
            urgent=False,
            context_tokens=contexts,
        )
        if not found.in_time:
            # It would be late in shares, so it will go first and as a whole.
            found = model.count_in_time(
                work.decoding, tightest.tokens, tightest.left_s, context_tokens=contexts
            )
        return found.micro_batches

    def _new(self, tokens: int, *, urgent: bool) -> int:
        """Return how many of the waiting tokens are new, and take unused shares back."""
        budget = self._budget
        known = budget.urgent_waiting if urgent else budget.waiting - budget.urgent_waiting
        if tokens < known:
            budget.withdraw(known - tokens, urgent=urgent)
        return max(0, tokens - known)


def _shared_first_s(model: PipelineModel, work: _Round, count: int) -> float:
    """Return when the last prompt would have its first token if all were shared out (s)."""
    return model.prefill_first_token_s(
        count,
        work.decoding,
        work.prefill_tokens,
        urgent=False,
        context_tokens=work.context_tokens,
    )


def _left(request: Any) -> int:
    """Return how many tokens of a request vLLM could compute now."""
    tokens = request.num_tokens_with_spec + request.num_output_placeholders
    return int(tokens - request.num_computed_tokens)


def _sum(items: Sequence[_Prefill]) -> int:
    return sum(item.tokens for item in items)


def _requests(items: Sequence[_Prefill], *, inside: bool) -> list[Any]:
    return [item.request for item in items if item.inside is inside]
