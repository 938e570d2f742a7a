"""The workloads of the papers, and what serving one on virtual time gives."""

from benchmarks.workloads.chats import (
    CHAT_HARDWARE,
    GROUP,
    Chat,
    ChatSpec,
    chat_task,
    compose_chats,
)
from benchmarks.workloads.composition import WORKLOADS, WorkloadSpec, compose, fleet_spec
from benchmarks.workloads.experiment import (
    NETWORK_S,
    TIMED,
    ServedTask,
    System,
    check_all_succeeded,
    plan_tokens,
    run_workload,
    serve_workload,
)
from benchmarks.workloads.paper_tasks import PROFILES
from benchmarks.workloads.plans_of_others import (
    EVENTS_PER_TASK,
    ROBOTS,
    Shape,
    compose_of_others,
    describe_plans,
    shape_of,
    shapes_of_others,
)
from benchmarks.workloads.workload_file import read_workload, write_workload

__all__ = [
    'CHAT_HARDWARE', 'EVENTS_PER_TASK', 'GROUP', 'NETWORK_S', 'PROFILES', 'ROBOTS', 'TIMED',
    'WORKLOADS', 'Chat', 'ChatSpec', 'ServedTask', 'Shape', 'System', 'WorkloadSpec', 'chat_task',
    'check_all_succeeded', 'compose', 'compose_chats', 'compose_of_others', 'describe_plans',
    'fleet_spec', 'plan_tokens', 'read_workload', 'run_workload', 'serve_workload', 'shape_of',
    'shapes_of_others', 'write_workload',
]  # fmt: skip
