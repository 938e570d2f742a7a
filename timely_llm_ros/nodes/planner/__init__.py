"""The planner node: tasks in, segments out, over ROS."""

from timely_llm_ros.nodes.planner.catalogue import Catalogue
from timely_llm_ros.nodes.planner.metrics import planner_samples
from timely_llm_ros.nodes.planner.node import PlannerNode
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.nodes.planner.response_times import ResponseTimes
from timely_llm_ros.nodes.planner.robot_scenes import RobotScenes
from timely_llm_ros.nodes.planner.topics import PlannerTopics

__all__ = [
    'Catalogue', 'PlannerNode', 'PlannerParameters', 'PlannerTopics', 'ResponseTimes',
    'RobotScenes', 'planner_samples',
]  # fmt: skip
