"""The parameters of the planner node."""

from __future__ import annotations

from dataclasses import dataclass

from timely_llm_ros.budget import BudgetOptions
from timely_llm_ros.engines import ENGINES, EngineConfig
from timely_llm_ros.options import group, one_of, option
from timely_llm_ros.planner import PlannerConfig
from timely_llm_ros.prediction.lengths import PREDICTORS
from timely_llm_ros.ros import LEVELS, MetricsOptions, fixed, fixed_group
from timely_llm_ros.scene import SceneOptions
from timely_llm_ros.utility import NORMAL


@dataclass(frozen=True, slots=True)
class PlannerParameters:
    """Parameters of the planner node; those that are not fixed take effect at configuration."""

    robots: tuple[str, ...] = fixed(
        (),
        'The fleet, one "name:skill_set" each; the skill set is the name of a shipped one or a '
        'path.',
    )
    autostart: bool = fixed(
        True, 'Configure and activate at start; the program ends if that fails.'
    )
    engine: EngineConfig = one_of(
        ENGINES,
        'torch',
        'What generates plans: torch in a process of its own, vLLM in processes of its own, or the '
        'simulated one, which has no model: it takes the instruction for the plan and writes that.',
    )
    planner: PlannerConfig = group(PlannerConfig())
    profile: str = option(
        'auto',
        'How long prompts and steps take, which time budgets are checked against: a file that '
        '`timely-llm profile` wrote, "auto" to measure coarsely when the model is loaded (up to '
        'some 30 s), "" to keep budgets by the clock alone.',
    )
    length_predictor: str = option(
        'empirical',
        'What predicts response lengths for time budgets, and for policy srpt on engines other '
        "than torch: earlier plans for scenes of that size, or the model's own predictor, which "
        'reads the prompt.',
        choices=tuple(PREDICTORS),
    )
    budgets: BudgetOptions = group(BudgetOptions(), prefix='budget_')
    scene: SceneOptions = group(SceneOptions(), prefix='scene_')
    background_prompts: str = option(
        '',
        'File of prompts (JSON lines) whose plans are made in the engine time that no robot needs; '
        '"" for none.',
    )
    background_answers: str = option(
        '',
        'File to which their answers are appended; what is in it is not done again. "" for the '
        'name of the prompts with ".answers" behind it.',
    )
    default_expected_response_s: float = option(
        NORMAL.expected_response_s,
        'Default time utility of a task: expected response time (s).',
        minimum=0.0,
        maximum=3600.0,
    )
    default_slope_per_s: float = option(
        NORMAL.slope_per_s,
        'Default time utility of a task: utility lost per second after that, at most 0.',
        minimum=-1e6,
        maximum=0.0,
    )
    default_peak: float = option(
        NORMAL.peak,
        'Default time utility of a task: highest utility.',
        minimum=1e-9,
        maximum=1e6,
    )
    robot_timeout_s: float = option(
        1.0,
        "Silence of a robot's executor (s) that counts as its loss; 4 s more while it rests.",
        minimum=0.6,
        maximum=60.0,
    )
    load_limit_s: float = option(
        300.0,
        'How long the engine may take to load its model and to measure it (s).',
        minimum=1.0,
        maximum=3600.0,
    )
    access_file: str = option(
        '',
        'YAML file that says which client may command which robots; "" for every client every one.',
    )
    audit_file: str = fixed(
        '',
        'File to which is appended who asked what, what was generated and executed, and how it '
        'ended, as JSON lines in which changes show; "" for none.',
    )
    result_timeout_s: int = fixed(
        60,
        "How long a finished task's result is kept for clients that ask late (s); of the last 50 "
        'tasks at most.',
        minimum=1,
        maximum=86400,
    )
    otlp_endpoint: str = fixed(
        '',
        'Base URL of an OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318, '
        'which gets a span of each goal, segment and call; "" for none. Needs the extra otel.',
    )
    metrics: MetricsOptions = fixed_group(MetricsOptions())
    log_level: str = option(
        '',
        'Least severity of what is logged; "" for what the command line says.',
        choices=LEVELS,
        live=True,
    )
