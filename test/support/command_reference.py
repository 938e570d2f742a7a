"""What a parser offers against what the reference of the command line says of it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[2] / 'docs/reference/command_line.md'


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a parser's commands by name."""
    (found,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found.choices)


def undocumented(parser: argparse.ArgumentParser) -> list[str]:
    """Return the commands without a section of their own, and the options that it leaves out."""
    sections = re.split(r'(?m)^## ', REFERENCE.read_text(encoding='utf-8'))[1:]
    missing = []
    for name, command in commands(parser).items():
        title = f'`{parser.prog} {name}`'
        section = next((text for text in sections if title in text.partition('\n')[0]), '')
        if not section:
            missing.append(title)
        documented = set(re.findall(r'--[a-z][a-z-]*', section))
        options = {option for action in command._actions for option in action.option_strings}
        missing += [
            f'{title}: {option}'
            for option in sorted(options - documented)
            if option.startswith('--') and option != '--help'
        ]
    return missing
