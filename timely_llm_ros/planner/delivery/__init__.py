"""A task's segments on their way to its robot and on it, and the times that follow from them."""

from timely_llm_ros.planner.delivery.delivery import Delivery
from timely_llm_ros.planner.delivery.timeline import Timeline

__all__ = [
    'Delivery', 'Timeline',
]  # fmt: skip
