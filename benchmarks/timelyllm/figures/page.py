"""Shows a result: tables on the screen, a PNG, and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich import box
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from benchmarks.timelyllm.figures.experiment import Experiment, Result, Table

STYLE = """
body {font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em}
table {border-collapse: collapse; margin: 1em 0} caption {text-align: left; font-weight: 600}
td, th {padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right}
td:first-child, th:first-child {text-align: left} img {max-width: 100%} .no {color: #b03030}
"""


def print_tables(console: Console, result: Result) -> None:
    """Print the tables."""
    for table in result.tables:
        shown = RichTable(title=table.title, box=box.SIMPLE_HEAD, title_justify='left')
        for number, header in enumerate(table.headers):
            shown.add_column(header, justify='right' if number else 'left')
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def draw(result: Result, path: Path) -> None:
    """Write the picture as PNG."""
    figure = Figure(figsize=result.size_in, dpi=110)
    FigureCanvasAgg(figure)
    result.draw(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def write_page(
    experiment: Experiment, result: Result, *, picture: Path, path: Path, facts: str
) -> None:
    """Write the page; ``facts`` says how, when and where it was made."""
    image = base64.b64encode(picture.read_bytes()).decode()
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(experiment.title)}'
        f'</title><style>{STYLE}</style>',
        f'<h1>{escape(experiment.title)}</h1><p>{escape(facts)}</p>',
        f'<img alt="{escape(experiment.title)}" src="data:image/png;base64,{image}">',
        *map(_table, result.tables),
        '<h2>What TimelyLLM says</h2><ul>',
        *(f'<li>{escape(line)}</li>' for line in experiment.paper),
        '</ul><h2>Targets</h2><ul>',
    ]
    for target in result.targets:
        verdict = 'met' if target.ok else '<span class="no">missed</span>'
        line = f'{target.name}: {target.value:.4g} ({target.relation} {target.bound:g})'
        parts.append(f'<li>{escape(line)}: {verdict}</li>')
    parts.append('</ul></html>\n')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(parts), encoding='utf-8')


def _table(table: Table) -> str:
    head = ''.join(f'<th>{escape(header)}</th>' for header in table.headers)
    rows = ''.join(
        '<tr>' + ''.join(f'<td>{escape(cell)}</td>' for cell in row) + '</tr>' for row in table.rows
    )
    return f'<table><caption>{escape(table.title)}</caption><tr>{head}</tr>{rows}</table>'
