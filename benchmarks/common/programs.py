"""Programs that a benchmark starts: what they print, and the processes that they have."""

from __future__ import annotations

import asyncio
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
