"""Workloads, and what serving them on virtual time gives."""

from timely_llm_ros.evaluation.chats import (
    CHAT_HARDWARE,
    GROUP,
    Chat,
    ChatSpec,
    chat_task,
    compose_chats,
)
from timely_llm_ros.evaluation.experiment import (
    NETWORK_S,
    TIMED,
    ServedTask,
    System,
    check_all_succeeded,
    plan_tokens,
    run_workload,
)
from timely_llm_ros.evaluation.paper_tasks import PROFILES
from timely_llm_ros.evaluation.recorded_workload import (
    RecordedSpec,
    compose_recorded,
    task_pool,
)
from timely_llm_ros.evaluation.workload import (
    WORKLOADS,
    SegmentShape,
    Workload,
    WorkloadSpec,
    WorkloadTask,
    compose,
    fleet_spec,
)
from timely_llm_ros.evaluation.workload_file import dumps, read_workload, write_workload

__all__ = [
    'CHAT_HARDWARE',
    'GROUP',
    'NETWORK_S',
    'PROFILES',
    'TIMED',
    'WORKLOADS',
    'Chat',
    'ChatSpec',
    'RecordedSpec',
    'SegmentShape',
    'ServedTask',
    'System',
    'Workload',
    'WorkloadSpec',
    'WorkloadTask',
    'chat_task',
    'check_all_succeeded',
    'compose',
    'compose_chats',
    'compose_recorded',
    'dumps',
    'fleet_spec',
    'plan_tokens',
    'read_workload',
    'run_workload',
    'task_pool',
    'write_workload',
]
