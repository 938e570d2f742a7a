"""What the pages say of the tree is true: files, modules, links and imports lead somewhere."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob('*.md'), *(ROOT / 'docs').rglob('*.md'), *(ROOT / 'datasets').rglob('*.md')]
)
BASES = ('', 'timely_llm_ros', 'lrtrace')
_PATH = re.compile(r'`([\w.-]+/[\w./-]*\.(?:py|yaml|json|md|txt|toml))`')
_MODULE = re.compile(r'(?:python -m |`)((?:timely_llm_ros|lrtrace|benchmarks)(?:\.[a-z_]+)+)')
_LINK = re.compile(r'\]\(([^)#:]+)(?:#[^)]*)?\)')
_ANCHOR = re.compile(r'\]\(((?:[^)#:]+\.md)?)#([^)]+)\)')
_BLOCK = re.compile(r'^ *```.*?^ *```$', re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r'```python\n(.*?)```', re.DOTALL)
OWN = {'timely_llm_ros', 'lrtrace', 'benchmarks'}
GENERATED = {'msg', 'action', 'srv'}


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding='utf-8')
    named = [
        name
        for name in _PATH.findall(text)
        if not name.startswith(('my_', 'demo_output/', 'build/', 'runs/'))
    ]
    missing = [n for n in named if not any((ROOT / base / n).exists() for base in BASES)]
    assert not missing


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    for name in _MODULE.findall(page.read_text(encoding='utf-8')):
        parts = name.split('.')
        places = [ROOT.joinpath(*parts[:length]) for length in range(len(parts), 1, -1)]
        assert any(p.is_dir() or p.with_suffix('.py').is_file() for p in places), name


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = _LINK.findall(page.read_text(encoding='utf-8'))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_pages_lead_to_a_heading(page: Path) -> None:
    missing = [
        f'{link}#{anchor}'
        for link, anchor in _ANCHOR.findall(page.read_text(encoding='utf-8'))
        if anchor not in anchors_of(page.parent / link if link else page)
    ]
    assert not missing


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as repositories and the site make them."""
    text = _BLOCK.sub('', page.read_text(encoding='utf-8'))
    headings = re.findall(r'^#+ (.*)$', text, re.MULTILINE)
    return {re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-') for heading in headings}


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paragraphs_and_blocks_in_lists_are_indented_as_the_site_reads_them(page: Path) -> None:
    """By four spaces: with fewer, the site takes a list to have ended."""
    text = _BLOCK.sub('', page.read_text(encoding='utf-8'))
    found = re.findall(r'(?:\A|\n\n)( +)\S', text)
    assert [space for space in found if len(space) % 4] == []


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_that_programs_on_a_page_import_are_there(page: Path) -> None:
    for block in _PROGRAM.findall(page.read_text(encoding='utf-8')):
        for node in ast.walk(ast.parse(textwrap.dedent(block))):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            parts = node.module.split('.')
            if parts[0] not in OWN or GENERATED & set(parts):
                continue
            module = importlib.import_module(node.module)
            assert [a.name for a in node.names if not hasattr(module, a.name)] == [], node.module
