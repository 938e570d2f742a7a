"""TimelyLLM: scheduling and segments."""

from benchmarks.timelyllm.contention import paper_cost_s
from benchmarks.timelyllm.printed import PAPER_MS, PAPER_PERCENT, PAPER_US
from benchmarks.timelyllm.reference import tolerance

__all__ = [
    'PAPER_MS', 'PAPER_PERCENT', 'PAPER_US', 'paper_cost_s', 'tolerance',
]  # fmt: skip
