"""TRAIL: scheduling by remaining lengths."""

from benchmarks.trail.page import trail_tables

__all__ = [
    'trail_tables',
]
