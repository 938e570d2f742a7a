"""Where every benchmark puts its figures: a table on the screen and a JSON file to keep.

The file has ``name``, ``date`` (UTC), ``machine``, ``command``, ``figures`` (what was measured)
and ``targets``: a list of ``{name, value, target, ok}``.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).resolve().parents[1] / 'results'


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and what it should be."""

    name: str
    value: float
    relation: Literal['<=', '>=']
    bound: float

    @property
    def ok(self) -> bool:
        return self.value <= self.bound if self.relation == '<=' else self.value >= self.bound


def machine() -> dict[str, Any]:
    """What ran the benchmark."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path('/proc/cpuinfo').read_text().splitlines():
            if line.startswith('model name'):
                cpu = line.split(':', 1)[1].strip()
                break
    except OSError:
        pass
    return {
        'cpu': cpu,
        'cores': os.cpu_count(),
        'gpu': _gpu(),
        'load': os.getloadavg()[0],
        'system': f'{platform.system()} {platform.machine()}',
        'python': platform.python_version(),
    }


def _gpu() -> str:
    """Return the name of the machine's first GPU; empty without one."""
    asked = ['nvidia-smi', '--query-gpu=name', '--format=csv,noheader']
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ''
    return done.stdout.partition('\n')[0].strip()


def command() -> str:
    """How the benchmark was called, from the repository's root; paths elsewhere by their name."""
    program = Path(sys.argv[0]).resolve()
    root = FOLDER.parents[1]
    inside = program.relative_to(root) if program.is_relative_to(root) else Path(program.name)
    module = '.'.join(inside.with_suffix('').parts)
    return ' '.join(['python', '-m', module, *map(_portable, sys.argv[1:])])


def _portable(argument: str) -> str:
    option, equals, value = argument.partition('=') if argument[:1] == '-' else ('', '', argument)
    path = Path(value)
    if not path.is_absolute():
        return argument
    root = FOLDER.parents[1]
    short = path.relative_to(root) if path.is_relative_to(root) else path.name
    return f'{option}{equals}{short}'


def save(name: str, figures: Any, targets: list[Target], *, path: str | Path | None = None) -> Path:
    """Print the targets and write everything to ``results/<name>.json``; return the path."""
    for target in targets:
        verdict = 'ok' if target.ok else 'MISSED'
        print(
            f'{verdict:>6}  {target.name}: {target.value:.4g} ({target.relation} {target.bound:g})'
        )
    content = {
        'name': name,
        'date': time.strftime('%Y-%m-%d %H:%M', time.gmtime()),
        'machine': machine(),
        'command': command(),
        'figures': figures,
        'targets': [
            {
                'name': target.name,
                'value': target.value,
                'target': f'{target.relation} {target.bound:g}',
                'ok': target.ok,
            }
            for target in targets
        ],
    }
    path = Path(path) if path is not None else FOLDER / f'{name}.json'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
    print(f'written to {path}')
    return path
