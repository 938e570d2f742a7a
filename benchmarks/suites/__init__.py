"""Tasks of others: whether their right plans survive our way, and what serving them costs."""

from benchmarks.suites.load import OURS, best_of
from benchmarks.suites.page import context

__all__ = ['OURS', 'best_of', 'context']
