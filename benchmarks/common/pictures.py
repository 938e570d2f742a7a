"""Pictures for pages, without a display."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def require_matplotlib() -> None:
    """Make sure that what is measured can be drawn, before it is measured.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    if find_spec('matplotlib') is None:
        raise ModuleNotFoundError("No module named 'matplotlib'", name='matplotlib')


def picture(path: Path, columns: int) -> tuple[Figure, Sequence[Axes]]:
    # Drawing takes 34 MB: benchmarks that measure memory do not load it.
    from matplotlib.figure import Figure

    path.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(4.5 * columns, 3.4), layout='constrained')
    return figure, np.atleast_1d(figure.subplots(1, columns)).tolist()


def finish(figure: Figure, axes: Sequence[Axes], x: str, y: Sequence[str], path: Path) -> None:
    for one, label in zip(axes, y, strict=True):
        one.set_xlabel(x)
        one.set_ylabel(label)
        one.grid(alpha=0.3)
        one.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    print(path)
