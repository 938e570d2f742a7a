"""A Tello that exists on the network only."""

from timely_llm_ros.drivers.tello.mock.body import SETTLE_S, TURN_DEG_S
from timely_llm_ros.drivers.tello.mock.link import Link
from timely_llm_ros.drivers.tello.mock.server import MockTello

__all__ = [
    'SETTLE_S', 'TURN_DEG_S', 'Link', 'MockTello',
]  # fmt: skip
