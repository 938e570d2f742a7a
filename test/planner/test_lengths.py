"""The planner tells engines without a predictor of their own how long plans will be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.planner import PlannerConfig
from timely_llm_ros.planner.task import TaskResult
from timely_llm_ros.prediction.lengths.length_forecast import EmpiricalLengths, Sample
from timely_llm_ros.testing import Fleet, by_instruction, in_fleet

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.testing import Script

PROMISED = 37


class Promise:
    """Expects the same length of every plan."""

    def predicted(self, max_tokens: int) -> int:
        return min(PROMISED, max_tokens)

    def quantile(self, share: float) -> int | None:
        return None


class Prophet:
    """Predicts the same of every prompt, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def predict(self, fixed: str, body: str) -> Promise:
        self.asked.append(body)
        return Promise()


def requests_of(**options: object) -> list[GenerationRequest]:
    """Return what the engine is asked for two tasks, one after the other."""
    seen: list[GenerationRequest] = []

    def script(request: GenerationRequest) -> Script:
        seen.append(request)
        return by_instruction(request)

    async def scenario(fleet: Fleet) -> None:
        for name in ('a', 'b'):
            result = await fleet.submit(fleet.task(name, instruction='act 0.1')).result()
            assert isinstance(result, TaskResult)
            assert result.ending.code == 0, result

    in_fleet(scenario, script, **options)
    return seen


def test_an_engine_that_ranks_by_lengths_is_told_them() -> None:
    prophet = Prophet()
    seen = requests_of(predictor=prophet, config=PlannerConfig(predicts_lengths=True))
    assert [request.predicted_tokens for request in seen] == [PROMISED, PROMISED]
    assert prophet.asked == [request.prompt.body for request in seen]
    limited = requests_of(
        predictor=prophet, config=PlannerConfig(predicts_lengths=True, max_tokens=20)
    )
    assert [request.predicted_tokens for request in limited] == [20, 20]


def test_others_are_not() -> None:
    prophet = Prophet()
    assert [it.predicted_tokens for it in requests_of(predictor=prophet)] == [None, None]
    assert not prophet.asked, 'no time is spent on what nobody needs'


def test_what_is_expected_is_learned_from_plans_that_ended() -> None:
    lengths = EmpiricalLengths()
    prompt = requests_of(predictor=lengths)[0].prompt
    # The fake engine says 20 tokens; the one that ends a plan counts too.
    assert lengths.predict(prompt.fixed, prompt.body) == Sample((21, 21))
