"""The executor node: one program that moves robots."""

from timely_llm_ros.nodes.executor.metrics import executor_samples
from timely_llm_ros.nodes.executor.parameters import ExecutorParameters
from timely_llm_ros.nodes.executor.robot_body import RobotBody, SharedBodies

__all__ = [
    'ExecutorParameters', 'RobotBody', 'SharedBodies', 'executor_samples',
]  # fmt: skip
