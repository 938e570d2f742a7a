"""Plans are written for an evaluation as engines write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.evaluation.plans import draw_cases, judge, write_plans
from timely_llm_ros.prompts import load_prompts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines


def test_a_random_models_constrained_plans_all_end_complete_and_valid(
    chaotic_model: Path,
) -> None:
    from timely_llm_ros.engines.torch.compute import load_model

    loaded = load_model(str(chaotic_model), max_kv_tokens=8192)
    cases = draw_cases([4], 1, 'held_out')
    prompts = load_prompts('terse', '')
    written = list(write_plans(loaded, prompts, cases, constrained=True, batch=4, max_tokens=120))
    assert {case.name for case, _ in written} == {case.name for case in cases}
    assert all(judge(case, plan).valid for case, plan in written)
    assert any(plan.tokens > 100 for _, plan in written)


def test_the_embedded_models_plans_are_mostly_right_with_the_robots_values_in_them() -> None:
    from timely_llm_ros.engines.torch.compute import load_model

    path = find_model('')
    loaded = load_model(path, max_kv_tokens=8192)
    cases = draw_cases([5], 1, 'trained')
    prompts = load_prompts('auto', path)
    for constrained in (True, False):
        written = list(
            write_plans(loaded, prompts, cases, constrained=constrained, batch=3, max_tokens=200)
        )
        assert sum(judge(case, plan).success for case, plan in written) >= 9
        observed = [plan.text for case, plan in written if '#' in case.task.plan]
        assert observed
        assert all('#' in text for text in observed)
