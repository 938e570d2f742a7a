"""Which replica has a first segment soonest."""

from __future__ import annotations

from dataclasses import replace

from support.engines.ray_runs import request

from timely_llm_ros.engines.engine import EngineInfo, EngineState
from timely_llm_ros.engines.ray.routing import ReplicaLoad

INFO = EngineInfo('simulated', 'simulated', 0, 'none', 0, 1_000_000, 0.0)


def load(*, running: int, waited_for: int) -> ReplicaLoad:
    found = ReplicaLoad(INFO, places=4)
    found.report(EngineState(running, 3, 0, 0, 0, 10**6, 0.02, (), waited_for=waited_for), 0.0)
    return found


def test_generations_whose_robots_execute_delay_nobody() -> None:
    idle, ahead, busy = (
        load(running=running, waited_for=waited_for)
        for running, waited_for in ((0, 0), (4, 0), (4, 8))
    )
    assert ahead.first_segment_s(request(0), 0.0) == idle.first_segment_s(request(0), 0.0)
    assert busy.first_segment_s(request(0), 0.0) > ahead.first_segment_s(request(0), 0.0)
    assert (idle.generations, ahead.generations) == (3, 7)


def test_what_was_sent_since_the_report_counts() -> None:
    found = load(running=4, waited_for=4)
    found.sent(request(1), 0.0)
    assert (found.working, found.generations) == (5, 8)


def test_prompts_that_are_read_first_delay_and_others_do_not() -> None:
    idle, read = load(running=0, waited_for=0), load(running=0, waited_for=0)
    read.sent(request(1), 0.0)
    once = read.first_segment_s(request(0), 0.0)
    read.sent(request(2), 0.0)
    assert once > idle.first_segment_s(request(0), 0.0)
    assert read.first_segment_s(request(0), 0.0) > once
    assert read.first_segment_s(request(0), 60.0) < once


def test_whose_segment_is_due_sooner_does_not_wait_for_prompts_of_others() -> None:
    found = load(running=0, waited_for=0)
    found.sent(request(3), 0.0)  # Its prefix is there from now on.

    def waits_s(arrival_s: float) -> float:
        return found.first_segment_s(replace(request(0), arrival_s=arrival_s), 60.0)

    alone_s = waits_s(4.5)
    found.sent(replace(request(1), arrival_s=5.0), 60.0)
    found.sent(replace(request(2), arrival_s=4.0), 60.0)
    assert alone_s == waits_s(3.0) < waits_s(4.5) < waits_s(6.0)


def test_prompts_of_other_planners_delay_as_its_own_do() -> None:
    found = load(running=0, waited_for=0)
    found.sent(request(1), 0.0)
    before_s = found.first_segment_s(request(0), 60.0)
    found.report(EngineState(0, 0, 0, 3, 0, 10**6, 0.02, ()), 60.0)
    assert found.first_segment_s(request(0), 60.0) > before_s
