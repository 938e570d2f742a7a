"""Robots: safety after faults, models of durations."""
