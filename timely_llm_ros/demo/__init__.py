"""The demo: a simulated fleet, planned twice by a real model over real ROS 2."""

__all__: list[str] = []
