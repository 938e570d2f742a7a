from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from timely_llm_ros.engines import ENGINES, ModelConfig, create_engine
from timely_llm_ros.engines.openai.config import OpenAIConfig
from timely_llm_ros.engines.openai.options import ServerOptions
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.engines.torch.config import TorchConfig
from timely_llm_ros.engines.vllm.config import VllmConfig
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.planner.options import (
    engine_config,
    instruction_as_plan,
    planner_config,
    predictor_folder,
)
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.ros.parameters import build, check, declarations
from timely_llm_ros.scheduling.options import SchedulingOptions

DEFAULTS = {name: declared.default for name, declared in declarations(PlannerParameters).items()}


def parameters(engine: str = 'torch', **values: Any) -> PlannerParameters:
    """The node's parameters as it reads them, with the given ones set."""
    given = {'engine': engine, 'server_urls': ('http://gpu-1:8000',), **values}
    for name, value in given.items():
        check(PlannerParameters, name, value)
    return build(PlannerParameters, DEFAULTS | given)


def test_the_defaults_of_the_parameters_are_those_of_the_records() -> None:
    assert build(PlannerParameters, DEFAULTS) == PlannerParameters()


@pytest.mark.parametrize('engine', sorted(ENGINES))
def test_a_parameter_chooses_the_engine(engine: str) -> None:
    config = engine_config(parameters(engine))
    assert type(config) is ENGINES[engine]
    assert create_engine(config) is not None


def test_each_option_of_the_scheduler_is_a_parameter() -> None:
    names = {item.name for item in fields(SchedulingOptions)}
    assert names <= set(declarations(PlannerParameters))
    assert parameters().engine.scheduling == SchedulingOptions()


@pytest.mark.parametrize('engine', sorted(ENGINES))
@pytest.mark.parametrize(
    ('name', 'value', 'expected'),
    [
        ('admission', 'feasible', 'feasible'),
        ('interrupts', True, True),
        ('age_bound_s', 0.0, None),
        ('age_bound_s', 5.0, 5.0),
        ('network_s', 0.008, 0.008),
        ('profiled_generation_s', 0.09, 0.09),
        ('fills', True, True),
        ('preemption_share', 0.5, 0.5),
        ('background_step_s', 0.002, 0.002),
    ],
)
def test_each_option_reaches_each_engine(engine: str, name: str, value: Any, expected: Any) -> None:
    config = engine_config(parameters(engine, **{name: value}))
    assert getattr(config.scheduling, name) == expected
    assert create_engine(config) is not None


@pytest.mark.parametrize('engine', ['torch', 'vllm', 'openai'])
def test_how_tokens_are_chosen_reaches_each_engine(engine: str) -> None:
    config = engine_config(parameters(engine, temperature=0.8, top_p=0.9, seed=7))
    assert isinstance(config, ModelConfig)
    assert config.sampling == Sampling(0.8, 0.9, 7)
    assert ModelConfig().sampling.greedy


def test_how_long_steps_may_get_has_a_default_of_each_engine() -> None:
    assert [TorchConfig().chunk, VllmConfig().chunk, SimulatedConfig().chunk] == [128, 2048, 2048]
    for engine in ('torch', 'vllm', 'simulated'):
        config = engine_config(parameters(engine, prefill_chunk=256))
        assert isinstance(config, TorchConfig | VllmConfig | SimulatedConfig)
        assert config.chunk == 256


def test_a_step_of_vllm_has_room_for_all_that_run() -> None:
    with pytest.raises(ConfigurationError, match='prefill_chunk 8: expected at least 9'):
        parameters('vllm', prefill_chunk=8)


def test_the_simulated_engine_writes_the_instruction_at_the_given_pace() -> None:
    config = engine_config(parameters('simulated', min_step_s=0.5, eviction=''))
    assert isinstance(config, SimulatedConfig)
    assert config.plan_text is instruction_as_plan
    assert (config.paced.decode_s, config.eviction) == (0.5, None)
    assert SimulatedConfig().paced == SimulatedConfig().step_time


@pytest.mark.parametrize('engine', ['torch', 'vllm', 'openai'])
def test_an_engine_measures_itself_where_no_profile_is_given(engine: str) -> None:
    for profile in ('auto', '', '/a/profile.json'):
        config = engine_config(parameters(engine, profile=profile))
        assert isinstance(config, ModelConfig)
        assert config.measure == (profile == 'auto')


def test_predictors_come_with_the_model_or_from_elsewhere() -> None:
    assert (predictor_folder(TorchConfig()) / 'rlp.json').is_file()
    assert predictor_folder(SimulatedConfig()) == predictor_folder(VllmConfig())
    own = TorchConfig(model_path='/models/own')
    assert predictor_folder(own) == Path('/models/own/predictors')
    assert predictor_folder(replace(own, predictors='/other')) == Path('/other')


def test_what_is_said_about_servers_reaches_the_engine() -> None:
    urls = ('https://gpu-1:8000/v1/', 'http://10.0.0.2:8000')
    config = engine_config(
        parameters(
            'openai',
            server_urls=urls,
            server_model='planner',
            server_silence_s=4.0,
            server_priority=True,
        )
    )
    assert isinstance(config, OpenAIConfig)
    expected = ServerOptions(urls, model='planner', silence_s=4.0, priority=True)
    assert config.servers == expected
    names = {f'server_{item.name}' for item in fields(ServerOptions)}
    assert names <= set(declarations(PlannerParameters))


def test_without_servers_the_openai_engine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='server_urls'):
        parameters('openai', server_urls=())


@pytest.mark.parametrize(
    ('name', 'value'),
    [('admission', 'guess'), ('age_bound_s', -1.0), ('network_s', 11.0), ('interrupts', 1)],
)
def test_wrong_values_are_refused_by_the_declaration(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        check(PlannerParameters, name, value)


@pytest.mark.parametrize('engine', ['vllm', 'openai', 'torch'])
def test_under_srpt_the_planner_predicts_for_engines_that_cannot(engine: str) -> None:
    for policy in ('srpt', 'least_loss'):
        expected = policy == 'srpt' and engine != 'torch'
        options = planner_config(parameters(engine, policy=policy))
        assert options.predicts_lengths == expected
