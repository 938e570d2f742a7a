"""What a benchmark left in ``benchmarks/results``, and how to run it again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from benchmarks.common import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = {
    'timelyllm': (
        'contention', 'overhead', 'reference', 'scale', 'scheduling', 'timelyllm',
    ),
    'timebill': ('rlp', 'timebill'),
    'trail': ('calibration', 'trail'),
    'multibin': ('multibin', 'multibin_theory'),
    'micro_batch': ('background', 'pipeline'),
    'vllm': ('vllm_engine',),
    'robots': ('deaths', 'durations', 'safety'),
    'recorder': ('recorder', 'replay', 'report'),
}  # fmt: skip
"""Where the programs are today that lay side by side when they wrote their figures."""

RENAMED = {'vllm_engine': 'vllm'}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure that has a target.

    Attributes:
        name: What was measured.
        target: What it should be, ``<= 2`` or the like.
        value: What it is.
        ok: Whether it is as it should be.
    """

    name: str
    target: str
    value: float
    ok: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """The content of one file of results.

    Attributes:
        name: The file's name without its ending.
        date: The day on which it was measured.
        command: How to measure it again; files may name a program by its earlier path.
        machine: Cores and processor.
        load: How busy the machine was when it was written, as Linux counts it.
        figures: What was measured; each benchmark has its own form.
        targets: What should have come out, and whether it did.
    """

    name: str
    date: str
    command: str
    machine: str
    load: float
    figures: Any
    targets: tuple[Verdict, ...]

    @property
    def source(self) -> str:
        """The sentence that says where the figures come from."""
        return (
            f'Measured with `{self.command}` on {self.date}, {self.machine}; '
            f'figures in `benchmarks/results/{self.name}.json`.'
        )

    def target(self, name: str) -> Verdict:
        """Return the target of a name.

        Raises:
            KeyError: There is none of that name.
        """
        for verdict in self.targets:
            if verdict.name == name:
                return verdict
        known = ', '.join(repr(verdict.name) for verdict in self.targets)
        raise KeyError(f'target {name!r} of {self.name}: expected one of {known}')


@cache
def read(name: str) -> Recorded:
    """Return what the file of a name holds."""
    content = json.loads((FOLDER / f'{name}.json').read_text(encoding='utf-8'))
    return Recorded(
        name,
        content['date'][:10],
        present_command(content['command']),
        described(content['machine']),
        content['machine']['load'],
        content['figures'],
        tuple(
            Verdict(one['name'], one['target'], one['value'], one['ok'])
            for one in content['targets']
        ),
    )


def described(machine: Mapping[str, Any]) -> str:
    """Return cores and processor of a machine as a file has them."""
    gpu = f' with an {found}' if (found := machine.get('gpu')) else ''
    return f'{machine["cores"]}-core {machine["cpu"]}{gpu}'


def present_command(command: str) -> str:
    """Return a command with the name that its program has today.

    Raises:
        ValueError: The command starts no program of ``benchmarks``.
    """
    program, _, arguments = command.removeprefix('python ').partition(' ')
    if program == '-m':
        return command
    stem = program.removeprefix('benchmarks/').removesuffix('.py')
    for part, programs in PARTS.items():
        if stem in programs:
            return f'python -m benchmarks.{part}.{RENAMED.get(stem, stem)} {arguments}'.rstrip()
    raise ValueError(f'command {command!r}: expected a program of {", ".join(PARTS)}')
