"""What a task can be expected to earn, and what others would earn in its place."""

from timely_llm_ros.planner.worth.admission_state import AdmissionState, KindState
from timely_llm_ros.planner.worth.costs import Kind, PlanCosts
from timely_llm_ros.planner.worth.expectation import Expectation, Expectations
from timely_llm_ros.planner.worth.price import Prices, fair_shares
from timely_llm_ros.planner.worth.robot_choice import RobotOutlook, choose_robot
from timely_llm_ros.planner.worth.robot_price import RobotPrices

__all__ = [
    'AdmissionState',
    'Expectation',
    'Expectations',
    'Kind',
    'KindState',
    'PlanCosts',
    'Prices',
    'RobotOutlook',
    'RobotPrices',
    'choose_robot',
    'fair_shares',
]
