"""TimelyLLM: scheduling and segments."""

from benchmarks.timelyllm.comparison import (
    LOOKAHEAD,
    PAPER,
    Summary,
    mean,
    paper_cost_s,
    summarise,
)
from benchmarks.timelyllm.printed import PAPER_MS, PAPER_PERCENT, PAPER_US
from benchmarks.timelyllm.reference import tolerance

__all__ = [
    'LOOKAHEAD', 'PAPER', 'PAPER_MS', 'PAPER_PERCENT', 'PAPER_US', 'Summary', 'mean',
    'paper_cost_s', 'summarise', 'tolerance',
]  # fmt: skip
