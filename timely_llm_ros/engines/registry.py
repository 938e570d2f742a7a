"""Engines by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.engines.engine import Engine


class EngineFactory(Protocol):
    """Makes an engine from its own keyword options."""

    def __call__(self, **options: Any) -> Engine:
        """Return an engine that has not started."""
        ...


def _torch(**options: Any) -> Engine:
    from timely_llm_ros.engines.torch import TorchEngine

    return TorchEngine(**options)


def _simulated(**options: Any) -> Engine:
    from timely_llm_ros.engines.simulated import SimulatedEngine

    return SimulatedEngine(**options)


def _openai(**options: Any) -> Engine:
    from timely_llm_ros.engines.openai import OpenAIEngine

    return OpenAIEngine(**options)


def _vllm(**options: Any) -> Engine:
    from timely_llm_ros.engines.vllm import VllmChoice

    return VllmChoice(**options)


ENGINES: Mapping[str, EngineFactory] = {
    'torch': _torch,
    'openai': _openai,
    'vllm': _vllm,
    'simulated': _simulated,
}
"""The engines by name; an engine's module is imported when one is made."""


def create_engine(name: str, **options: Any) -> Engine:
    """Return the engine of that name, not started.

    Args:
        name: A key of ``ENGINES``.
        options: The engine's own keyword options.

    Raises:
        ConfigurationError: There is no such engine, or it does not take an option.
    """
    factory = ENGINES.get(name)
    if factory is None:
        raise ConfigurationError(f'engine {name!r}: expected one of {sorted(ENGINES)}')
    try:
        return factory(**options)
    except TypeError as err:
        raise ConfigurationError(f'engine {name!r}: {err}') from err
