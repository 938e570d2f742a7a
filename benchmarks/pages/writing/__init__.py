"""What all pages are written with: results as they were left, and Markdown."""

from benchmarks.pages.writing.markdown import WIDTH, flow, percent, table, targets
from benchmarks.pages.writing.recorded import (
    Recorded,
    Verdict,
    described,
    present_command,
    read,
)

__all__ = [
    'WIDTH', 'Recorded', 'Verdict', 'described', 'flow', 'percent', 'present_command',
    'read', 'table', 'targets',
]  # fmt: skip
