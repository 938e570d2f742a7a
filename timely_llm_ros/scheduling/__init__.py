"""Which generation the engine serves next: the table, the policies, admission, the scheduler."""

from timely_llm_ros.scheduling.admission import BatchLimit, PrintedBatchLimit, StepTimes
from timely_llm_ros.scheduling.costs import ProfiledCosts, SegmentCosts
from timely_llm_ros.scheduling.generation import GenerationTable, Phase, TableView
from timely_llm_ros.scheduling.options import Admission, SchedulingOptions
from timely_llm_ros.scheduling.policies import POLICIES, Policy, find_policy
from timely_llm_ros.scheduling.scheduler import Scheduler, ServingMode

__all__ = [
    'POLICIES',
    'Admission',
    'BatchLimit',
    'GenerationTable',
    'Phase',
    'Policy',
    'PrintedBatchLimit',
    'ProfiledCosts',
    'Scheduler',
    'SchedulingOptions',
    'SegmentCosts',
    'ServingMode',
    'StepTimes',
    'TableView',
    'find_policy',
]
