"""Workloads made of recorded traces; what if their tasks had been served otherwise."""

from timely_llm_ros.evaluation.recorded_workload import RecordedSpec, compose_recorded, task_pool
from timely_llm_ros.evaluation.workload import (
    FORMAT,
    MAX_TASKS,
    VERSION,
    SegmentShape,
    Workload,
    WorkloadTask,
    dumps,
)

__all__ = [
    'FORMAT', 'MAX_TASKS', 'VERSION', 'RecordedSpec', 'SegmentShape', 'Workload', 'WorkloadTask',
    'compose_recorded', 'dumps', 'task_pool',
]  # fmt: skip
