"""The engine ``ray`` and its replicas in one process, on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from support.engines.ray_runs import request, simulated

from benchmarks.workloads.replicas import Replicas
from timely_llm_ros.engines import EngineStateChanged, GenerationEnded, SegmentGenerated
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.engines.engine import ServerState

NUMBERS = range(6)


def test_a_minute_of_silence_loses_no_replica_and_commands_reach_theirs() -> None:
    events: list[EngineEvent] = []

    def servers() -> tuple[ServerState, ...]:
        states = [one.state for one in events if isinstance(one, EngineStateChanged)]
        return states[-1].servers

    async def main() -> None:
        engine = Replicas(simulated(), 2).engine()
        await engine.start(events.append)
        await asyncio.sleep(60.0)
        assert [(one.well, one.losses) for one in servers()] == [(True, 0)] * 2
        now_s = asyncio.get_running_loop().time()
        for number in NUMBERS:
            engine.submit(replace(request(number), arrival_s=now_s))
        await asyncio.sleep(10.0)
        # Each waits for its robot's value, on the replica that has it.
        assert [one.generations for one in servers()] == [3, 3]
        assert not any(isinstance(one, GenerationEnded) for one in events)
        engine.cancel('g5')
        for number in NUMBERS:
            engine.resume(f'g{number}', 'true')
        await asyncio.sleep(10.0)
        await engine.close()

    run_virtual(main())
    ended = {one.generation_id: one.reason for one in events if isinstance(one, GenerationEnded)}
    assert ended == {f'g{number}': 'canceled' if number == 5 else 'stop' for number in NUMBERS}
    segments = [one for one in events if isinstance(one, SegmentGenerated)]
    assert sum(one.generation_id == 'g0' for one in segments) == 6
    assert all(60.0 < one.token_at_s < 80.0 for one in segments)
