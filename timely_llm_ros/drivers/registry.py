"""Drivers by name, as launch files and parameters know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.execution import Driver
    from timely_llm_ros.skills import SkillSet


class DriverFactory(Protocol):
    """Makes a driver, not yet connected, from a skill set and its own keyword options."""

    def __call__(self, skill_set: SkillSet, **options: Any) -> Driver:
        """Return a new driver."""
        ...


def _simulated(skill_set: SkillSet, **options: Any) -> Driver:
    from timely_llm_ros.drivers.simulated import SimulatedDriver

    return SimulatedDriver(skill_set, **options)


def _indy(skill_set: SkillSet, **options: Any) -> Driver:
    from timely_llm_ros.drivers.indy import IndyDriver

    return IndyDriver(skill_set, **options)


def _tello(skill_set: SkillSet, **options: Any) -> Driver:
    from timely_llm_ros.drivers.tello import TelloDriver

    return TelloDriver(skill_set, **options)


def _trajectory(skill_set: SkillSet, **options: Any) -> Driver:
    from timely_llm_ros.drivers.trajectory import TrajectoryDriver

    return TrajectoryDriver(skill_set, **options)


DRIVERS: Mapping[str, DriverFactory] = {
    'simulated': _simulated,
    'indy': _indy,
    'tello': _tello,
    'trajectory': _trajectory,
}
"""The drivers by name; a driver's module is imported when one is made."""


def create_driver(name: str, skill_set: SkillSet, **options: Any) -> Driver:
    """Return a new driver, not yet connected.

    Raises:
        ConfigurationError: There is no such driver, or it does not take an option or its value.
    """
    factory = DRIVERS.get(name)
    if factory is None:
        raise ConfigurationError(f'driver {name!r}: expected one of {", ".join(sorted(DRIVERS))}')
    try:
        return factory(skill_set, **options)
    except TypeError as err:
        raise ConfigurationError(f'driver {name!r}, options {options!r}: {err}') from err
