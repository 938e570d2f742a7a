"""What an engine does where robots leave it time: lost KV, background, scenes, values ahead."""

from timely_llm_ros.engines.core.lanes.lost_kv import LostKv
from timely_llm_ros.engines.core.lanes.two_lanes import LanedCore

__all__ = ['LanedCore', 'LostKv']
