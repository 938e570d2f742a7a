"""Says what a plan that was written for a task is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import PlanError
from timely_llm_ros.evaluation.plans.symbolic_world import outcome_of
from timely_llm_ros.skills import parse

if TYPE_CHECKING:
    from timely_llm_ros.evaluation.plans.cases import Case, Written


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a plan is worth.

    Attributes:
        complete: It came to its end.
        valid: It came to its end and nothing in it was refused.
        first: Its first statement is the right one.
        exact: It is the right plan, character for character.
        success: It brings about what the right plan does.
    """

    complete: bool
    valid: bool
    first: bool
    exact: bool
    success: bool


def judge(case: Case, written: Written) -> Verdict:
    """Return what a plan is worth."""
    complete = written.reason == 'stop'
    try:
        statements = parse(written.text, case.skill_set, case.task.scene)
    except PlanError:
        statements = ()
    right = parse(case.task.plan, case.skill_set, case.task.scene)
    valid = complete and bool(statements)
    return Verdict(
        complete,
        valid,
        statements[:1] == right[:1],
        valid and written.text == case.task.plan,
        valid and outcome_of(statements, case.sees) == outcome_of(right, case.sees),
    )
