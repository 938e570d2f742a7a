"""Where the tokens of a step lie: side by side, those of each context together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from timely_llm_ros.engines.torch.compute.attention import SHORT, AttentionStep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.torch.compute.eviction import QueryWindow
    from timely_llm_ros.engines.torch.compute.kv import SlotList

    Inputs = tuple[list[int], list[int], AttentionStep]
    """What a forward pass computes: token ids, their positions, and where they are."""


class Part(NamedTuple):
    """The tokens of one context that a step computes.

    Attributes:
        ids: The tokens.
        position: That of the first one.
        slots: The context's, these tokens' included.
        samples: The generation that gets a token after the last one; None for none.
        window: What gathers their queries.
        drafted: How many of them, at the end, are guessed: what samples comes before them.
    """

    ids: list[int]
    position: int
    slots: SlotList
    samples: str | None = None
    window: QueryWindow | None = None
    drafted: int = 0


def lay_out(parts: Sequence[Part], device: torch.device) -> tuple[Inputs, dict[str | None, int]]:
    """Return a forward pass's inputs, and the place of the token that each generation samples from.

    Short parts come first, as attention wants them.
    """
    ids: list[int] = []
    positions: list[int] = []
    places: dict[str | None, int] = {}
    observed: list[tuple[int, int, QueryWindow]] = []
    ordered = sorted(parts, key=lambda part: len(part.ids) > SHORT)
    for part in ordered:
        if part.window is not None:
            observed.append((len(ids), len(part.ids), part.window))
        ids += part.ids
        positions += range(part.position, part.position + len(part.ids))
        places[part.samples] = len(ids) - 1 - part.drafted
    with torch.inference_mode():
        placed = [(len(part.ids), part.slots.array) for part in ordered]
        step = AttentionStep.build(placed, device)
    step.observed = observed
    return (ids, positions, step), places
