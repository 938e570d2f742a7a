"""What a task can be expected to earn, and what others would earn in its place."""

from timely_llm_ros.planner.worth.admission_state import AdmissionState, KindState
from timely_llm_ros.planner.worth.costs import PlanCosts
from timely_llm_ros.planner.worth.expectation import Expectation, Expectations
from timely_llm_ros.planner.worth.price import Prices, fair_shares

__all__ = [
    'AdmissionState',
    'Expectation',
    'Expectations',
    'KindState',
    'PlanCosts',
    'Prices',
    'fair_shares',
]
