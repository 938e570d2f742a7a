"""Drivers: what makes one kind of robot do skills."""

from timely_llm_ros.drivers.journal import Journal, read_journal
from timely_llm_ros.drivers.registry import (
    DRIVERS,
    DriverOptions,
    PluginOptions,
    create_driver,
    driver_names,
    read_options,
)
from timely_llm_ros.drivers.simulated import SimulatedDriver, SimulatedOptions

__all__ = [
    'DRIVERS', 'DriverOptions', 'Journal', 'PluginOptions', 'SimulatedDriver', 'SimulatedOptions',
    'create_driver', 'driver_names', 'read_journal', 'read_options',
]  # fmt: skip
