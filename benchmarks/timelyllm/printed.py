"""Figures that TimelyLLM's tables print."""

from __future__ import annotations

PAPER_US = {1: 580.0, 2: 830.0, 4: 1250.0, 6: 1580.0, 8: 2030.0}
"""Table 5: what choosing takes (us), by the number of tasks that wait; on a Ryzen 7950x."""

PAPER_MS = (13.7, 24.1, 19.9, 19.9, 16.0, 13.1, 14.4, 14.8)
"""Table 4: what segmentation takes (ms), by the kind of task, from 1 on."""

PAPER_PERCENT = (3.0, 2.6, 5.6, 2.8, 3.2, 3.7, 4.1, 4.2)
"""Table 4: the same as a share of the plan's time (%)."""
