"""The code blocks of the pages, and the commands in them as a shell would take them apart."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
SHELL = ('', 'bash', 'console', 'sh', 'shell')
_BLOCK = re.compile(r'^```(\w*)\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_HERE = re.compile(r"<<'?(\w+)'?\n.*?^\1$", re.DOTALL | re.MULTILINE)
_ENDS = re.compile(r'^[|&;<>()]+$')


def blocks(page: Path, *languages: str) -> list[str]:
    """Return a page's code blocks in these languages."""
    found = _BLOCK.findall(page.read_text(encoding='utf-8'))
    return [text for language, text in found if language in languages]


def commands(page: Path) -> list[list[str]]:
    """Return the commands of a page's shell blocks, each as its words without variables before it.

    A block that holds no shell (a table, a file) yields what nobody looks for.
    """
    found: list[list[str]] = []
    for block in blocks(page, *SHELL):
        text = _HERE.sub('', block).replace('\\\n', ' ')
        for line in text.splitlines():
            found += _commands_of(line)
    return found


def _commands_of(line: str) -> list[list[str]]:
    # What a shell makes of "$(command)" is for this purpose its place.
    lexer = shlex.shlex(re.sub(r'\$\([^()]*\)', 'PLACE', line), posix=True, punctuation_chars=True)
    lexer.wordchars += '@%[]{}^!,$+'
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # A text with an apostrophe, so no command.
        return []
    found: list[list[str]] = [[]]
    skip = False
    for word in words:
        if skip:
            skip = False
        elif _ENDS.match(word):
            if word in ('>', '>>', '<', '2>'):
                skip = True
            else:
                found.append([])
        elif found[-1] or not re.match(r'[A-Z_]+=', word):
            found[-1].append(word)
    return [one for one in found if one]
