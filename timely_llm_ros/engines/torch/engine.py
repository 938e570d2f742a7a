"""The torch engine: a worker process that generates, and this end of its socket.

The asyncio loop never waits for a forward pass. This module imports no torch.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from timely_llm_ros.engines.commands import Reschedule, Submit
from timely_llm_ros.engines.engine import (
    LOADING,
    Engine,
    EngineInfo,
)
from timely_llm_ros.engines.process import Supervisor
from timely_llm_ros.engines.tokens import (
    PREDICTORS,
    find_adapters,
    find_model,
    require_model_files,
)
from timely_llm_ros.engines.torch.wire import (
    FrameReader,
    Stop,
    WorkerBusy,
    WorkerFailed,
    WorkerReady,
    frame,
)
from timely_llm_ros.errors import EngineError, ModelLoadError
from timely_llm_ros.scheduling import find_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.engine import EngineEvent
    from timely_llm_ros.engines.torch.config import TorchConfig

_logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 2.0
"""How long the worker may take to end by itself."""


class _Worker(asyncio.Protocol):
    """A worker process and the loop's end of its socket."""

    def __init__(
        self, config: TorchConfig, supervisor: Supervisor, on_busy: Callable[[str], None]
    ) -> None:
        self._config, self._supervisor, self._on_busy = config, supervisor, on_busy
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._error = ''
        self._loading = True
        self._info: asyncio.Future[EngineInfo | None] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        """The process id; None before it was started."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process."""
        ours, theirs = socket.socketpair()
        with theirs:
            # A new session keeps the terminal's Ctrl-C away until the worker ignores it.
            self._process = subprocess.Popen(
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

    async def loaded(self) -> EngineInfo:
        """Wait until its model is loaded and return what it runs.

        Raises:
            ModelLoadError: The model cannot be loaded.
            EngineError: It ended for another reason.
        """
        info = await self._info
        if info is not None:
            return info
        kind = ModelLoadError if self._loading else EngineError
        raise kind(await self.autopsy())

    async def autopsy(self) -> str:
        """Wait for its end and return the reason."""
        status = await self._reap()
        return self._error or f'the worker process ended with status {status}'

    def send(self, command: Command | Stop) -> None:
        """Send a command; never waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame([command]))

    async def stop(self) -> None:
        """End the process, by force where it does not listen."""
        self.send(Stop())
        await self._reap()
        if self._transport is not None:
            self._transport.close()

    async def _reap(self) -> int | None:
        """Wait for the process's end, kill it where that takes long, return its exit status."""
        process = self._process
        if process is None:
            return None
        deadline_s = asyncio.get_running_loop().time() + _CLOSE_TIMEOUT_S
        while process.poll() is None:
            if asyncio.get_running_loop().time() > deadline_s:
                process.kill()
            await asyncio.sleep(0.01)
        return process.returncode

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # Its class says nothing: those of uvloop, which Ray has, are none of asyncio's.
        self._transport = cast('asyncio.WriteTransport', transport)

    def data_received(self, data: bytes) -> None:
        """Pass on the worker's messages."""
        for message in self._reader.push(data):
            match message:
                case WorkerFailed(error, loading):
                    self._error, self._loading = error, loading
                case WorkerBusy(doing):
                    self._on_busy(doing)
                case WorkerReady(info):
                    self._loading = False
                    self._supervisor.mark_ready()
                    if not self._info.done():
                        self._info.set_result(info)
                case event:
                    self._supervisor.tell(event)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """Note that the worker died or gave up."""
        if not self._info.done():
            self._info.set_result(None)
        else:
            self._supervisor.lost()


class TorchEngine(Engine):
    """Generates with a causal language model of transformers in a process of its own.

    The worker takes commands between steps. If it dies, a :class:`Supervisor` ends its generations
    and starts another one.
    """

    def __init__(self, config: TorchConfig) -> None:
        model = find_model(config.model_path)
        predictors = _predictors(config.predictors, model, config.policy)
        self._config = replace(config, model_path=model, predictors=predictors)
        self._worker: _Worker | None = None
        self._doing = LOADING
        self._supervisor = Supervisor('torch', launch=self._launch, autopsy=self._autopsy)

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id; None while there is none."""
        return None if self._worker is None else self._worker.pid

    @property
    def doing(self) -> str:
        """What its worker does while it starts."""
        return self._doing

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Start the worker and wait until its model is loaded.

        Raises:
            ModelLoadError: The model cannot be loaded.
            EngineError: The worker died, or this is a second call.
        """
        path = self._config.model_path
        require_model_files(path)
        if adapters := find_adapters(path):
            _logger.warning(
                'model %s: its adapters for %s are not used, as only engine vllm takes several: '
                'expected the folder of one as model_path',
                path,
                ', '.join(adapters),
            )
        try:
            return await self._supervisor.start(on_event)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the worker; no event comes after this."""
        await self._supervisor.close()
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()

    def send(self, command: Command) -> None:
        """Pass a command to the worker; while it is down a new generation ends with ``error``."""
        supervisor = self._supervisor
        if isinstance(command, Reschedule):
            # A worker that is started anew begins with it.
            self._config = replace(
                self._config, policy=command.policy, scheduling=command.scheduling
            )
        if isinstance(command, Submit) and not supervisor.admit(command.request.generation_id):
            return
        if supervisor.ready and self._worker is not None:
            self._worker.send(command)

    async def _launch(self) -> EngineInfo:
        self._doing = LOADING
        self._worker = worker = _Worker(self._config, self._supervisor, self._on_busy)
        await worker.start()
        return await worker.loaded()

    def _on_busy(self, doing: str) -> None:
        self._doing = doing
        _logger.info('engine torch: %s', doing)

    async def _autopsy(self) -> str:
        return '' if self._worker is None else await self._worker.autopsy()


def _predictors(name: str, model_path: str, policy: str) -> str:
    """Return the folder to load predictors from; empty for none."""
    if name == 'off':
        return ''
    if name != 'auto':
        return name
    folder = Path(model_path) / PREDICTORS
    there = any((folder / f'{part}.json').is_file() for part in ('rlp', 'probe'))
    return str(folder) if find_policy(policy).ranks_plans and there else ''
