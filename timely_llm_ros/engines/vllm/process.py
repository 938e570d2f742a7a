"""One start of vLLM: its engine core in a process of its own, and the events from there."""

from __future__ import annotations

import asyncio
import pickle
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.torch import FrameReader, frame
from timely_llm_ros.engines.vllm.completions import completion_tokens
from timely_llm_ros.engines.vllm.model_folder import EVERY
from timely_llm_ros.engines.vllm.plugin import UNCUT_TEXT
from timely_llm_ros.engines.vllm.start import hear_no_more, prepare_llm, start_llm, stop_llm

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from timely_llm_ros.engines.commands import Resume, RobotIdleAt, Suspend
    from timely_llm_ros.engines.openai import Chunk
    from timely_llm_ros.engines.vllm.model_folder import ModelFolder
    from timely_llm_ros.skills import SkillSet


_CLOSE_TIMEOUT_S = 2.0
"""How long the engine core may take to end after it was told to (s)."""


class VllmProcess:
    """A started vLLM with our scheduler in its engine core.

    Args:
        arguments: Keyword arguments of vLLM's ``AsyncEngineArgs`` except ``additional_config``.
        plugin: Options of the scheduler, see ``PluginOptions``.
        model: The model that the arguments are of.
        on_message: Called with every event from the engine core, on the loop's thread.
        on_lost: Called once the engine core is gone.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        plugin: dict[str, Any],
        model: ModelFolder,
        *,
        on_message: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._arguments, self._plugin, self._model = arguments, plugin, model
        self._on_message, self._on_lost = on_message, on_lost
        self._folder = ''
        self._server: asyncio.Server | None = None
        self._llm: Any = None
        self._known = {UNCUT_TEXT.name}
        self._replies: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._gone = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Start it and load the model; raises whatever vLLM raises."""
        self._folder = tempfile.mkdtemp(prefix='timely-vllm-')
        path = str(Path(self._folder) / 'report')
        self._server = await asyncio.start_unix_server(self._listen, path)
        # Segments come over the report: tokens for nobody would only cost time.
        plugin = self._plugin | {'report': path, 'tokens': False}
        # Starting blocks until the engine core is there, so a thread does it.
        self._llm = await asyncio.to_thread(
            start_llm, self._arguments | {'additional_config': {'timely': plugin}}
        )
        await prepare_llm(self._llm, self._model)

    async def add(
        self, request_id: str, token_ids: list[int], parameters: Any, skill_set: str
    ) -> None:
        """Send a request, for the adapter of its skill set."""
        from vllm.inputs import TokensPrompt

        await self._llm.add_request(
            request_id,
            TokensPrompt(prompt_token_ids=token_ids),
            parameters,
            lora_request=self._model.request(skill_set),
        )

    def tokens(self, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """Yield the tokens of a completion that is no plan, but takes as long as one."""
        # Steps with an adapter take longer than those without.
        adapter = self._model.request(next(iter(self._model.adapters), EVERY))
        return completion_tokens(self._llm, body, adapter)

    async def abort(self, request_id: str) -> None:
        """Abort a request."""
        await self._llm.abort(request_id)

    async def introduce(self, skill_set: SkillSet) -> None:
        """Make a skill set known to the engine core, once."""
        if skill_set.name not in self._known:
            self._known.add(skill_set.name)
            await self._call(skill_set)

    def correct(self, correction: RobotIdleAt) -> None:
        """Send when a robot runs out of work; this has no answer and wakes nobody up."""
        if self._writer is not None:
            self._writer.write(frame([correction]))

    def tell(self, command: Suspend | Resume) -> None:
        """Send a command over the control channel; commands arrive in their order."""
        task = asyncio.get_running_loop().create_task(self._call(command))
        self._replies.add(task)
        task.add_done_callback(self._replied)

    async def stop(self) -> None:
        """End it, by force if it does not end itself."""
        self._closing = True
        llm, self._llm = self._llm, None
        if llm is not None:
            hear_no_more(llm)
        if self._writer is not None:
            # The engine core then ends itself; vLLM's own way takes seconds, then a kill.
            self._writer.write_eof()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), _CLOSE_TIMEOUT_S)
        if llm is not None:
            await asyncio.to_thread(stop_llm, llm)
        for task in tuple(self._replies):
            task.cancel()
        if self._server is not None:
            self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _call(self, message: Suspend | Resume | SkillSet) -> None:
        await self._llm.engine_core.call_utility_async('timely', pickle.dumps(message))

    def _replied(self, task: asyncio.Task[Any]) -> None:
        self._replies.discard(task)
        if not task.cancelled() and task.exception() is not None and not self._closing:
            asyncio.get_running_loop().call_exception_handler(
                {'message': 'control channel of vLLM', 'exception': task.exception()}
            )

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        frames = FrameReader()
        with suppress(ConnectionError):
            while data := await reader.read(1 << 18):
                for message in frames.push(data):
                    if not self._closing:
                        self._on_message(message)
        writer.close()
        self._gone.set()
        if not self._closing:
            self._on_lost()
