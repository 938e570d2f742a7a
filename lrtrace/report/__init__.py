"""The HTML report of one or more runs, which opens offline."""

from lrtrace.report.page import write_report
from lrtrace.report.text import seconds

__all__ = [
    'seconds', 'write_report',
]  # fmt: skip
