"""The HTML report of one or more runs, which opens offline."""

from lrtrace.report.page import render_report, write_report
from lrtrace.report.text import seconds

__all__ = [
    'render_report', 'seconds', 'write_report',
]  # fmt: skip
