"""The torch engine: a worker process that generates, and this end of its socket.

Neither the asyncio loop nor a ROS callback ever waits for a forward pass, and this module imports
no torch.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import Submit
from timely_llm_ros.engines.engine import (
    Engine,
    EngineFailed,
    EngineInfo,
    EngineReady,
    GenerationEnded,
    deliver,
)
from timely_llm_ros.engines.tokens import (
    PREDICTORS,
    find_model,
    require_model_files,
)
from timely_llm_ros.engines.torch.wire import (
    FrameReader,
    Stop,
    WorkerFailed,
    WorkerReady,
    frame,
)
from timely_llm_ros.errors import EngineError, ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.engine import EngineEvent
    from timely_llm_ros.engines.torch.config import TorchConfig

CLOSE_TIMEOUT_S = 2.0
"""How long the worker may take to end by itself."""

FIRST_RESTART_S, LAST_RESTART_S = 0.25, 15.0
"""Pause before the first restart in a row; it doubles up to the last."""


class _Worker(asyncio.Protocol):
    """A worker process and the loop's end of its socket."""

    def __init__(self, owner: TorchEngine, config: TorchConfig) -> None:
        self._owner = owner
        self._config = config
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.error = ''
        self.loading = True

    async def start(self) -> None:
        """Start the process; what comes of it is told to the owner."""
        ours, theirs = socket.socketpair()
        with theirs:
            # A new session keeps the terminal's Ctrl-C away until the worker ignores it.
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    '-m',
                    'timely_llm_ros.engines.torch.worker',
                    str(theirs.fileno()),
                    str(os.getpid()),
                    self._config.to_json(),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        ours.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)

    def send(self, command: Command | Stop) -> None:
        """Send a command; never waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame([command]))

    async def stop(self) -> None:
        """End the process, by force where it does not listen."""
        self.send(Stop())
        await self.reap(CLOSE_TIMEOUT_S)
        if self._transport is not None:
            self._transport.close()

    async def reap(self, timeout_s: float) -> int | None:
        """Wait for the process's end; kill it after ``timeout_s``. Return its exit status."""
        process = self.process
        if process is None:
            return None
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while process.poll() is None:
            if asyncio.get_running_loop().time() > deadline_s:
                process.kill()
            await asyncio.sleep(0.01)
        return process.returncode

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(f'transport {transport!r}: expected one that writes')
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand messages to the owner."""
        for message in self._reader.push(data):
            if isinstance(message, WorkerFailed):
                self.error, self.loading = message.error, message.loading
            else:
                self._owner._on_message(self, message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner that the worker is gone."""
        self._owner._on_lost(self)


class TorchEngine(Engine):
    """Generates with a causal language model of transformers in a process of its own.

    The worker takes commands between steps. If it dies, every generation on it ends with
    ``error``, :class:`EngineFailed` says why and a new one is started.
    """

    def __init__(self, config: TorchConfig) -> None:
        model = find_model(config.model_path)
        predictors = _predictors(config.predictors, model, config.policy)
        self._config = replace(config, model_path=model, predictors=predictors)
        self._on_event: Callable[[EngineEvent], None] | None = None
        self._worker: _Worker | None = None
        self._started: asyncio.Future[EngineInfo] | None = None
        self._restart: asyncio.Task[None] | None = None
        self._pause_s = FIRST_RESTART_S
        self._ready = False
        self._generations: set[str] = set()

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id; None while there is none."""
        worker = self._worker
        return None if worker is None or worker.process is None else worker.process.pid

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Start the worker and wait until its model is loaded.

        Raises:
            ModelLoadError: The model cannot be loaded.
            EngineError: The worker died.
        """
        if self._started is not None:
            raise EngineError('start() a second time: expected one call')
        require_model_files(self._config.model_path)
        self._on_event = on_event
        self._started = asyncio.get_running_loop().create_future()
        try:
            self._worker = _Worker(self, self._config)
            await self._worker.start()
            return await self._started
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the worker; no event comes after this."""
        self._on_event = None
        self._ready = False
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.gather(self._restart, return_exceptions=True)
            self._restart = None
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()

    def send(self, command: Command) -> None:
        """Pass a command to the worker; while it is down a new generation ends with ``error``."""
        if self._ready and self._worker is not None:
            if isinstance(command, Submit):
                self._generations.add(command.request.generation_id)
            self._worker.send(command)
        elif isinstance(command, Submit):
            ended = GenerationEnded(
                command.request.generation_id, 'error', 'the engine is not running', 0, 0.0
            )
            asyncio.get_running_loop().call_soon(self._tell, ended)

    def _tell(self, event: EngineEvent) -> None:
        if self._on_event is not None:
            deliver(self._on_event, event)

    def _on_message(self, worker: _Worker, message: Any) -> None:
        """Take a message of the present worker."""
        if worker is not self._worker:
            return
        if isinstance(message, WorkerReady):
            worker.loading = False
            self._ready = True
            self._pause_s = FIRST_RESTART_S
            if self._started is not None and not self._started.done():
                self._started.set_result(message.info)
            else:
                self._tell(EngineReady(message.info))
            return
        if isinstance(message, GenerationEnded):
            self._generations.discard(message.generation_id)
        self._tell(message)

    def _on_lost(self, worker: _Worker) -> None:
        """The present worker's socket is closed: it died or gave up."""
        if worker is not self._worker or self._on_event is None:
            return
        self._ready = False
        self._restart = asyncio.get_running_loop().create_task(
            self._recover(worker), name='torch engine restart'
        )

    async def _recover(self, worker: _Worker) -> None:
        """Say what was lost, then start anew."""
        status = await worker.reap(CLOSE_TIMEOUT_S)
        error = worker.error or f'the worker process ended with status {status}'
        if self._started is not None and not self._started.done():
            kind = ModelLoadError if worker.loading else EngineError
            self._started.set_exception(kind(error))
            return
        self._tell(EngineFailed(error))
        for generation_id in sorted(self._generations):
            self._tell(GenerationEnded(generation_id, 'error', error, 0, 0.0))
        self._generations.clear()
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LAST_RESTART_S)
        self._worker = _Worker(self, self._config)
        await self._worker.start()


def _predictors(name: str, model_path: str, policy: str) -> str:
    """Return the folder to load predictors from; empty for none."""
    if name == 'off':
        return ''
    if name != 'auto':
        return name
    folder = Path(model_path) / PREDICTORS
    there = any((folder / f'{part}.json').is_file() for part in ('rlp', 'probe'))
    return str(folder) if policy == 'srpt' and there else ''
