"""The pages by name, and how one is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from benchmarks import suites
from benchmarks.pages import (
    batching,
    field,
    llm,
    model,
    operation,
    overload,
    overview,
    recorder,
    robots,
    scheduling,
    timebill,
    timelyllm,
    trail,
    vllm,
)
from benchmarks.pages.writing import flow, percent, read, table, targets

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / 'docs' / 'results'

PAGES: dict[str, Callable[[], dict[str, Any]]] = {
    'README': overview.context,
    'scheduling': scheduling.context,
    'overload': overload.context,
    'field': field.context,
    'timelyllm': timelyllm.context,
    'timebill': timebill.context,
    'trail': trail.context,
    'batching': batching.context,
    'vllm': vllm.context,
    'robots': robots.context,
    'recorder': recorder.context,
    'operation': operation.context,
    'tasks': suites.context,
    'model': model.context,
    'llm': llm.context,
}
"""What makes the tables of each page; the template of the page's name holds its prose."""

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(HERE / 'templates'),
    undefined=jinja2.StrictUndefined,
    # It writes Markdown, and of our own files alone.
    autoescape=jinja2.select_autoescape((), default_for_string=False),
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals |= {'read': read, 'table': table, 'targets': targets}
TEMPLATES.filters['percent'] = percent


def render(name: str) -> str:
    """Return a page's text."""
    text = TEMPLATES.get_template(f'{name}.md').render(PAGES[name]())
    note = f'<!-- Written by `make pages` from benchmarks/pages/templates/{name}.md. -->'
    return f'{note}\n\n{flow(text)}\n'
