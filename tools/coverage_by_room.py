"""Print a table of how many statements of each room were reached, out of ``coverage json``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def room_of(file: str) -> str:
    """Return the first folder within the package that a file belongs to, or the package."""
    return '/'.join(Path(file).parent.parts[:2])


def by_room(report: dict[str, Any]) -> str:
    """Return the table: a line for each room, the total last."""
    statements: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for file, measured in report['files'].items():
        statements[room_of(file)] += measured['summary']['num_statements']
        reached[room_of(file)] += measured['summary']['covered_lines']
    rooms = [(room, statements[room], reached[room]) for room in sorted(statements)]
    lines = [f'{"room":32}{"statements":>10}{"reached":>9}']
    for room, has, of_it in [*rooms, ('total', statements.total(), reached.total())]:
        lines.append(f'{room:32}{has:>10,}{of_it / has if has else 1:>9.1%}')
    return '\n'.join(lines)


if __name__ == '__main__':
    print(by_room(json.load(sys.stdin)))
