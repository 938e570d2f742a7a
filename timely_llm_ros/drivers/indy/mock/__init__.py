"""An Indy arm that exists on the network only."""

from timely_llm_ros.drivers.indy.mock.arm import MockIndy
from timely_llm_ros.drivers.indy.mock.body import HOME_POSE, MM_PER_S, RAMP_S, START_S
from timely_llm_ros.drivers.indy.mock.motion import Profile

__all__ = [
    'HOME_POSE', 'MM_PER_S', 'RAMP_S', 'START_S', 'MockIndy', 'Profile',
]  # fmt: skip
