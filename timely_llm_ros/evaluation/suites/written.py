"""Has a model write plans for a suite's tasks; what it wrote is executed and judged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import fmean
from typing import TYPE_CHECKING

from timely_llm_ros.evaluation.plans import Case
from timely_llm_ros.evaluation.suites.journey import travel
from timely_llm_ros.sample_tasks import TaskSample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.evaluation.plans import Written
    from timely_llm_ros.evaluation.suites.suite import Suite, SuiteVerdict
    from timely_llm_ros.skills import Call


@dataclass(frozen=True, slots=True)
class Scored:
    """What a written plan is worth, each from 0 to 1.

    Attributes:
        complete: It came to its end.
        valid: It came to its end and nothing in it was refused.
        exact: It is the right plan, character for character.
        executable: The suite's evaluator can do all its actions in their order.
        goals: The share of the task's goals that it brings about there.
        success: The evaluator takes it for a success.
    """

    complete: float
    valid: float
    exact: float
    executable: float
    goals: float
    success: float


def suite_cases(suite: Suite, count: int) -> list[Case]:
    """Return so many of a suite's tasks, evenly spread over it, or all where it has fewer."""
    names = suite.names()
    chosen = [names[place * len(names) // count] for place in range(min(count, len(names)))]
    cases = []
    for name in names if count >= len(names) else chosen:
        task = suite.task(name)
        sample = TaskSample(
            suite.skill_set.name, task.shown, task.instruction, task.gold, kind=0, urgent=False
        )
        cases.append(Case(name, sample, suite.skill_set, len(task.shown.objects), {}))
    return cases


def score(suite: Suite, case: Case, written: Written) -> tuple[Scored, SuiteVerdict]:
    """Execute what is valid of a plan on a simulated robot, and have what it did judged."""
    calls: tuple[Call, ...] = ()
    if written.text:
        calls = travel(suite.task(case.name), suite.skill_set, [written.text]).calls
    verdict = suite.judge(case.name, suite.answer(case.name, calls))
    complete = written.reason == 'stop'
    return (
        Scored(
            complete,
            complete and bool(written.text) and not written.error,
            complete and written.text == case.task.plan,
            verdict.executable and not verdict.refused,
            verdict.met / verdict.goals if verdict.goals else 1.0,
            verdict.success,
        ),
        verdict,
    )


def mean_score(scores: Sequence[Scored]) -> dict[str, float]:
    """Return the mean of each word over plans."""
    return {
        it.name: round(fmean(float(getattr(one, it.name)) for one in scores), 4)
        for it in fields(Scored)
    }
