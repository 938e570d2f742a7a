"""Programs that a benchmark starts: what they print, and the processes that they have."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from timely_llm_ros.demo import Child

LINE_BYTES = 1 << 24
"""Longest line of what a program prints."""


async def lines_of(child: Child) -> AsyncIterator[bytes]:
    """Yield what a program prints, line by line, until it ends; it was started with pipes."""
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), child.process.stdout
    )
    while line := await reader.readline():
        yield line


async def worker_of(executor: Child, *, limit_s: float = 40.0) -> int:
    """Return the process id of an executor's worker, as soon as it is there.

    Raises:
        TimeoutError: It is not there within ``limit_s`` (s).
    """
    pid = executor.process.pid
    async with asyncio.timeout(limit_s):
        while not (found := Path(f'/proc/{pid}/task/{pid}/children').read_text().split()):
            await asyncio.sleep(0.05)
    return int(found[0])


@dataclass(frozen=True, slots=True)
class Sample:
    """What a program and its children take at a time."""

    at_s: float
    memory_mb: float
    """Without what is mapped from files."""
    descriptors: float
    threads: float


def family(pid: int) -> list[int]:
    """Return a process and all below it."""
    found = [pid]
    for parent in found:
        for file in Path(f'/proc/{parent}/task').glob('*/children'):
            try:
                found += map(int, file.read_text().split())
            except OSError:
                continue
    return found


def sample(pid: int, at_s: float) -> Sample | None:
    """Return what a program takes now; None if it has ended."""
    memory_kb = descriptors = threads = 0
    for member in family(pid):
        try:
            lines = Path(f'/proc/{member}/status').read_text().splitlines()
            status = dict(line.split(':', 1) for line in lines)
            memory_kb += int(status['RssAnon'].split()[0])
            threads += int(status['Threads'])
            descriptors += len(list(Path(f'/proc/{member}/fd').iterdir()))
        except (OSError, KeyError, ValueError):
            if member == pid:
                return None
    return Sample(at_s, memory_kb / 1024, descriptors, threads)
