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
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from timely_llm_ros.engines.core import PREFILL_CHUNK, EvictionName
from timely_llm_ros.engines.engine import (
    EngineFailed,
    EngineInfo,
    EngineReady,
    GenerationEnded,
    deliver,
)
from timely_llm_ros.engines.tokens import (
    PREDICTORS,
    SHIPPED_MODEL,
    Sampling,
    find_model,
    require_model_files,
)
from timely_llm_ros.engines.torch.wire import (
    Cancel,
    FrameReader,
    Resume,
    RobotIdleAt,
    Stop,
    Submit,
    Suspend,
    WorkerFailed,
    WorkerReady,
    frame,
)
from timely_llm_ros.engines.torch.worker import WorkerOptions
from timely_llm_ros.errors import ConfigurationError, EngineError, ModelLoadError
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode, find_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.engine import EngineEvent, GenerationRequest
    from timely_llm_ros.engines.torch.wire import Command

CLOSE_TIMEOUT_S = 2.0
"""How long the worker may take to end by itself."""

FIRST_RESTART_S, LAST_RESTART_S = 0.25, 15.0
"""Pause before the first restart in a row; it doubles up to the last."""


class _Worker(asyncio.Protocol):
    """A worker process and the loop's end of its socket."""

    def __init__(self, owner: TorchEngine, options: WorkerOptions) -> None:
        self._owner = owner
        self._options = options
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
                    self._options.to_json(),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        ours.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)

    def send(self, command: Command) -> None:
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


class TorchEngine:
    """Generates with a causal language model of transformers in a process of its own.

    The worker takes commands between steps. If it dies, every generation on it ends with
    ``error``, :class:`EngineFailed` says why and a new one is started.

    Args:
        model_path: A folder, or the name of a shipped model.
        mode: The serving mode.
        policy: Name of the policy.
        max_running: Most generations in one step.
        max_kv_tokens: The bound on KV. Suspended generations are dropped and computed again where
            it is too small.
        prefill_chunk: Most prompt tokens computed in one step.
        device: A torch device.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        threads: CPU threads of a step.
        min_step_s: A step takes at least as long (s), as if the model were larger.
        scheduling: Further options of the scheduler.
        predictors: The folder of the predictors of plans' lengths (``timely-llm train-rlp``,
            ``train-probe``). ``auto`` for the model's own if the policy ranks by lengths and
            there are any, ``off`` for none.
        eviction: How to choose what of a prompt keeps its KV where a request's rule evicts; None
            for no eviction. Models with a sliding window have none.
        measure: Measure a coarse profile once the model is loaded, which takes about two seconds;
            it is ``EngineInfo.times``.
        sampling: How tokens are chosen; None for the likeliest always.

    Raises:
        ConfigurationError: An option is out of range.
    """

    def __init__(
        self,
        *,
        model_path: str = SHIPPED_MODEL,
        mode: ServingMode = 'segmented',
        policy: str = 'utility',
        max_running: int = 8,
        max_kv_tokens: int = 32768,
        prefill_chunk: int = PREFILL_CHUNK,
        device: str = 'cpu',
        dtype: str = 'float32',
        threads: int = 1,
        min_step_s: float = 0.0,
        scheduling: SchedulingOptions | None = None,
        predictors: str = 'auto',
        eviction: EvictionName | None = 'snapkv',
        measure: bool = False,
        sampling: Sampling | None = None,
    ) -> None:
        find_policy(policy)
        if mode not in get_args(ServingMode):
            raise ConfigurationError(f'mode {mode!r}: expected one of {get_args(ServingMode)}')
        for name, value in (
            ('max_running', max_running),
            ('max_kv_tokens', max_kv_tokens),
            ('prefill_chunk', prefill_chunk),
            ('threads', threads),
        ):
            if value < 1:
                raise ConfigurationError(f'{name} {value!r}: expected at least 1')
        if eviction is not None and eviction not in get_args(EvictionName):
            raise ConfigurationError(
                f'eviction {eviction!r}: expected one of {get_args(EvictionName)} or None'
            )
        if not 0.0 <= min_step_s <= 10.0:
            raise ConfigurationError(f'min_step_s {min_step_s!r}: expected 0 to 10 s')
        self._options = WorkerOptions(
            find_model(model_path),
            mode,
            policy,
            max_running,
            max_kv_tokens,
            prefill_chunk,
            device,
            dtype,
            threads,
            min_step_s,
            scheduling or SchedulingOptions(),
            _predictors(predictors, find_model(model_path), policy),
            eviction or '',
            measure,
            sampling or Sampling(),
        )
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
        require_model_files(self._options.model_path)
        self._on_event = on_event
        self._started = asyncio.get_running_loop().create_future()
        try:
            self._worker = _Worker(self, self._options)
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

    def submit(self, request: GenerationRequest) -> None:
        """Queue a generation; while the worker is down it ends with ``error``."""
        if not self._ready or self._worker is None:
            ended = GenerationEnded(
                request.generation_id, 'error', 'the engine is not running', 0, 0.0
            )
            asyncio.get_running_loop().call_soon(self._tell, ended)
            return
        self._generations.add(request.generation_id)
        self._send(Submit(request))

    def suspend(self, generation_id: str) -> None:
        """Hold a generation."""
        self._send(Suspend(generation_id))

    def resume(self, generation_id: str, observation: str | None = None) -> None:
        """Go on with a held generation."""
        self._send(Resume(generation_id, observation))

    def robot_idle_at(self, generation_id: str, idle_at_s: float) -> None:
        """Correct when the robot runs out of work (s, ``time.monotonic``)."""
        self._send(RobotIdleAt(generation_id, idle_at_s))

    def cancel(self, generation_id: str) -> None:
        """End a generation."""
        self._send(Cancel(generation_id))

    def _send(self, command: Command) -> None:
        if self._ready and self._worker is not None:
            self._worker.send(command)

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
        self._worker = _Worker(self, self._options)
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
