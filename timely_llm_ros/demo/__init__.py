"""The demo: a simulated fleet, planned twice by a real model over real ROS 2."""

from timely_llm_ros.demo.fleet_demo import run_demo
from timely_llm_ros.demo.options import FLEETS, PACE_S, DemoOptions
from timely_llm_ros.demo.processes import Child, Children, find_program, node_command
from timely_llm_ros.demo.workload import Robot, TimedTask, make_rooms, make_workload

__all__ = [
    'FLEETS', 'PACE_S', 'Child', 'Children', 'DemoOptions', 'Robot', 'TimedTask', 'find_program',
    'make_rooms', 'make_workload', 'node_command', 'run_demo',
]  # fmt: skip
