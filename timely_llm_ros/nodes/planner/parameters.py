"""The parameters of the planner node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from timely_llm_ros.budget import BudgetOptions, Decides
from timely_llm_ros.engines import ENGINES, EngineConfig
from timely_llm_ros.options import group, one_of
from timely_llm_ros.planner import PlannerConfig
from timely_llm_ros.prediction.lengths import PREDICTORS
from timely_llm_ros.ros import parameter
from timely_llm_ros.utility import NORMAL

_BUDGETS = BudgetOptions()


@dataclass(frozen=True, slots=True)
class PlannerParameters:
    """Parameters of the planner node. Those that are not read-only take effect at configuration."""

    robots: tuple[str, ...] = parameter(
        (),
        'The fleet, one "name:skill_set" each; the skill set is the name of a shipped one or a '
        'path.',
    )
    autostart: bool = parameter(
        True, 'Configure and activate at start; the program ends if that fails.'
    )
    engine: EngineConfig = one_of(
        ENGINES,
        'torch',
        'What generates plans: torch in a process of its own, vLLM in processes of its own, or the '
        'simulated one, which has no model: it takes the instruction for the plan and writes that.',
    )
    planner: PlannerConfig = group(PlannerConfig())
    profile: str = parameter(
        'auto',
        'How long prompts and steps take, which time budgets are checked against: a file that '
        '`timely-llm profile` wrote, "auto" to measure coarsely when the model is loaded (some '
        'seconds), "" to keep budgets by the clock alone.',
        read_only=False,
    )
    length_predictor: str = parameter(
        'empirical',
        'What predicts response lengths for time budgets, and for policy srpt on engines other '
        "than torch: earlier plans for scenes of that size, or the model's own predictor, which "
        'reads the prompt.',
        choices=tuple(PREDICTORS),
        read_only=False,
    )
    budget_max_evicted: float = parameter(
        _BUDGETS.max_evicted,
        "Largest share of a prompt's KV that a time budget may evict.",
        minimum=0.0,
        maximum=0.999,
        read_only=False,
    )
    budget_pessimism: float = parameter(
        _BUDGETS.pessimism,
        'k of TimeBill: the worst case has k times the predicted length; 0 takes the length that '
        'budget_coverage of such plans do not exceed.',
        minimum=0.0,
        maximum=1000.0,
        read_only=False,
    )
    budget_coverage: float = parameter(
        _BUDGETS.coverage,
        'Share of single prompts, steps and plan lengths that the worst case covers.',
        minimum=0.01,
        maximum=0.999,
        read_only=False,
    )
    budget_eviction: str = parameter(
        _BUDGETS.decides,
        'What decides how much a time budget evicts: score weighs the chance to end in time '
        'against what eviction costs; worst_case takes the least with which the worst case fits, '
        'and weighs where none does; most evicts budget_max_evicted then, as TimeBill.',
        choices=get_args(Decides),
        read_only=False,
    )
    background_prompts: str = parameter(
        '',
        'File of prompts (JSON lines) whose plans are made in the engine time that no robot needs; '
        '"" for none.',
        read_only=False,
    )
    background_answers: str = parameter(
        '',
        'File to which their answers are appended; what is in it is not done again. "" for the '
        'name of the prompts with ".answers" behind it.',
        read_only=False,
    )
    default_expected_response_s: float = parameter(
        NORMAL.expected_response_s,
        'Default time utility of a task: expected response time (s).',
        minimum=0.0,
        maximum=3600.0,
        read_only=False,
    )
    default_slope_per_s: float = parameter(
        NORMAL.slope_per_s,
        'Default time utility of a task: utility lost per second after that, at most 0.',
        minimum=-1e6,
        maximum=0.0,
        read_only=False,
    )
    default_peak: float = parameter(
        NORMAL.peak,
        'Default time utility of a task: highest utility.',
        minimum=1e-9,
        maximum=1e6,
        read_only=False,
    )
    robot_timeout_s: float = parameter(
        1.0,
        "Silence of a robot's executor (s) that counts as its loss.",
        minimum=0.2,
        maximum=60.0,
        read_only=False,
    )
    load_limit_s: float = parameter(
        300.0,
        'How long the engine may take to load its model (s).',
        minimum=1.0,
        maximum=3600.0,
        read_only=False,
    )
    result_timeout_s: int = parameter(
        900,
        "How long a finished task's result is kept for clients that ask late (s).",
        minimum=1,
        maximum=86400,
    )
