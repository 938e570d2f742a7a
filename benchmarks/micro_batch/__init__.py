"""Dynamic token budgets and micro-batches of a pipeline; the background lane."""

from benchmarks.micro_batch.page import MACHINE, PAGE, flow, put, read, table, targets

__all__ = [
    'MACHINE',
    'PAGE',
    'flow',
    'put',
    'read',
    'table',
    'targets',
]
