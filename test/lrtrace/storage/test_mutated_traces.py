"""Whatever becomes of a trace's bytes, every command ends by itself: with what is sound, or a line.

``make fuzz FUZZ=100000 ARGS=test/lrtrace/storage/test_mutated_traces.py`` tries 100,000 files.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import shutil
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces.mutations import mutated, opened, split
from support.traces.small_trace import write_small_trace

from lrtrace.cli.main import main
from lrtrace.storage.mcap_file import MAGIC
from timely_llm_ros.cli.main import main as timely_llm

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

MOST_BYTES = 20_000_000
"""Of Python's memory for a file of a few kilobytes; what it claims may be exabytes."""

CALLS, CALLS_PER_BYTE = 200_000, 10
"""A command makes at most so many calls, for each byte of the file and of what its chunks hold."""

COMMANDS = (
    'info {file}', 'ls {file}', 'cat {file}', 'export {file} -o {out} --force',
    'export {file} -o {out} --force --format parquet', 'report {file} -o {report}',
    'repair {file} -o {repaired}',
)  # fmt: skip


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real trace, with metadata, an index and a summary."""
    folder = write_small_trace(tmp_path_factory.mktemp('whole') / 'run')
    return (folder / 'run_0.mcap').read_bytes()


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('mutated')


def run(command: str, folder: Path) -> None:
    """Run a command in this process; it may refuse the file in one line and do nothing else."""
    told, said = io.StringIO(), io.StringIO()
    names = {'file': 'file.mcap', 'out': 'out', 'report': 'report.html', 'repaired': 'repaired'}
    words = command.format(**{name: folder / place for name, place in names.items()}).split()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
        code = timely_llm(words[1:]) if words[0] == 'timely-llm' else main(words)
    assert code in (0, 1)
    if code:
        assert said.getvalue().splitlines()[-1].startswith('error: ')
    shutil.rmtree(folder / 'repaired', ignore_errors=True)


class Calls:
    """Counts the calls that are made while it is entered: time that no busy machine lengthens."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        sys.setprofile(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_call(self, _: FrameType, event: str, __: object) -> None:
        self.count += event in ('call', 'c_call')


@given(seed=st.integers(0, 2**48))
def test_no_file_crashes_a_command_or_takes_more_than_its_share(
    seed: int, whole: bytes, folder: Path
) -> None:
    rng = random.Random(seed)
    data = mutated(whole, rng)
    (folder / 'file.mcap').write_bytes(data)
    command = rng.choice((*COMMANDS, 'timely-llm resume {file} --dry-run'))
    match rng.randrange(8):
        case 0:
            tracemalloc.start()
            try:
                run(command, folder)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak <= MOST_BYTES
        case 1:
            with Calls() as calls:
                run(command, folder)
            assert calls.count <= CALLS + CALLS_PER_BYTE * unpacked(data)
        case _:
            run(command, folder)


def unpacked(data: bytes) -> int:
    """Return the size of a file with that of what its chunks hold."""
    size = len(data)
    with contextlib.suppress(Exception):
        for opcode, content in split(data[len(MAGIC) :]):
            if opcode == 6:
                with contextlib.suppress(Exception):
                    size += len(opened(content))
    return size


def test_twice_the_file_takes_at_most_twice_the_calls(tmp_path: Path) -> None:
    counts: list[list[int]] = []
    for number in (1, 2, 4):
        robots = [f'drone_{n}' for n in range(20 * number)]
        write_small_trace(tmp_path / f'run_{number}', robots)
        place = tmp_path / f'run_{number}' / f'run_{number}_0.mcap'
        place.rename(tmp_path / 'file.mcap')
        counts.append([])
        for command in COMMANDS:
            with Calls() as calls:
                run(command, tmp_path)
            counts[-1].append(calls.count)
    for smaller, larger in itertools.pairwise(counts):
        assert all(two <= 2.1 * one for one, two in zip(smaller, larger, strict=True))
