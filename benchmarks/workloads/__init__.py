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
from benchmarks.workloads.workload_file import read_workload, write_workload

__all__ = [
    'CHAT_HARDWARE', 'GROUP', 'NETWORK_S', 'PROFILES', 'TIMED', 'WORKLOADS', 'Chat', 'ChatSpec',
    'ServedTask', 'System', 'WorkloadSpec', 'chat_task', 'check_all_succeeded', 'compose',
    'compose_chats', 'fleet_spec', 'plan_tokens', 'read_workload', 'run_workload', 'serve_workload',
    'write_workload',
]  # fmt: skip
