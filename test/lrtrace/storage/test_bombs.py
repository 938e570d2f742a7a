"""Files of at most 10 MB that unfold to far more: no command takes more than 200 MB for them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import lz4.frame
import pytest
from support.traces import bombs

from lrtrace.storage.mcap_records import MAX_CHUNK_BYTES
from lrtrace.storage.reader import Trace
from lrtrace.storage.repair import repair_trace
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_KB = 200_000
LIMIT_S = 300

PROGRAM = """
import sys
from pathlib import Path
if sys.argv[1] == 'timely-llm':
    from timely_llm_ros.cli.main import main
else:
    from lrtrace.cli import main
try:
    code = main(sys.argv[3:])
finally:
    status = Path('/proc/self/status').read_text()
    Path(sys.argv[2]).write_text(status.partition('VmHWM:')[2].split()[0])
sys.exit(code)
"""

COMMANDS = {
    'info': 'lrtrace info {file}',
    'ls': 'lrtrace ls {file}',
    'cat': 'lrtrace cat {file} -n 3000',
    'csv': 'lrtrace export {file} -o {folder}/csv',
    'parquet': 'lrtrace export {file} --format parquet -o {folder}/parquet',
    'report': 'lrtrace report {file} -o {folder}/report.html',
    'repair': 'lrtrace repair {file} -o {folder}/repaired',
    'resume': 'timely-llm resume {file} --dry-run',
    'compose': 'timely-llm compose {file} -o {folder}/workload.json',
    'profile-robot': 'timely-llm profile-robot {file} -o {folder}/skills.yaml',
}

HARDEST: dict[Callable[[], bytes], tuple[str, ...]] = {
    bombs.tiny_records: ('repair',),
    bombs.chunks_within_the_limit: ('cat', 'repair'),
    bombs.many_topics: ('info', 'repair'),
    bombs.many_tasks: ('parquet',),
    bombs.many_tasks_with_scenes: ('report',),
    bombs.many_states: ('parquet',),
    bombs.many_segments: ('report',),
}
"""Bombs that take long to read, and the command for which they are the hardest."""


def peak_kb(command: str, file: Path, folder: Path) -> int:
    """Run a command, which must end by itself and without a traceback; return its peak memory."""
    program, *arguments = command.format(file=file, folder=folder).split()
    told = folder / 'peak'
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM, program, str(told), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr[-2000:]
    assert b'Traceback' not in done.stderr, done.stderr[-2000:]
    return int(told.read_text())


@pytest.mark.parametrize('bomb', bombs.BOMBS, ids=lambda bomb: bomb.__name__)
def test_no_command_takes_more_than_200_mb(bomb: Callable[[], bytes], tmp_path: Path) -> None:
    file = tmp_path / 'bomb.mcap'
    file.write_bytes(bomb())
    assert file.stat().st_size <= bombs.MOST_BYTES
    chosen = HARDEST.get(bomb, tuple(COMMANDS))
    peaks = {name: peak_kb(COMMANDS[name], file, tmp_path) for name in chosen}
    assert {name: kb for name, kb in peaks.items() if kb > MOST_KB} == {}


def sound_topics(path: Path) -> list[int]:
    return [message.data[-1] for _, channel, message in Trace(path).raw() if channel.id == 99]


@pytest.mark.parametrize(
    ('bomb', 'said'),
    [
        (bombs.zstd_frame_beyond_its_claim, '536870912 bytes uncompressed: expected 1000, as'),
        (bombs.zstd_frame_without_a_size, '1001 bytes or more uncompressed: expected 1000, as'),
        (bombs.lz4_frame_beyond_its_claim, '1001 bytes or more uncompressed: expected 1000, as'),
    ],
)
def test_a_chunk_that_is_not_what_it_claims_is_left_out_and_the_rest_repaired(
    bomb: Callable[[], bytes], said: str, tmp_path: Path
) -> None:
    file = tmp_path / 'bomb.mcap'
    file.write_bytes(bomb())
    trace = Trace(file)
    assert sound_topics(file) == [7]
    assert trace.summary().damage.startswith(f'bomb.mcap: a chunk is left out: {said} it says')
    assert '\n' not in trace.damage
    done = repair_trace(file)
    assert (done.messages, Trace(done.trace).summary().damage) == (1, '')


def test_a_chunk_as_long_as_allowed_is_read_in_every_compression(tmp_path: Path) -> None:
    text = bombs.topic('a/msg/Bytes', 'uint8[] x')
    head = len(text) + len(bombs.message(1, b'')) + 8
    length = MAX_CHUNK_BYTES - head
    data = text + bombs.message(1, bombs.cdr(length.to_bytes(4, 'little') + bytes(length)))
    assert len(data) == MAX_CHUNK_BYTES
    file = tmp_path / 'long.mcap'
    file.write_bytes(
        bombs.file(
            bombs.zstd(data),
            bombs.chunk('lz4', lz4.frame.compress(data), len(data)),
            bombs.chunk('', data, len(data)),
        )
    )
    assert [len(message.value.x) for message in Trace(file).messages()] == [length] * 3
    assert Trace(file).summary().damage == ''


def test_metadata_that_refers_to_itself_is_not_unfolded(tmp_path: Path) -> None:
    lines = ['  custom_data:', '    a0: &a0 [x, x]']
    lines += [f'    a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 9)}]' for n in range(1, 12)]
    folder = tmp_path / 'run'
    folder.mkdir()
    (folder / 'run_0.mcap').write_bytes(bombs.file(bombs.sound()))
    for text in ('\n'.join(lines), f'  custom_data: [{"1," * 4_900_000}]', '  a: 2024-99-99'):
        (folder / 'metadata.yaml').write_text(f'rosbag2_bagfile_information:\n{text}\n')
        assert peak_kb(COMMANDS['info'], folder, tmp_path) <= MOST_KB
        assert Trace(folder).custom_data == {}


def test_what_is_kept_of_a_run_is_said_to_be_a_part(tmp_path: Path) -> None:
    from lrtrace.timeline import read_run

    file = tmp_path / 'bomb.mcap'
    file.write_bytes(bombs.many_states())
    trace = Trace(file)
    room = trace.room()
    room.left = 10_000
    trace.room = lambda: room  # type: ignore[method-assign]
    run = read_run(trace)
    assert 0 < len(run.samples) < 50
    assert run.damage == 'what takes more memory than traces of its size do is left out'


@pytest.mark.parametrize('bomb', [bombs.endless_sequence, bombs.endless_fixed_array])
def test_an_array_that_is_not_there_is_an_error(bomb: Callable[[], bytes], tmp_path: Path) -> None:
    file = tmp_path / 'bomb.mcap'
    file.write_bytes(bomb())
    with pytest.raises(TraceError, match='does not fit its definition') as raised:
        [*Trace(file).messages()]
    assert '\n' not in str(raised.value)
