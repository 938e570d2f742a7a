"""The engine ``simulated``: plans that are given, at the pace of modelled hardware."""

from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.simulated.step_time import (
    HARDWARE,
    Hardware,
    StepTimeModel,
    StepWork,
    find_hardware,
)

__all__ = [
    'HARDWARE', 'Hardware', 'SimulatedConfig', 'SimulatedEngine', 'StepTimeModel', 'StepWork',
    'find_hardware',
]  # fmt: skip
