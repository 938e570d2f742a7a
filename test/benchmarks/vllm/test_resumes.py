"""When a token of a plan counts as a resume."""

from __future__ import annotations

from benchmarks.vllm.resumes import steps_and_resumes


def test_a_token_after_another_plans_token_is_a_resume() -> None:
    # Plan 0 begins, gives way to plan 1 after two tokens, and goes on at 7.0.
    steps_s, resumes_s = steps_and_resumes([[1.0, 2.0, 7.0, 8.5], [4.0, 5.0]])
    assert steps_s == [1.0, 1.0, 1.5]
    assert resumes_s == [2.0], 'the first token of plan 1 has its prompt in it'
    assert steps_and_resumes([[], [3.0]]) == ([], [])
