"""Which of the planner's parameters may be set when, and what was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticStatus

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.planner.options import planner_config
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.planner import client_weights
from timely_llm_ros.ros import check, declarations, live_values, read
from timely_llm_ros.scheduling import find_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rclpy.node import Node

    from timely_llm_ros.engines import EngineInfo
    from timely_llm_ros.nodes.planner.diagnostics import PlannerDiagnostics

OF_THE_ENGINE = ('policy', 'admission', 'interrupts', 'age_bound_s', 'network_s', 'fills',
                 'preemption_share')  # fmt: skip
"""What an engine has to take that is told of it while it runs."""


class ParameterChanges:
    """Checks what is set on the planner's node, and remembers what was changed last."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known = declarations(PlannerParameters)
        self._values = live_values(node, PlannerParameters)
        self._latest = 'as at the start'

    def check(self, changes: Mapping[str, Any], engine: EngineInfo | None) -> None:
        """Check whether these parameters may have these values now, where that engine runs.

        Raises:
            ConfigurationError: They may not; it says what was expected.
        """
        ours = {name: value for name, value in changes.items() if name in self._known}
        for name, value in ours.items():
            if engine is not None and not self._known[name].option.live:
                raise ConfigurationError(
                    f'parameter {name!r}: expected the node to be unconfigured; while it is '
                    f'active, only {", ".join(self._values)} may be set'
                )
            alien = name == 'server_urls' and engine is not None and engine.engine != 'openai'
            fixed = name in OF_THE_ENGINE and engine is not None and not engine.reschedules
            if engine is not None and (alien or fixed):
                raise ConfigurationError(
                    f'parameter {name!r}: expected the node to be unconfigured, as engine '
                    f'{engine.engine!r} cannot change it while it runs'
                )
            check(PlannerParameters, name, value)
            if name == 'policy' and engine is not None and value != self._values[name]:
                _require_lengths(value, engine)
        if engine is not None and ours:
            # What one value alone does not show.
            client_weights(planner_config(read(self._node, PlannerParameters, ours)).client_weights)

    def note(self, changes: Mapping[str, Any]) -> str:
        """Note what was set; return what of it is new and may change in use, empty for nothing."""
        new = [
            f'{name}: {_text(self._values[name])} -> {_text(value)}'
            for name, value in changes.items()
            if name in self._values and _text(self._values[name]) != _text(value)
        ]
        self._values |= {name: value for name, value in changes.items() if name in self._values}
        if new:
            self._latest = ', '.join(new)
        return ', '.join(new)

    def status(self, health: PlannerDiagnostics) -> DiagnosticStatus:
        """Return the present values and the latest change as a status of the planner's health."""
        values = {name: _text(value) for name, value in self._values.items()}
        return health.status('parameters', DiagnosticStatus.OK, self._latest, values)


def _require_lengths(policy: str, engine: EngineInfo) -> None:
    if find_policy(policy).ranks_plans and not engine.ranks_plans:
        raise ConfigurationError(
            f"parameter 'policy': {policy!r}: expected the node to be unconfigured, as engine "
            f'{engine.engine!r} loads the predictors of plan lengths, by which that policy ranks, '
            'with its model'
        )


def _text(value: object) -> str:
    return ', '.join(value) if isinstance(value, list | tuple) else str(value)
