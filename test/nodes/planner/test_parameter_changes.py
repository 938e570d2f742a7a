"""What may be set on a planner while its engine runs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from timely_llm_ros.engines import EngineInfo
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.planner.parameter_changes import ParameterChanges
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.ros import declarations

INFO = EngineInfo('torch', 'model', 1, 'float32', 1, 1000, 0.0)


class Node:
    """Has the parameters' defaults, and those that are given."""

    def __init__(self, **values: Any) -> None:
        known = declarations(PlannerParameters)
        self._values = {name: it.default for name, it in known.items()} | values

    def get_parameter(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(value=self._values[name])


def changes(**values: Any) -> ParameterChanges:
    node: Any = Node(**values)
    return ParameterChanges(node)


def test_a_policy_that_ranks_plans_is_refused_where_nothing_predicts_their_lengths() -> None:
    without = replace(INFO, ranks_plans=False)
    with pytest.raises(ConfigurationError, match=r"'policy': 'srpt'.*unconfigured.*'torch'"):
        changes().check({'policy': 'srpt'}, without)
    for policy, engine in (('srpt', INFO), ('edf', without), ('srpt', None)):
        changes().check({'policy': policy}, engine)


def test_the_policy_that_an_engine_was_configured_with_may_be_set_again() -> None:
    changes(policy='srpt').check({'policy': 'srpt'}, replace(INFO, ranks_plans=False))
