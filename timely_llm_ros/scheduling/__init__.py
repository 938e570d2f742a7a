"""Which generation the engine serves next: the table, the policies, admission, the scheduler."""

from timely_llm_ros.scheduling.admission import StepTimes
from timely_llm_ros.scheduling.bin_boundaries import (
    check_batch,
    check_bins,
    equal_mass_boundaries,
    exponential_boundaries,
    exponential_factor,
    harmonic,
    optimal_boundaries,
)
from timely_llm_ros.scheduling.costs import SegmentCosts
from timely_llm_ros.scheduling.generation import GenerationRow, GenerationTable, Phase, TableView
from timely_llm_ros.scheduling.kv_choice import drop_order
from timely_llm_ros.scheduling.microbatch import LinearCosts, PipelineModel
from timely_llm_ros.scheduling.multibin import MultiBinQueue
from timely_llm_ros.scheduling.options import Admission, SchedulingOptions
from timely_llm_ros.scheduling.pipeline_times import PipelineTimes
from timely_llm_ros.scheduling.policies import POLICIES, Policy, find_policy, policy_names
from timely_llm_ros.scheduling.scheduler import Scheduler, ServingMode
from timely_llm_ros.scheduling.token_budget import Budget, TokenBudget

__all__ = [
    'POLICIES', 'Admission', 'Budget', 'GenerationRow', 'GenerationTable', 'LinearCosts',
    'MultiBinQueue', 'Phase', 'PipelineModel', 'PipelineTimes', 'Policy', 'Scheduler',
    'SchedulingOptions', 'SegmentCosts', 'ServingMode', 'StepTimes', 'TableView', 'TokenBudget',
    'check_batch', 'check_bins', 'drop_order', 'equal_mass_boundaries', 'exponential_boundaries',
    'exponential_factor', 'find_policy', 'harmonic', 'optimal_boundaries', 'policy_names',
]  # fmt: skip
