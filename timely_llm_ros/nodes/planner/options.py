"""Turns the planner node's parameters into what its planner and engine are made with."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.engines import ModelConfig, StepOptions
from timely_llm_ros.engines.simulated import SimulatedConfig
from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.planner.permission import read_allow_list
from timely_llm_ros.planner.prompts import BackgroundFile
from timely_llm_ros.prediction.lengths import find_predictor
from timely_llm_ros.prediction.times import read_profile
from timely_llm_ros.scheduling import find_policy
from timely_llm_ros.utility import TimeUtility

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineConfig, EngineInfo, GenerationRequest
    from timely_llm_ros.nodes.planner.catalogue import Catalogue
    from timely_llm_ros.nodes.planner.parameters import PlannerParameters
    from timely_llm_ros.planner import PlannerConfig
    from timely_llm_ros.planner.permission import AllowList
    from timely_llm_ros.prediction.lengths import LengthPredictor
    from timely_llm_ros.prediction.times import ExecutionTimeModel

_TASK_LINE = re.compile(r'^task: (.*)$', re.MULTILINE)


def engine_config(parameters: PlannerParameters) -> EngineConfig:
    """Return the options of the engine that the parameters ask for."""
    match parameters.engine:
        case SimulatedConfig() as config:
            return replace(config, plan_text=instruction_as_plan)
        case ModelConfig() as config:
            return replace(config, measure=parameters.profile == 'auto')
        case config:
            return config


def instruction_as_plan(request: GenerationRequest) -> str:
    """Return a request's instruction: what the simulated engine writes instead of a plan.

    So a person can try drivers and robots with any plan, and without a model.
    """
    lines = _TASK_LINE.findall(request.prompt.body)
    return str(lines[-1]) if lines else ''


def planner_config(parameters: PlannerParameters) -> PlannerConfig:
    """Return the planner's options.

    Raises:
        ConfigurationError: A value is out of range.
    """
    return replace(
        parameters.planner,
        budgets=parameters.budgets if parameters.profile else None,
        learns_least_time=True,
        # The torch engine has predictors of its own.
        predicts_lengths=(
            find_policy(parameters.engine.policy).ranks_plans
            and not isinstance(parameters.engine, TorchConfig)
        ),
        max_running=parameters.engine.max_running,
    )


def length_predictor(parameters: PlannerParameters) -> LengthPredictor:
    """Return what predicts response lengths.

    Raises:
        ConfigurationError: Its file cannot be used.
    """
    return find_predictor(parameters.length_predictor, predictor_folder(parameters.engine))


def predictor_folder(config: EngineConfig) -> Path:
    """Return where the predictors of the model's plan lengths are."""
    if not isinstance(config, ModelConfig):
        return Path(find_model(SHIPPED_MODEL)) / PREDICTORS
    if config.predictors not in ('auto', 'off'):
        return Path(config.predictors)
    return Path(find_model(config.model_path)) / PREDICTORS


def profiled_times(parameters: PlannerParameters) -> ExecutionTimeModel | None:
    """Return what a profile file says; None where the engine is to be asked.

    Raises:
        ConfigurationError: The file cannot be used.
    """
    if parameters.profile in ('', 'auto'):
        return None
    times = read_profile(parameters.profile).times
    engine = parameters.engine
    return times.paced(
        engine.min_step_s if isinstance(engine, StepOptions) else 0.0,
        prefill_chunk=engine.chunk,
        longest=engine.max_kv_tokens,
    )


def budgets_text(parameters: PlannerParameters, info: EngineInfo) -> str:
    """Say how time budgets are kept."""
    profile = parameters.profile
    if profile not in ('', 'auto'):
        source = f'profile {profile}'
    elif profile and info.times is not None:
        source = "the engine's own times"
    else:
        return (
            'no profile: time budgets are kept by the clock alone. Measure one with '
            '`timely-llm profile` and set the parameter profile'
        )
    means = (
        f'eviction by {info.eviction} of up to {parameters.budgets.max_evicted:.0%}'
        if info.eviction
        else 'trimmed prompts and a limit on the plan'
    )
    return f'time budgets: checked against {source}, kept by {means}'


def default_utility(parameters: PlannerParameters) -> TimeUtility:
    """Return the time utility of tasks that come without one."""
    return TimeUtility(
        parameters.default_expected_response_s,
        parameters.default_slope_per_s,
        parameters.default_peak,
    )


def allow_list(parameters: PlannerParameters, catalogue: Catalogue) -> AllowList | None:
    """Return which client may command which robot; None for every client every one.

    Raises:
        ConfigurationError: Its file cannot be used.
    """
    if not parameters.access_file:
        return None
    return read_allow_list(parameters.access_file, catalogue.skill_set_of)


def background_file(parameters: PlannerParameters) -> BackgroundFile | None:
    """Return the work of the background; None for none.

    Raises:
        ConfigurationError: Its file cannot be used.
    """
    if not parameters.background_prompts:
        return None
    prompts = Path(parameters.background_prompts)
    answers = parameters.background_answers or f'{prompts}.answers'
    return BackgroundFile(prompts, Path(answers))
