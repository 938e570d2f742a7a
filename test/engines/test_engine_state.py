"""The states of several engines or servers as one, and what an engine says that it runs."""

from __future__ import annotations

from dataclasses import replace

from timely_llm_ros.engines.engine import EngineInfo, EngineState, ServerState

SERVERS = (ServerState('http://one', True, '', 1, 1, 0.1, 0),)
ONE = EngineState(1, 2, 3, 4, 5, 6, 0.1, (), 7, 8, (), 9.0, 10, 11, 12, 13, 14, 15, 16, 17, 18)


def test_several_states_are_summed_and_a_step_takes_their_mean() -> None:
    assert EngineState.together([ONE], SERVERS) == replace(ONE, servers=SERVERS)
    idle, slow = replace(ONE, step_s=0.0), replace(ONE, step_s=0.3)
    both = EngineState.together([ONE, idle, slow], (), waiting=5)
    assert (both.queued, both.warm_hit_tokens, both.busy_s) == (17, 42, 27.0)
    assert (both.ahead_dropped_tokens, both.waited_for) == (51, 59)
    assert both.step_s == 0.2
    assert EngineState.together([], (), waiting=1).queued == 1


def test_a_number_of_parameters_that_is_not_known_is_left_out() -> None:
    assert EngineInfo('torch', 'a', 3000, 'float32', 0, 0, 0.0).size == '3000 parameters, float32'
    assert EngineInfo('openai', 'a', 0, 'as served', 0, 0, 0.0).size == 'as served'
