from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from timely_llm_ros.engines import ENGINES, create_engine
from timely_llm_ros.engines.openai.options import ServerOptions
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.planner.engine_options import engine_options, predictor_folder
from timely_llm_ros.nodes.planner.options import planner_options
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.ros.parameters import check, declarations
from timely_llm_ros.scheduling.options import SchedulingOptions


def test_the_parameters_have_the_schedulers_options_and_defaults() -> None:
    ours = SchedulingOptions(admission='lookahead', interrupts=False)
    assert PlannerParameters().scheduling == ours
    names = {item.name for item in fields(SchedulingOptions)}
    assert names <= set(declarations(PlannerParameters))


@pytest.mark.parametrize('engine', sorted(ENGINES))
@pytest.mark.parametrize(
    ('name', 'value', 'expected'),
    [
        ('admission', 'lookahead', 'lookahead'),
        ('interrupts', False, False),
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
    check(PlannerParameters, name, value)
    parameters = PlannerParameters(
        engine=engine, server_urls=('http://gpu-1:8000',), **{name: value}
    )
    options = engine_options(parameters)
    assert getattr(options['scheduling'], name) == expected
    assert create_engine(engine, **options) is not None


@pytest.mark.parametrize('engine', ['torch', 'vllm', 'openai'])
def test_how_tokens_are_chosen_reaches_each_engine(engine: str) -> None:
    assert PlannerParameters().sampling.greedy
    parameters = PlannerParameters(
        engine=engine, server_urls=('http://gpu-1:8000',), temperature=0.8, top_p=0.9, seed=7
    )
    options = engine_options(parameters)
    assert options['sampling'] == Sampling(0.8, 0.9, 7)
    assert create_engine(engine, **options) is not None


@pytest.mark.parametrize('engine', ['torch', 'vllm'])
def test_how_long_steps_may_get_reaches_each_engine(engine: str) -> None:
    assert 'prefill_chunk' not in engine_options(PlannerParameters(engine=engine))
    options = engine_options(PlannerParameters(engine=engine, prefill_chunk=256))
    assert options['prefill_chunk'] == 256
    assert create_engine(engine, **options) is not None


def test_a_step_of_vllm_has_room_for_all_that_run() -> None:
    options = engine_options(PlannerParameters(engine='vllm', prefill_chunk=8))
    with pytest.raises(ConfigurationError, match='prefill_chunk 8: expected at least 9'):
        create_engine('vllm', **options)


def test_predictors_come_with_the_model_or_from_elsewhere() -> None:
    assert (predictor_folder(PlannerParameters()) / 'rlp.json').is_file()
    own = PlannerParameters(model_path='/models/own')
    assert predictor_folder(own) == Path('/models/own/predictors')
    assert predictor_folder(replace(own, predictors='/other')) == Path('/other')


def test_what_is_said_about_servers_reaches_the_engine() -> None:
    parameters = PlannerParameters(
        engine='openai',
        server_urls=('https://gpu-1:8000/v1/', 'http://10.0.0.2:8000'),
        server_model='planner',
        server_silence_s=4.0,
        server_priority=True,
    )
    options = engine_options(parameters)
    assert create_engine('openai', **options) is not None
    assert options['server_urls'] == parameters.server_urls
    assert (options['model'], options['silence_s'], options['priority']) == ('planner', 4.0, True)
    names = {item.name for item in fields(ServerOptions)} - {'urls'}
    assert names <= set(options)
    defaults = engine_options(PlannerParameters(engine='openai', server_urls=('http://a',)))
    assert ServerOptions(('http://a',)) == ServerOptions(
        ('http://a',), **{name: defaults[name] for name in names}
    )


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
        parameters = replace(PlannerParameters(), engine=engine, policy=policy)
        expected = policy == 'srpt' and engine != 'torch'
        assert planner_options(parameters)['predicts_lengths'] == expected
