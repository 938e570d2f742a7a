"""What a node needs that watches a whole fleet, or halts it."""

from timely_llm_ros.nodes.fleet.halt import FleetHalt
from timely_llm_ros.nodes.fleet.view import FleetView

__all__ = ['FleetHalt', 'FleetView']
