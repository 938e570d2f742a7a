"""``timely-llm serve`` as a process: a real vLLM server with the shipped model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from support.loopback import free_port

from timely_llm_ros.engines.openai.options import API_KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM = Path(__file__).resolve().parents[2] / 'scripts' / 'timely-llm'
KEY = 'a-key-for-tests'
START_LIMIT_S = 300.0


class ServeProgram:
    """``timely-llm serve`` with the shipped model in float32."""

    def __init__(self, log: Path, port: int = 0, *, plug_in: bool = False) -> None:
        self.port = port or free_port()
        self.log = log
        with log.open('ab') as stream:
            self.process = subprocess.Popen(
                [
                    sys.executable, str(PROGRAM), 'serve', '--port', str(self.port),
                    '--dtype', 'float32', '--max-context', '2048', '--max-running', '8',
                    *(['--plug-in'] if plug_in else []),
                ],
                stdout=stream,
                stderr=stream,
                env=os.environ
                | {
                    API_KEY_VARIABLE: KEY,
                    'OMP_NUM_THREADS': '1',
                    'VLLM_CPU_OMP_THREADS_BIND': 'nobind',
                },
            )  # fmt: skip

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.port}'

    def wait_served(self) -> None:
        end_s = time.monotonic() + START_LIMIT_S
        while f'is served at {self.url}' not in self.log.read_text(errors='replace'):
            tail = self.log.read_text(errors='replace')[-3000:]
            assert self.process.poll() is None, tail
            assert time.monotonic() < end_s, tail
            time.sleep(0.1)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(folder: Path, plug_ins: Sequence[bool]) -> Iterator[list[ServeProgram]]:
    """Start a server for each, with the plug-in or without; stop whoever is in the list then."""
    started: list[ServeProgram] = []
    try:
        started += [
            ServeProgram(folder / f'{number}.log', plug_in=plug_in)
            for number, plug_in in enumerate(plug_ins)
        ]
        for program in started:
            program.wait_served()
        yield started
    finally:
        for program in started:
            program.stop()
