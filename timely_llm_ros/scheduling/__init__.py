"""Which generation the engine serves next: the table, the policies, admission, the scheduler."""

from timely_llm_ros.scheduling.admission import StepTimes
from timely_llm_ros.scheduling.bin_boundaries import (
    check_batch,
    check_bins,
    equal_mass_boundaries,
    exponential_boundaries,
    exponential_factor,
    harmonic,
    mean_service,
    optimal_boundaries,
)
from timely_llm_ros.scheduling.costs import SegmentCosts
from timely_llm_ros.scheduling.generation import GenerationTable, Phase
from timely_llm_ros.scheduling.microbatch import (
    LinearCosts,
    PipelineCosts,
    best_count,
    first_token_s,
    least_gap_count,
    sure_count,
)
from timely_llm_ros.scheduling.microbatch_deadline import count_in_time, prefill_first_token_s
from timely_llm_ros.scheduling.multibin import MultiBinQueue
from timely_llm_ros.scheduling.options import (
    AGE_BOUND_S,
    BACKGROUND_BATCH,
    BACKGROUND_CHUNK,
    BACKGROUND_STEP_S,
    Admission,
    SchedulingOptions,
)
from timely_llm_ros.scheduling.pipeline_times import PipelineTimes
from timely_llm_ros.scheduling.policies import POLICIES, find_policy
from timely_llm_ros.scheduling.scheduler import ServingMode
from timely_llm_ros.scheduling.token_budget import Budget, TokenBudget

__all__ = [
    'AGE_BOUND_S', 'BACKGROUND_BATCH', 'BACKGROUND_CHUNK', 'BACKGROUND_STEP_S', 'POLICIES',
    'Admission', 'Budget', 'GenerationTable', 'LinearCosts', 'MultiBinQueue', 'Phase',
    'PipelineCosts', 'PipelineTimes', 'SchedulingOptions', 'SegmentCosts', 'ServingMode',
    'StepTimes', 'TokenBudget', 'best_count', 'check_batch', 'check_bins', 'count_in_time',
    'equal_mass_boundaries', 'exponential_boundaries', 'exponential_factor', 'find_policy',
    'first_token_s', 'harmonic', 'least_gap_count', 'mean_service', 'optimal_boundaries',
    'prefill_first_token_s', 'sure_count',
]  # fmt: skip
