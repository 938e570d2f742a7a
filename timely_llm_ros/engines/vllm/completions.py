"""A vLLM of this process as a server of completions, by its public interface alone.

This uses ``AsyncLLM``'s ``generate``, ``errored`` and ``shutdown``, ``TokensPrompt`` and
``SamplingParams``. The module imports vLLM only to start it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import multiprocessing
import subprocess
import sys
import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.openai import Chunk, ServedModel, check_probe, grammar_probe
from timely_llm_ros.engines.vllm.model_folder import EVERY
from timely_llm_ros.engines.vllm.start import prepare_llm, start_llm, stop_llm
from timely_llm_ros.errors import EngineError, ModelLoadError, RequestRefusedError, ServerLostError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from timely_llm_ros.engines.texts import ServerTexts
    from timely_llm_ros.engines.vllm.model_folder import ModelFolder

_logger = logging.getLogger(__name__)

_GRAMMARS = "expected vLLM's structured outputs with llguidance"

_GUARD = """
import os, signal, sys
processes = []
for pid in sys.argv[1:]:
    try:
        processes.append(os.pidfd_open(int(pid)))
    except ProcessLookupError:
        pass
sys.stdin.buffer.read()
for process in processes:
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
"""Ends vLLM's processes when this one is gone; by themselves they would wait for it forever."""

UNNAMED = 'completion of timely_llm_ros '
"""The ids of mere completions begin like this."""

_ids = itertools.count()


async def completion_tokens(
    llm: Any, body: Mapping[str, Any], adapter: Any = None
) -> AsyncGenerator[Chunk, None]:
    """Yield the tokens of a request to an ``AsyncLLM``, see ``Completions.tokens``.

    Args:
        llm: The ``AsyncLLM``.
        body: The request; its ``model`` is not looked at.
        adapter: The ``LoRARequest`` of its adapter, if any.
    """
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    choice = dict(body)
    # The caller changes its list while vLLM reads this one.
    prompt = TokensPrompt(prompt_token_ids=list(choice.pop('prompt')))
    structured = choice.pop('structured_outputs', None)
    choice.pop('priority', None)
    choice.pop('model', None)
    try:
        parameters = SamplingParams(
            output_kind=RequestOutputKind.DELTA,
            detokenize=False,
            structured_outputs=structured and StructuredOutputsParams(**structured),
            **choice,
        )
        request_id = f'{UNNAMED}{next(_ids)}'
        outputs = llm.generate(prompt, parameters, request_id, lora_request=adapter)
        async with aclosing(outputs):
            async for output in outputs:
                completion = output.outputs[0]
                yield Chunk(tuple(completion.token_ids), _checked(completion.finish_reason))
    except EngineError:
        raise
    except Exception as err:
        # vLLM refuses what it cannot serve with errors of all kinds.
        problem = f'{type(err).__name__}: {err}'
        if llm.errored:
            raise ServerLostError(f"vLLM's engine core ended: {problem}") from err
        raise RequestRefusedError(f'vLLM: {problem}') from err


def _checked(finish: str | None) -> str:
    if finish not in (None, 'stop', 'length'):
        raise RequestRefusedError(
            f'vLLM ended the request with {finish!r}: expected stop or length'
        )
    return finish or ''


class VllmCompletions:
    """Starts vLLM, again where it died, and gives it requests.

    Args:
        arguments: Called on another thread, returns keyword arguments of ``AsyncEngineArgs``. Those
            that this vLLM does not have are left out.
        more: Further ones, which are never left out.
        model: The model that they are of.
    """

    def __init__(
        self,
        arguments: Callable[[], Mapping[str, Any]],
        more: Mapping[str, Any],
        model: ModelFolder,
    ) -> None:
        self._arguments, self._more, self._model = arguments, more, model
        self._llm: Any = None
        self._starting: asyncio.Future[Any] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.pids: tuple[int, ...] = ()
        """vLLM's processes."""

    @property
    def url(self) -> str:
        """Its name in messages."""
        return 'vLLM in this process'

    async def check(self, texts: ServerTexts) -> ServedModel:
        """Start vLLM anew and check that it obeys a grammar.

        Raises:
            ModelLoadError: It does not start, or does not obey.
        """
        await self._stop()
        started_s = time.monotonic()
        before = {process.pid for process in multiprocessing.active_children()}
        self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        try:
            # If this is cancelled, :meth:`close` still ends the vLLM that starts.
            self._llm = await asyncio.shield(self._starting)
            await prepare_llm(self._llm, self._model)
        except ModelLoadError:
            raise
        except Exception as err:
            raise ModelLoadError(f'vLLM did not start: {type(err).__name__}: {err}') from err
        found = {process.pid for process in multiprocessing.active_children()} - before
        self.pids = tuple(pid for pid in found if pid is not None)
        self._guard = await asyncio.to_thread(start_guard, self.pids)
        try:
            written = [
                token
                async for chunk in completion_tokens(self._llm, grammar_probe(texts))
                for token in chunk.token_ids
            ]
        except (RequestRefusedError, ImportError) as err:
            raise ModelLoadError(f'{err}; {_GRAMMARS}') from err
        check_probe(self.url, written, texts, _GRAMMARS)
        config = self._llm.vllm_config.model_config
        _logger.info('vLLM started in %.1f s', time.monotonic() - started_s)
        return ServedModel(str(config.model), int(config.max_model_len))

    async def check_health(self) -> None:
        """Raise a :class:`ServerLostError` if vLLM's engine core is gone."""
        if self._llm is None or self._llm.errored:
            raise ServerLostError("vLLM's engine core ended")

    async def tokens(
        self,
        body: dict[str, Any],
        *,
        session: str = '',  # noqa: ARG002  There is only this machine.
    ) -> AsyncGenerator[Chunk, None]:
        """Yield a completion's tokens as they come, see :class:`Completions`.

        Its ``model`` is the skill set whose adapter writes it.
        """
        if self._llm is None:
            raise ServerLostError("vLLM's engine core ended")
        adapter = self._model.request(body.get('model', EVERY))
        async with aclosing(completion_tokens(self._llm, body, adapter)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """End vLLM."""
        if self._starting is not None:
            with suppress(Exception):
                self._llm = await self._starting
        await self._stop()

    def _start(self) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs

        known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
        arguments = dict(self._arguments())
        unknown = sorted(set(arguments) - known)
        if unknown:
            _logger.warning('this vLLM has no argument %s', ', '.join(unknown))
        kept = {name: value for name, value in arguments.items() if name in known}
        return start_llm(kept | dict(self._more))

    async def _stop(self) -> None:
        llm, self._llm, self._starting = self._llm, None, None
        guard, self._guard, self.pids = self._guard, None, ()
        if llm is not None:
            await asyncio.to_thread(stop_llm, llm)
        if guard is not None:
            # It also ends what vLLM left.
            await asyncio.to_thread(guard.communicate)


def start_guard(pids: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """Start a process that kills others when this one is gone or closes its standard input."""
    return subprocess.Popen(
        [sys.executable, '-S', '-c', _GUARD, *map(str, pids)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
