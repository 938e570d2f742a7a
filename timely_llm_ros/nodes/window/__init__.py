"""The window as a node: a page for whoever watches a fleet, from ROS topics alone."""

from timely_llm_ros.nodes.window.parameters import WindowParameters

__all__ = ['WindowParameters']
