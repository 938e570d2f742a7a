"""Turns the records of one or more runs into one HTML file that opens offline."""

from lrtrace.report.page import render_report, write_report

__all__ = ['render_report', 'write_report']
