"""What an engine says of itself and of each of its generations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import EngineState, GenerationState
from timely_llm_ros.scheduling import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.engines.core.kv_account import KvAccount
    from timely_llm_ros.engines.core.remaining_lengths import RemainingLengths
    from timely_llm_ros.engines.core.step import Generation
    from timely_llm_ros.scheduling import GenerationTable


def state_of(
    generations: Iterable[Generation],
    table: GenerationTable,
    lengths: RemainingLengths,
    kv: KvAccount,
    now_s: float,
    step_s: float,
) -> EngineState:
    """Return the state of generations that the table knows, and of their account of KV."""
    states = _states_of(generations, table, lengths, now_s)
    return EngineState(
        table.count(Phase.RUNNING),
        table.count(Phase.SUSPENDED),
        table.count(Phase.HELD),
        table.count(Phase.QUEUED),
        kv.used,
        kv.capacity,
        step_s,
        states,
        kv.spilled,
        waited_for=sum(one.waiting_s > 0.0 and one.phase is not Phase.HELD for one in states),
    )


def _states_of(
    generations: Iterable[Generation],
    table: GenerationTable,
    lengths: RemainingLengths,
    now_s: float,
) -> tuple[GenerationState, ...]:
    """Return the states of generations that the table knows, in their order."""
    columns = (table.column(name).tolist() for name in ('phase', 'rank', 'due_s'))
    by_row = list(zip(*columns, strict=True))
    states = []
    for generation in generations:
        name = generation.generation_id
        phase, rank, since_s = by_row[table.row(name)]
        left = lengths.remaining(name)
        states.append(
            GenerationState(
                name,
                Phase(phase),
                rank,
                max(0.0, now_s - since_s),
                generation.segments,
                generation.context.held,
                math.nan if left is None else left,
            )
        )
    return tuple(states)
