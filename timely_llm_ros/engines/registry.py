"""The engines: their options by name, and their classes by options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.openai import OpenAIConfig, OpenAIEngine
from timely_llm_ros.engines.ray import RayConfig, RayEngine
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine
from timely_llm_ros.engines.torch import TorchConfig, TorchEngine
from timely_llm_ros.engines.vllm import VllmConfig, VllmWithFallback
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.engines.config import EngineConfig
    from timely_llm_ros.engines.engine import Engine

_ENGINES: Mapping[type[EngineConfig], Callable[[Any], Engine]] = {
    TorchConfig: TorchEngine,
    OpenAIConfig: OpenAIEngine,
    VllmConfig: VllmWithFallback,
    RayConfig: lambda config: RayEngine(config, create_engine),
    SimulatedConfig: SimulatedEngine,
}
"""The engines' classes by their options. None of these modules imports its engine's packages."""

ENGINES: Mapping[str, type[EngineConfig]] = {config.name: config for config in _ENGINES}
"""The options of the engines by name."""


def find_engine(name: str) -> type[EngineConfig]:
    """Return the type of an engine's options.

    Raises:
        ConfigurationError: There is no such engine.
    """
    if name not in ENGINES:
        raise ConfigurationError(f'engine {name!r}: expected one of {", ".join(sorted(ENGINES))}')
    return ENGINES[name]


def create_engine(config: EngineConfig) -> Engine:
    """Return the engine that has these options, not started.

    Raises:
        ConfigurationError: No engine has such options.
    """
    make = _ENGINES.get(type(config))
    if make is None:
        expected = ', '.join(known.__name__ for known in _ENGINES)
        raise ConfigurationError(f'engine {type(config).__name__}: expected one of {expected}')
    return make(config)
