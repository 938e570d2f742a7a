"""What the program of the world takes as its input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip('mujoco')

from timely_llm_ros.world.program import _lines

COMMANDS = [b'{"end": "t1"}\n', b'{"end": "t2"}\n']


async def test_an_input_without_anything_ends_at_once() -> None:
    with Path(os.devnull).open(encoding='utf-8') as source:
        assert [line async for line in _lines(source)] == []


async def test_commands_come_from_a_file_as_well(tmp_path: Path) -> None:
    (tmp_path / 'commands').write_bytes(b''.join(COMMANDS))
    with (tmp_path / 'commands').open(encoding='utf-8') as source:
        assert [line async for line in _lines(source)] == COMMANDS


async def test_commands_come_through_a_pipe() -> None:
    read, write = os.pipe()
    os.write(write, b''.join(COMMANDS))
    os.close(write)
    with os.fdopen(read, encoding='utf-8') as source:
        assert [line async for line in _lines(source)] == COMMANDS
