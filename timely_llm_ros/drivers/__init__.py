"""Drivers, and what runs segments on them."""

from __future__ import annotations

from timely_llm_ros.drivers.driver import CallValue, Driver
from timely_llm_ros.drivers.guard import Guard, run_guarded
from timely_llm_ros.drivers.interpreter import ExecutorState, SegmentExecutor
from timely_llm_ros.drivers.link import RobotLink, SegmentCode, SegmentOutcome, SegmentProgress
from timely_llm_ros.drivers.local import LocalRobotLink
from timely_llm_ros.drivers.registry import DRIVERS, create_driver
from timely_llm_ros.drivers.simulated import SimulatedDriver

__all__ = [
    'DRIVERS',
    'CallValue',
    'Driver',
    'ExecutorState',
    'Guard',
    'LocalRobotLink',
    'RobotLink',
    'SegmentCode',
    'SegmentExecutor',
    'SegmentOutcome',
    'SegmentProgress',
    'SimulatedDriver',
    'create_driver',
    'run_guarded',
]
