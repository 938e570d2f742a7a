"""Draws a recorded run and its replays: response times, and what they were worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, TraceError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lrtrace.run import Run

_NO_MATPLOTLIB = (
    'a figure needs the Python package matplotlib, which is not installed: '
    'expected it (pip install matplotlib), or --html for a page without it'
)


def require_matplotlib() -> None:
    """Make sure that figures can be drawn, before hours of tasks are replayed for them.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as err:
        raise ConfigurationError(_NO_MATPLOTLIB) from err


def draw(runs: Sequence[Run], plan_ids: Collection[str], path: str | Path) -> Path:
    """Draw each run's share of responses by time and its mean utility as a PNG; return its path.

    The recorded run comes first in ``runs``; ``plan_ids`` says which tasks are compared.

    Raises:
        ConfigurationError: matplotlib is not installed.
        TraceError: The file cannot be written.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    path = Path(path)
    figure = Figure(figsize=(9.0, 3.4), layout='constrained')
    responses, utilities = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        tasks = [task for task in run.tasks if task.plan_id in plan_ids]
        times_s = sorted(task.response_s for task in tasks if task.response_s is not None)
        # Who never started keeps the curve below 1.
        shares = [(place + 1) / len(tasks) for place in range(len(times_s))]
        style = {'color': 'black', 'linewidth': 2.0} if number == 0 else {}
        responses.step(times_s, shares, where='post', label=run.label, **style)
        mean = sum(task.utility for task in tasks) / len(tasks)
        utilities.barh(number, mean, color='black' if number == 0 else f'C{number - 1}')
        utilities.text(mean, number, f' {mean:.3f}', va='center', fontsize=8)
    responses.set(xlabel='response time (s)', ylabel='share of tasks', ylim=(0, 1.02))
    responses.set_xlim(left=0)
    responses.grid(alpha=0.3)
    responses.legend(fontsize=8, loc='lower right')
    utilities.set(xlabel='mean utility')
    utilities.set_yticks(range(len(runs)), [run.label for run in runs], fontsize=8)
    utilities.invert_yaxis()
    utilities.margins(x=0.15)
    utilities.grid(alpha=0.3, axis='x')
    try:
        # No date and no version in it: equal runs give equal files.
        figure.savefig(path, dpi=110, format='png', metadata={'Software': None})
    except OSError as err:
        raise TraceError(f'figure {str(path)!r}: cannot be written: {err.strerror}') from err
    return path
