"""The planner node: tasks in, segments out, over ROS."""

from timely_llm_ros.nodes.planner.catalogue import Catalogue
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.nodes.planner.robot_scenes import RobotScenes
from timely_llm_ros.nodes.planner.topics import PlannerTopics

__all__ = ['Catalogue', 'PlannerParameters', 'PlannerTopics', 'RobotScenes']
