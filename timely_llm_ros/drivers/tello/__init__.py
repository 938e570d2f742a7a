"""The driver of DJI Tello drones."""

from timely_llm_ros.drivers.tello.driver import TelloDriver
from timely_llm_ros.drivers.tello.options import TelloOptions
from timely_llm_ros.drivers.tello.skills import Flight, tello_skills
from timely_llm_ros.drivers.tello.wire import COMMAND_GAP_S

__all__ = [
    'COMMAND_GAP_S', 'Flight', 'TelloDriver', 'TelloOptions', 'tello_skills',
]  # fmt: skip
