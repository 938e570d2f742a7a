"""The command line ``lrtrace``."""

from lrtrace.cli.main import main

__all__ = [
    'main',
]
