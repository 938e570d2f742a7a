"""Drivers: what makes one kind of robot do skills."""

from timely_llm_ros.drivers.journal import Journal
from timely_llm_ros.drivers.registry import DRIVERS, create_driver
from timely_llm_ros.drivers.simulated import SimulatedDriver

__all__ = [
    'DRIVERS',
    'Journal',
    'SimulatedDriver',
    'create_driver',
]
