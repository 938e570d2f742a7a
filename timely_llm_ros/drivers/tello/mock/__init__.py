"""A Tello that exists on the network only."""

from timely_llm_ros.drivers.tello.mock.airframe import Airframe
from timely_llm_ros.drivers.tello.mock.body import SETTLE_S, TURN_DEG_S, TelloBody
from timely_llm_ros.drivers.tello.mock.link import Link
from timely_llm_ros.drivers.tello.mock.pose import Phase, Pose
from timely_llm_ros.drivers.tello.mock.server import MockTello

__all__ = [
    'SETTLE_S', 'TURN_DEG_S', 'Airframe', 'Link', 'MockTello', 'Phase', 'Pose', 'TelloBody',
]  # fmt: skip
