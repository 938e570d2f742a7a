"""What an experiment is and what it gives: tables, a picture, figures to keep, targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from benchmarks.common import Target
    from benchmarks.timelyllm.figures.runs import Runs


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text; every row has as many cells as there are headers."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What an experiment found.

    Attributes:
        tables: To be printed and put on the page.
        figures: Everything that was found, for the JSON file.
        targets: What should have been found.
        draw: Draws the picture.
        size_in: The picture's width and height (inches).
    """

    tables: tuple[Table, ...]
    figures: Any
    targets: list[Target]
    draw: Callable[[Figure], None]
    size_in: tuple[float, float] = (9.0, 4.0)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        name: ``fig5`` or the like, as TimelyLLM numbers it.
        title: What it shows, in one line.
        paper: What TimelyLLM says came out, as lines of text.
        run: Runs it.
    """

    name: str
    title: str
    paper: tuple[str, ...]
    run: Callable[[Runs], Result] = field(repr=False)
