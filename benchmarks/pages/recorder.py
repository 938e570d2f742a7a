"""What the page on the recorder, the report and replays names."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.writing import read


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {
        'flood': read('recorder').figures,
        'kills': read('recorder_kills').figures,
        'report': read('report').figures,
        'replay': read('replay').figures,
    }
