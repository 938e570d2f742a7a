"""TimelyLLM: scheduling and segments."""

from benchmarks.timelyllm.contention import paper_cost_s

__all__ = [
    'paper_cost_s',
]
