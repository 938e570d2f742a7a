"""The options of each engine, from the planner node's parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, find_model

if TYPE_CHECKING:
    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.nodes.planner.parameters import PlannerParameters

_TASK_LINE = re.compile(r'^task: (.*)$', re.MULTILINE)


def engine_options(parameters: PlannerParameters) -> dict[str, Any]:
    """Return the keyword options with which ``create_engine`` makes the chosen engine.

    Raises:
        ConfigurationError: A value is out of range.
    """
    options: dict[str, Any] = {
        'mode': parameters.mode,
        'policy': parameters.policy,
        'max_running': parameters.max_running,
        'max_kv_tokens': parameters.max_kv_tokens,
        'scheduling': parameters.scheduling,
    }
    if parameters.engine == 'simulated':
        return options | {
            'plan_text': instruction_as_plan,
            'step_time': _step_time(parameters),
            'evicts': bool(parameters.eviction),
        }
    if parameters.model_path:
        options['model_path'] = parameters.model_path
    options['measure'] = parameters.profile == 'auto'
    options['sampling'] = parameters.sampling
    if parameters.engine == 'openai':
        return options | _server_options(parameters)
    if parameters.prefill_chunk:
        options['prefill_chunk'] = parameters.prefill_chunk
    if parameters.engine == 'vllm':
        return options | {'dtype': parameters.dtype, 'threads': parameters.threads}
    return options | {
        'device': parameters.device,
        'dtype': parameters.dtype,
        'threads': parameters.threads,
        'min_step_s': parameters.min_step_s,
        'predictors': parameters.predictors,
        'eviction': parameters.eviction or None,
    }


def predictor_folder(parameters: PlannerParameters) -> Path:
    """Return where the predictors of the model's plan lengths are."""
    if parameters.predictors not in ('auto', 'off'):
        return Path(parameters.predictors)
    return Path(find_model(parameters.model_path or SHIPPED_MODEL)) / PREDICTORS


def _server_options(parameters: PlannerParameters) -> dict[str, Any]:
    return {
        'server_urls': parameters.server_urls,
        'model': parameters.server_model,
        'api_key_file': parameters.server_api_key_file,
        'ca_file': parameters.server_ca_file,
        'connect_timeout_s': parameters.server_connect_timeout_s,
        'silence_s': parameters.server_silence_s,
        'health_period_s': parameters.server_health_period_s,
        'start_limit_s': parameters.server_start_limit_s,
        'give_up_s': parameters.server_give_up_s,
        'priority': parameters.server_priority,
    }


def _step_time(parameters: PlannerParameters) -> Any:
    from timely_llm_ros.engines.simulated import StepTimeModel

    default = StepTimeModel()
    return StepTimeModel(decode_s=max(parameters.min_step_s, default.decode_s))


def instruction_as_plan(request: GenerationRequest) -> str:
    """Return a request's instruction: what the simulated engine writes instead of a plan.

    So a person can try drivers and robots with any plan, and without a model.
    """
    lines = _TASK_LINE.findall(request.prompt.body)
    return str(lines[-1]) if lines else ''
