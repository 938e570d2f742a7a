"""What the planner node adds to its engine's options."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.engines import ModelConfig
from timely_llm_ros.engines.simulated import SimulatedConfig
from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, find_model

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineConfig, GenerationRequest
    from timely_llm_ros.nodes.planner.parameters import PlannerParameters

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


def predictor_folder(config: EngineConfig) -> Path:
    """Return where the predictors of the model's plan lengths are."""
    if not isinstance(config, ModelConfig):
        return Path(find_model(SHIPPED_MODEL)) / PREDICTORS
    if config.predictors not in ('auto', 'off'):
        return Path(config.predictors)
    return Path(find_model(config.model_path)) / PREDICTORS


def instruction_as_plan(request: GenerationRequest) -> str:
    """Return a request's instruction: what the simulated engine writes instead of a plan.

    So a person can try drivers and robots with any plan, and without a model.
    """
    lines = _TASK_LINE.findall(request.prompt.body)
    return str(lines[-1]) if lines else ''
