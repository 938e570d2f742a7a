"""TimelyLLM: scheduling and segments."""

from benchmarks.timelyllm.comparison import LOOKAHEAD, PAPER, Summary, mean, summarise
from benchmarks.timelyllm.contention import paper_cost_s
from benchmarks.timelyllm.printed import PAPER_MS, PAPER_PERCENT, PAPER_US
from benchmarks.timelyllm.reference import tolerance

__all__ = [
    'LOOKAHEAD', 'PAPER', 'PAPER_MS', 'PAPER_PERCENT', 'PAPER_US', 'Summary', 'mean',
    'paper_cost_s', 'summarise', 'tolerance',
]  # fmt: skip
