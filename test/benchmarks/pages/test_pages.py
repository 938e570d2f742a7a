"""The pages of results say what the benchmarks' files say, and lead where they say."""

from __future__ import annotations

import importlib.util
import json
import re
from typing import Any

import jinja2
import pytest

from benchmarks.common import FOLDER as RESULTS
from benchmarks.pages import FOLDER, PAGES, render
from benchmarks.pages.overview import MEASURED_BY, headlines, missed
from benchmarks.pages.vllm import ways
from benchmarks.pages.writing import WIDTH, flow, present_command, read, table

WITHOUT_A_PAGE = {'model', 'pipeline_model'}
"""``model`` has a form of its own, ``pipeline_model`` is what a benchmark starts from."""


@pytest.mark.parametrize('name', PAGES)
def test_the_committed_page_is_what_the_writer_writes(name: str) -> None:
    committed = (FOLDER / f'{name}.md').read_text(encoding='utf-8')
    assert committed == render(name), 'run `make pages`'


def test_no_page_is_left_over_and_no_result_without_a_page() -> None:
    assert {path.stem for path in FOLDER.glob('*.md')} == set(PAGES)
    shown = {name for names in MEASURED_BY.values() for name in names}
    assert shown | WITHOUT_A_PAGE == {path.stem for path in RESULTS.glob('*.json')}


@pytest.mark.parametrize(
    ('page', 'name'), [(p, n) for p, names in MEASURED_BY.items() for n in names]
)
def test_a_page_says_how_when_and_on_what_its_figures_were_measured(page: str, name: str) -> None:
    text = ' '.join((FOLDER / f'{page}.md').read_text(encoding='utf-8').split())
    found = read(name)
    assert found.date in text
    assert found.machine in text
    assert found.command.partition(' --')[0] in text


@pytest.mark.parametrize('path', sorted(RESULTS.glob('*.json')), ids=lambda path: path.stem)
def test_the_present_command_of_every_result_starts_a_program(path: Any) -> None:
    content = json.loads(path.read_text(encoding='utf-8'))
    if 'command' in content:
        module = present_command(content['command']).split()[2]
        assert importlib.util.find_spec(module) is not None


def test_an_unknown_program_is_named() -> None:
    with pytest.raises(ValueError, match=r"'python benchmarks/tea\.py': expected a program of"):
        present_command('python benchmarks/tea.py')


def test_every_link_of_a_page_leads_somewhere() -> None:
    for path in FOLDER.glob('*.md'):
        for link in re.findall(r'\]\(([^)\s]+)\)', path.read_text(encoding='utf-8')):
            target, _, anchor = link.partition('#')
            file = (path.parent / target).resolve() if target else path
            assert file.is_file(), f'{path.name}: {link}'
            if anchor:
                assert anchor in anchors(file.read_text(encoding='utf-8')), f'{path.name}: {link}'


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r'^#+ (.+)$', text, re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-') for title in headings}


def test_the_overview_has_ten_figures_and_every_missed_target() -> None:
    assert len(list(headlines())) == 10 - 1, 'and the demo, which writes no file'
    text = (FOLDER / 'README.md').read_text(encoding='utf-8')
    kept: dict[str, bool] = {}
    for path in RESULTS.glob('*.json'):
        for target in json.loads(path.read_text(encoding='utf-8')).get('targets', []):
            # Attacks with other seeds have targets of one name.
            kept[target['name']] = kept.get(target['name'], True) and target['ok']
    for name, ok in kept.items():
        assert ok is (f'| {name} |' not in text)
    assert text.count('\n| [') == len(list(missed()))


def test_the_best_way_of_a_fleet_comes_first() -> None:
    rows = ways(read('vllm').figures['b'], 64, 1.2).splitlines()[2:]
    utility = [float(row.split('|')[3].split()[0]) for row in rows]
    assert len(utility) > 1
    assert utility == sorted(utility, reverse=True)


def test_paragraphs_are_filled_and_everything_else_is_kept() -> None:
    row = '| ' + 'cell ' * 40 + '|'
    text = flow(f'# Title\n\n\n\n{"word " * 60}\n\n{row}\n\n- item\n- item')
    assert text.startswith('# Title\n\nword')
    assert row in text
    assert text.endswith('- item\n- item')
    assert all(len(line) <= WIDTH for line in text.splitlines() if not line.startswith('|'))


def test_a_row_of_another_length_than_the_head_is_refused() -> None:
    with pytest.raises(ValueError, match='expected 2 cells'):
        table(('a', 'b'), [('only one',)])


def test_a_template_that_names_what_is_not_there_fails() -> None:
    from benchmarks.pages.catalogue import TEMPLATES

    with pytest.raises(jinja2.UndefinedError, match='nowhere'):
        TEMPLATES.from_string('{{ nowhere }}').render()
