"""TimelyLLM's experiments, one module per figure."""

from benchmarks.timelyllm.figures.catalogue import EXPERIMENTS
from benchmarks.timelyllm.figures.page import draw, print_tables, write_page
from benchmarks.timelyllm.figures.runs import Runs

__all__ = [
    'EXPERIMENTS', 'Runs', 'draw', 'print_tables', 'write_page',
]  # fmt: skip
