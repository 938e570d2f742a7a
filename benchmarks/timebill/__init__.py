"""TimeBill: time budgets and predicted lengths."""

from benchmarks.timebill.jobs import make_jobs

__all__ = [
    'make_jobs',
]
