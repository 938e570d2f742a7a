"""Code blocks of the pages are right: commands parse, programs compile, files load."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support.code_blocks import PAGES, ROOT, blocks, commands

from lrtrace.cli.main import build_parser as traces_parser
from lrtrace.record.recorder_parameters import RecorderParameters
from timely_llm_ros.cli.main import build_parser
from timely_llm_ros.cli.operation.fleet_file import parse_fleet
from timely_llm_ros.nodes.tools.parameters_page import NODES
from timely_llm_ros.ros.parameters import check
from timely_llm_ros.skills.loading import parse_skill_set

if TYPE_CHECKING:
    import argparse

PARAMETERS = {**NODES, 'recorder': RecorderParameters}
TARGETS = set(re.search(r'^\.PHONY: (.*) \$', (ROOT / 'Makefile').read_text(), re.M)[1].split())  # type: ignore[index]
VARIABLES = set(re.findall(r"^\t@echo '([A-Z_]+)=", (ROOT / 'Makefile').read_text(), re.MULTILINE))
BENCHES = {path.stem for path in (ROOT / 'benchmarks').glob('*/*.py')}
each_page = pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def refusal(parser: argparse.ArgumentParser, words: list[str]) -> str:
    """Return what a parser says against a command; nothing if it takes it."""
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        try:
            parser.parse_args(words)
        except SystemExit as error:
            return told.getvalue() if error.code else ''
    return ''


@pytest.fixture(scope='module')
def parsers() -> dict[str, argparse.ArgumentParser]:
    return {'timely-llm': build_parser(), 'lrtrace': traces_parser()}


@each_page
def test_commands_of_ours_are_taken_by_their_parsers(
    page: Path, parsers: dict[str, argparse.ArgumentParser]
) -> None:
    wrong = []
    for program, *words in commands(page):
        parser = parsers.get(Path(program).name)
        if parser is not None and '...' not in words and (said := refusal(parser, words)):
            wrong.append((words, said))
    assert wrong == []


@each_page
def test_targets_of_make_are_there(page: Path) -> None:
    for program, *words in commands(page):
        if program != 'make':
            continue
        for word in words:
            name, is_variable, _ = word.partition('=')
            if is_variable:
                assert name in VARIABLES, word
            elif name.startswith('bench-'):
                assert name.removeprefix('bench-') in BENCHES, word
            else:
                assert name in TARGETS, word


@each_page
def test_parameters_that_a_node_is_given_are_there_and_fit(page: Path) -> None:
    for program, *words in commands(page):
        record = PARAMETERS.get(Path(program).name)
        if record is None or '--ros-args' not in words:
            continue
        for flag, given in itertools.pairwise(words):
            if flag == '-p':
                name, _, value = given.partition(':=')
                content = yaml.safe_load(value)
                check(record, name, tuple(content) if isinstance(content, list) else content)


@each_page
def test_programs_compile(page: Path) -> None:
    for block in blocks(page, 'python'):
        ast.parse(textwrap.dedent(block))


@each_page
def test_files_in_yaml_load(page: Path) -> None:
    for block in blocks(page, 'yaml'):
        content = yaml.safe_load(block)
        if 'safe_action' in content:
            parse_skill_set(block, str(page))
        elif isinstance(content.get('robots'), dict):
            parse_fleet(content, str(page))


def test_what_is_wrong_is_found(
    tmp_path: Path, parsers: dict[str, argparse.ArgumentParser]
) -> None:
    page = tmp_path / 'page.md'
    page.write_text('```\nA=1 timely-llm demo --robotos 3 > log && make fly\n```\n')
    (first, second) = commands(page)
    assert second == ['make', 'fly']
    assert '--robotos' in refusal(parsers['timely-llm'], first[1:])
