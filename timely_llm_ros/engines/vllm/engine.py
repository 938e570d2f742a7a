"""The vLLM engine: vLLM's engine core in a process of its own, with our scheduler inside.

The scheduler finds segments and suspends generations next to the tokens and reports events, as the
torch engine's worker does. This module imports no vLLM.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import (
    Cancel,
    Reschedule,
    Resume,
    RobotIdleAt,
    Submit,
    Suspend,
    Warm,
)
from timely_llm_ros.engines.engine import (
    LOADING,
    MEASURING,
    Engine,
    EngineInfo,
    GenerationEnded,
)
from timely_llm_ros.engines.process import Supervisor
from timely_llm_ros.engines.tokens import find_model, require_model_files
from timely_llm_ros.engines.vllm.completions import UNNAMED
from timely_llm_ros.engines.vllm.model_folder import ModelFolder
from timely_llm_ros.engines.vllm.model_sizes import count_parameters
from timely_llm_ros.engines.vllm.start import engine_arguments, prepare_environment
from timely_llm_ros.engines.vllm.writer import RequestWriter, check_seed
from timely_llm_ros.errors import EngineError, ModelLoadError, TimelyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.engines.engine import EngineEvent
    from timely_llm_ros.engines.texts import TokenTexts
    from timely_llm_ros.engines.vllm.config import VllmConfig
    from timely_llm_ros.engines.vllm.process import VllmProcess
    from timely_llm_ros.prediction.times import ExecutionTimeModel


class VllmEngine(Engine):
    """Generates with vLLM, which runs any model of its own on CPUs and GPUs.

    If the engine core dies, every generation on it ends with ``error``, :class:`EngineFailed` says
    why and a new one is started.
    """

    def __init__(self, config: VllmConfig) -> None:
        self._config = config
        self._model = find_model(config.model_path)
        self._folder = ModelFolder(self._model, self._model, {})
        self._measures = config.measure
        self._times: ExecutionTimeModel | None = None
        self._seed_tokens: int | None = None
        self._texts: TokenTexts | None = None
        self._writer: RequestWriter | None = None
        self._context_limit = self._config.kv_tokens
        self._process: VllmProcess | None = None
        self._doing = LOADING
        self._pump: asyncio.Task[None] | None = None
        self._work: asyncio.Queue[Submit | Suspend | Resume | Cancel | Warm] = asyncio.Queue()
        self._supervisor = Supervisor('vllm', launch=self._launch, autopsy=self._autopsy)

    @property
    def doing(self) -> str:
        """What it does while it starts."""
        return self._doing

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Start vLLM and wait until its model is loaded.

        Raises:
            ConfigurationError: There is no vLLM.
            ContractError: The scheduler does not fit the vLLM that is there.
            ModelLoadError: The model cannot be loaded.
        """
        require_model_files(self._model)
        try:
            info = await self._supervisor.start(on_event)
        except BaseException:
            await self.close()
            raise
        self._pump = asyncio.get_running_loop().create_task(self._send_all(), name='vllm commands')
        return info

    async def close(self) -> None:
        """End vLLM; no event comes after this."""
        await self._supervisor.close()
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        self._discard_work()
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    def send(self, command: Command) -> None:
        """Pass a command to vLLM; without vLLM a new generation ends with ``error``."""
        if isinstance(command, Submit):
            self._queue(command)
        elif isinstance(command, Warm):
            if self._supervisor.ready:
                self._work.put_nowait(command)
        elif self._supervisor.ready and command.generation_id in self._supervisor:
            if not isinstance(command, RobotIdleAt | Reschedule):
                self._work.put_nowait(command)
            elif isinstance(command, RobotIdleAt) and self._process is not None:
                # There is one for every segment, and no other command must wait for it.
                self._process.correct(command)

    def _queue(self, command: Submit) -> None:
        name = command.request.generation_id
        repeated = name in self._supervisor
        if not self._supervisor.admit(name):
            return
        if repeated:
            # Ending the new one would read as the end of the old one, so the old one goes first.
            self._work.put_nowait(Cancel(name))
        self._work.put_nowait(command)

    # Towards vLLM --------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        """Send one command after the other, so that none overtakes the request it is about."""
        while True:
            command = await self._work.get()
            process = self._process
            if process is None:
                continue
            try:
                match command:
                    case Submit(request):
                        await self._submit(process, request)
                    case Cancel(name):
                        await process.abort(name)
                    case Suspend() | Resume():
                        process.tell(command)
                    case Warm():
                        await self._warm(process, command)
            except Exception as err:  # noqa: BLE001  The next one is to be sent all the same.
                if self._supervisor.ready:
                    asyncio.get_running_loop().call_exception_handler(
                        {'message': 'vllm engine', 'exception': err}
                    )

    def _discard_work(self) -> None:
        while not self._work.empty():
            self._work.get_nowait()

    async def _submit(self, process: VllmProcess, request: GenerationRequest) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            token_ids = writer.token_ids(request)
            parameters = writer.parameters(request)
            check_seed(parameters.seed, len(token_ids) + request.max_tokens, self._seed_tokens)
            await process.introduce(request.skill_set)
            await process.add(request.generation_id, token_ids, parameters, request.skill_set.name)
        except TimelyError as err:
            self._supervisor.fail(request.generation_id, str(err))
        except Exception as err:  # noqa: BLE001  vLLM refuses with errors of all kinds.
            self._supervisor.fail(request.generation_id, f'{type(err).__name__}: {err}')

    async def _warm(self, process: VllmProcess, command: Warm) -> None:
        """Send a scene in place of the one before; what both begin with stays in the cache."""
        name = command.generation_id
        await process.abort(name)
        writer = self._writer
        if writer is None or command.prompt is None:
            return
        try:
            token_ids, parameters = writer.scene(command)
        except EngineError:
            # A task with this scene is told why; nobody asked for this.
            return
        await process.add(name, token_ids, parameters, command.skill_set.name)

    # From vLLM -----------------------------------------------------------------------------------

    async def _launch(self) -> EngineInfo:
        """Start an engine core and return what it runs."""
        from timely_llm_ros.engines.openai import measure_times, times_or_none
        from timely_llm_ros.engines.vllm.process import VllmProcess

        started_s = time.monotonic()
        if self._process is not None:
            await self._process.stop()
            self._process = None
        prepare_environment(self._config.threads)
        arguments = await asyncio.to_thread(self._prepare)
        process = VllmProcess(
            arguments,
            self._config.plugin(),
            self._folder,
            on_message=self._on_message,
            on_lost=self._supervisor.lost,
        )
        self._process = process
        try:
            await process.start()
        except ModelLoadError:
            raise
        except Exception as err:
            raise ModelLoadError(
                f'model {self._model!r}: vLLM did not start: {type(err).__name__}: {err}'
            ) from err
        texts = self._texts
        if self._measures and texts is not None:
            self._measures, self._doing = False, MEASURING
            times = measure_times(
                process.tokens,
                vocabulary=texts.size,
                context_limit=self._context_limit,
                max_running=self._config.max_running,
                kv_tokens=self._config.kv_tokens,
            )
            self._times = await times_or_none('vllm', times)
        self._supervisor.mark_ready()
        return EngineInfo(
            'vllm',
            self._model,
            count_parameters(self._folder.base),
            self._config.dtype,
            0 if texts is None else texts.size,
            self._config.kv_tokens,
            time.monotonic() - started_s,
            times=self._times,
            context_tokens=self._context_limit,
            warms=True,
            # The scheduler is in a process of vLLM.
            reschedules=False,
            adapters=self._folder.prompts,
        )

    def _prepare(self) -> dict[str, Any]:
        """Check vLLM and the model's adapters, load the tokenizer and return vLLM's arguments."""
        from timely_llm_ros.engines.texts import load_texts
        from timely_llm_ros.engines.vllm.plugin import (
            ASYNC_SCHEDULER,
            SCHEDULER,
            WORKER,
            require_contract,
        )

        require_contract()
        from vllm.platforms import current_platform

        self._folder = ModelFolder.read(self._model)
        if self._texts is None:
            self._texts = load_texts(self._model)
        config = self._config
        slots = config.max_running + config.max_suspended
        arguments = engine_arguments(config, self._folder, slots=slots)
        self._context_limit = arguments['max_model_len']
        if self._writer is None:
            self._writer = RequestWriter(
                self._texts,
                context_limit=self._context_limit,
                sampling=config.sampling,
                observations=config.mode != 'whole_plan',
            )
        if current_platform.is_cpu():
            stages = config.vllm.get('pipeline_parallel_size', 1)
            whole = arguments['max_num_batched_tokens'] - config.max_running
            self._seed_tokens = whole if stages == 1 else 0
        arguments['scheduler_cls'] = SCHEDULER if current_platform.is_cpu() else ASYNC_SCHEDULER
        arguments['worker_extension_cls'] = WORKER
        return {**arguments, **config.vllm}

    def _on_message(self, message: Any) -> None:
        """Pass an event of the engine core on, unless it is about a mere completion."""
        unnamed = isinstance(message, GenerationEnded) and message.generation_id.startswith(UNNAMED)
        if not unnamed:
            self._supervisor.tell(message)

    async def _autopsy(self) -> str:
        self._discard_work()
        return "vLLM's engine core ended"
