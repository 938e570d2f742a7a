"""How a planner serves its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.options import option
from timely_llm_ros.skills import RISKS

if TYPE_CHECKING:
    from timely_llm_ros.budget import BudgetOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerConfig:
    """The options of a planner; those with a description are parameters of the planner node too.

    Attributes:
        budgets: How carefully time budgets are checked when a task comes; None to keep them by the
            clock alone, as is also done where nobody knows how long the engine takes.
        learns_least_time: Whether a task is refused, where budgets are kept by the clock alone,
            if every whole plan of its skill set so far took more engine time than its budget.
        predicts_lengths: Whether the engine is told each plan's predicted length, to rank by it.
        max_running: Most generations in one engine step, for the worst case of a time budget.
    """

    max_tokens: int = option(512, 'Length limit of a plan in tokens.', minimum=1, maximum=65536)
    prompt: str = option(
        'auto',
        'Template of prompts: the path of a .jinja file, chat for the one that ships, terse for '
        "the embedded model's, auto for prompt.jinja beside the model or else what suits it.",
    )
    constrained: bool = option(True, "Mask the model's choices with the skill set's grammar.")
    max_queue_per_robot: int = option(
        8,
        "Tasks that may queue behind a robot's current one; a further one is refused.",
        minimum=0,
        maximum=1024,
        live=True,
    )
    refuses_by_worth: bool = option(
        True,
        'Refuse a task whose time utility has a floor if it is not expected to be worth more, or '
        'if the time of engine and robot that it takes earns more elsewhere.',
        live=True,
    )
    client_weights: tuple[str, ...] = option(
        (),
        'What clients count when more is asked than can be served, "name:weight" each; others '
        'count 1.',
        live=True,
    )
    approval_above: str = option(
        'high',
        'Segments with a skill of a higher risk than this wait until somebody approves them: low, '
        'medium, or high for none.',
        choices=RISKS,
    )
    approval_limit_s: float = option(
        60.0,
        'A segment that nobody approves within this (s) counts as refused.',
        minimum=1.0,
        maximum=86400.0,
    )
    stop_limit_s: float = option(
        5.0, 'How long a robot may take to confirm that it stopped (s).', minimum=0.1, maximum=60.0
    )
    replans: int = option(
        0,
        'How often a goal whose skill failed on its robot is planned again, from what is known of '
        'the surroundings then, within its time budget where it has one.',
        minimum=0,
        maximum=16,
        live=True,
    )
    fallback_after_s: float = option(
        0.0,
        'A robot does the fallback plan of its skill set when the engine fails under its task, or '
        'when no engine has answered that for so long (s); 0 for never.',
        minimum=0.0,
        maximum=3600.0,
    )
    budgets: BudgetOptions | None = None
    learns_least_time: bool = False
    predicts_lengths: bool = False
    max_running: int = 8
