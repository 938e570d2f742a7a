"""What is expected of each generation's next segment: when it is due and how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.skills import expected_execution_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.core.remaining_lengths import RemainingLengths
    from timely_llm_ros.engines.core.step import Generation
    from timely_llm_ros.scheduling import GenerationTable, SegmentCosts, StepTimes
    from timely_llm_ros.skills import Segment

_WEIGHT = 0.01
"""What a step counts in the mean number of tokens that steps bring a generation."""

_SOONEST_S = 1e-4
"""Least expected remaining generation time, so that densities stay finite."""


class SegmentForecast:
    """Keeps the table's columns of expected times, and learns from what segments took."""

    def __init__(
        self,
        table: GenerationTable,
        costs: SegmentCosts,
        step_times: StepTimes,
        lengths: RemainingLengths,
    ) -> None:
        self._table = table
        self._costs = costs
        self._step_times = step_times
        self._lengths = lengths
        self._tokens_per_step = 1.0

    def begin_segment(self, generation: Generation, batch: int) -> None:
        """Put what is expected of the next segment into the table; ``batch`` generations run."""
        name = generation.generation_id
        generation.segment_tokens = generation.segment_forwarded = 0
        if generation.segments:
            self._table.requeue(name)
            self._lengths.between_segments(generation)
        self._table.set(name, 'segment_index', generation.segments)
        self._table.set(name, 'generated_tokens', 0)
        self.renew(generation, batch)

    def renew(self, generation: Generation, batch: int) -> None:
        """Expect of the segment in the making what is known by now; ``batch`` generations run."""
        name, request = generation.generation_id, generation.request
        task_class = request.skill_set.name, request.utility
        first = not generation.segments
        generation.expected_s = max(_SOONEST_S, self._costs.expected_s(*task_class, first=first))
        self._table.set(name, 'expected_generation_s', self.expected_s(generation, batch))
        self._table.set(name, 'worst_tokens', self._costs.worst_tokens(*task_class, first=first))

    def expected_s(self, generation: Generation, batch: int) -> float:
        """Return the expected time until a segment, or its plan, is complete (s)."""
        expected_s = generation.expected_s - generation.segment_s
        left = self._lengths.remaining(generation.generation_id)
        if left is not None:
            step_s = self._step_times.expected_s(max(1, batch))
            if step_s is not None:
                expected_s = min(expected_s, left / self._tokens_per_step * step_s)
        return max(_SOONEST_S, expected_s)

    def step(self, served: Sequence[Generation], batch: int) -> None:
        """Count what a step brought those served; ``batch`` generations run."""
        self._lengths.step(served)
        for generation in served:
            self._tokens_per_step += _WEIGHT * (generation.brought - self._tokens_per_step)
        ids = [generation.generation_id for generation in served]
        expected_s = [self.expected_s(generation, batch) for generation in served]
        self._table.set_many(ids, 'expected_generation_s', expected_s)
        chosen = [item.segment_tokens - item.segment_forwarded for item in served]
        self._table.set_many(ids, 'generated_tokens', chosen)

    def end_segment(self, generation: Generation, segment: Segment, now_s: float) -> bool:
        """Learn from a segment that is complete, and say when its robot will have executed it.

        Return whether so little was known before that the others are to be expected anew.
        """
        request, name = generation.request, generation.generation_id
        renews = generation.segment_s > 0.0 and self._costs.observe(
            request.skill_set.name,
            request.utility,
            first=not generation.segments,
            generation_s=generation.segment_s,
            tokens=segment.tokens - generation.segment_forwarded,
        )
        start_s = max(now_s, self._table.get(name, 'due_s')) if generation.segments else now_s
        execution_s = expected_execution_s(segment.statements, request.skill_set, request.scene)
        self._table.set(name, 'due_s', start_s + execution_s)
        generation.segments += 1
        generation.segment_s = 0.0
        return renews
