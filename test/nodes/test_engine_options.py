from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from timely_llm_ros.engines import create_engine
from timely_llm_ros.engines.simulated import SimulatedEngine
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.engine_options import engine_options
from timely_llm_ros.nodes.node_parameters import PlannerParameters
from timely_llm_ros.nodes.parameters import check, declarations
from timely_llm_ros.scheduling.options import SchedulingOptions


def test_the_parameters_have_the_schedulers_options_and_defaults() -> None:
    assert PlannerParameters().scheduling == SchedulingOptions()
    names = {item.name for item in fields(SchedulingOptions)}
    assert names <= set(declarations(PlannerParameters))


@pytest.mark.parametrize(
    ('name', 'value', 'expected'),
    [
        ('admission', 'lookahead', 'lookahead'),
        ('interrupts', False, False),
        ('age_bound_s', 0.0, None),
        ('age_bound_s', 5.0, 5.0),
        ('network_s', 0.008, 0.008),
        ('profiled_generation_s', 0.09, 0.09),
    ],
)
def test_each_option_reaches_the_engine(name: str, value: Any, expected: Any) -> None:
    check(PlannerParameters, name, value)
    options = engine_options(PlannerParameters(engine='simulated', **{name: value}))
    assert getattr(options['scheduling'], name) == expected
    assert isinstance(create_engine('simulated', **options), SimulatedEngine)


def test_defaults_are_left_to_the_engine() -> None:
    for engine in ('simulated', 'torch'):
        assert 'scheduling' not in engine_options(PlannerParameters(engine=engine))


@pytest.mark.parametrize(
    ('name', 'value'),
    [('admission', 'guess'), ('age_bound_s', -1.0), ('network_s', 11.0), ('interrupts', 1)],
)
def test_wrong_values_are_refused_by_the_declaration(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        check(PlannerParameters, name, value)
