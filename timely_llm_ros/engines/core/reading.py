"""Reads what a model writes: segments, stop strings, and where a text ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from timely_llm_ros.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.engines.core.step import Generation, Output
    from timely_llm_ros.engines.engine import EndReason
    from timely_llm_ros.skills import Segment


class Reading(NamedTuple):
    """What became of a generation with what it wrote."""

    segments: list[Segment]
    """The segments that are complete with it."""
    end: EndReason | None = None
    """Why the generation ends there; None where it goes on."""
    error: str = ''
    """What is wrong with it."""


def read_output(generation: Generation, output: Output, context_limit: int) -> Reading:
    """Take what a step brought for a generation, whose tokens are counted here.

    ``context_limit`` is the most tokens that its context may have.
    """
    if output.error:
        return Reading([], 'error', output.error)
    stop, segmenter = generation.stop, generation.segmenter
    segments: list[Segment] = []
    # The token that ends a text is no part of it.
    token = not output.ended or bool(output.text)
    generation.tokens += token
    generation.context.tokens += token
    text = stop.push(output.text)
    ended = output.ended or stop.found
    if ended:
        text += stop.rest()
    full = (
        generation.tokens >= generation.request.max_tokens
        or generation.context.prefix.tokens + generation.context.tokens > context_limit
    )
    try:
        if token or text:
            segments += segmenter.push(text, int(token))
        if ended:
            segments += segmenter.finish()
        elif segmenter.error is not None:
            return Reading(segments, 'invalid_plan', str(segmenter.error))
    except PlanError as err:
        return Reading(segments, 'invalid_plan', str(err))
    if ended:
        return Reading(segments, 'stop')
    return read_cut(generation, segments) if full else Reading(segments)


def read_ahead(
    generation: Generation, outputs: Iterable[Output], context_limit: int
) -> tuple[list[Output], bool]:
    """Take what comes for a generation, up to what would send a segment of its plan or end it.

    Returns:
        What was taken, and whether its last one would do that.
    """
    taken: list[Output] = []
    for output in outputs:
        taken.append(output)
        reading = read_output(generation, output, context_limit)
        if reading.segments or reading.end is not None:
            return taken, True
    return taken, False


def read_cut(generation: Generation, segments: list[Segment]) -> Reading:
    """Return ``segments`` and what a generation's text ends with where it is cut off.

    An answer in free text ends there; a plan does not, so that its last statement is left out.
    """
    if generation.request.skill_set.free_text is None:
        return Reading(segments, 'length')
    try:
        segments += generation.segmenter.push(generation.stop.rest(), 0)
        segments += generation.segmenter.finish()
    except PlanError as err:
        return Reading(segments, 'invalid_plan', str(err))
    return Reading(segments, 'length')
