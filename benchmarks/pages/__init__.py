"""Writes the pages of results, ``docs/results``, from ``benchmarks/results`` and templates."""

from benchmarks.pages.catalogue import FOLDER, PAGES, render

__all__ = [
    'FOLDER', 'PAGES', 'render',
]  # fmt: skip
