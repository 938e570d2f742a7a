"""TRAIL: scheduling by remaining lengths."""

import os

# Before numpy, which reads it as it is imported.
os.environ.setdefault('OMP_NUM_THREADS', '1')

from benchmarks.trail.distributions import left_at_most, middle, running
from benchmarks.trail.replay import PACE_S, Replayed, Spoken, Way, draw_plans, serve
from benchmarks.trail.smoothing import smoothed

__all__ = [
    'PACE_S', 'Replayed', 'Spoken', 'Way', 'draw_plans', 'left_at_most', 'middle', 'running',
    'serve', 'smoothed',
]  # fmt: skip
