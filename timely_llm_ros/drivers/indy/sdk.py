"""The driver's end of the process that has the Indy SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.indy.environment import sdk_command
from timely_llm_ros.errors import RobotUnavailableError, SkillFailedError

if TYPE_CHECKING:
    from timely_llm_ros.drivers.indy.options import IndyOptions

_logger = logging.getLogger(__name__)

START_LIMIT_S = 60.0
"""How long the process may take to load the SDK (s): 0.6 s on an idle machine."""

EXIT_LIMIT_S = 5.0
"""How long it may take to end (s) before it is killed."""

GRACE_S = 1.0
"""What the pipe and a busy machine may add to the limit of an operation (s)."""

_ENDED = 'the process of the SDK ended'


class IndySdk:
    """One controller behind its SDK. Used from one asyncio loop."""

    def __init__(self, options: IndyOptions) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._requests = 0

    @property
    def alive(self) -> bool:
        """Whether the process is there and listens."""
        return self._writer is not None

    async def start(self) -> None:
        """Start the process and have it make the SDK's object; nothing is sent to the arm.

        Raises:
            ConfigurationError: There is no environment with the SDK.
            RobotUnavailableError: The process does not come up.
        """
        await self.close()
        ours, theirs = socket.socketpair()
        number = theirs.fileno()
        command = sdk_command(
            'timely_llm_ros.drivers.indy.worker', str(number), python=self._options.sdk_python
        )
        try:
            # What the SDK prints goes to the log, and a Ctrl-C in the terminal not to it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=(number,),
                start_new_session=True,
                env={**os.environ, 'GRPC_VERBOSITY': 'NONE'},
            )
        except OSError as err:
            ours.close()
            raise RobotUnavailableError(f'{command[0]}: {err.strerror}') from err
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._listener = asyncio.get_running_loop().create_task(self._listen(reader))
        await self._ask(
            'open',
            START_LIMIT_S,
            host=self._options.host,
            index=self._options.index,
            limit_s=self._options.answer_limit_s,
        )

    async def close(self) -> None:
        """End the process without stopping the arm; idempotent."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.write(b'{"op": "close"}\n')
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.close()
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None
        self._fail('the driver was closed')
        process, self._process = self._process, None
        if process is not None:
            await asyncio.get_running_loop().run_in_executor(None, _end, process)

    async def call(self, operation: str, **fields: Any) -> Any:
        """Do one operation of ``worker.Sdk`` and return its value.

        Raises:
            RobotUnavailableError: The controller does not answer, or the process is gone.
            SkillFailedError: The SDK or the controller does not take it.
        """
        return await self._ask(operation, self._options.answer_limit_s * 3 + GRACE_S, **fields)

    async def _ask(self, operation: str, patience_s: float, **fields: Any) -> Any:
        if self._writer is None:
            what = _ENDED if self._process is not None else 'expected to be connected'
            raise RobotUnavailableError(f'{self._where}: {what}')
        self._requests += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number := self._requests] = answer
        request = {'id': number, 'op': operation, **fields}
        try:
            self._writer.write((json.dumps(request) + '\n').encode())
            async with asyncio.timeout(patience_s):
                got = await answer
        except TimeoutError:
            raise RobotUnavailableError(
                f'{self._where}: no answer to {operation} within {patience_s:.1f} s'
            ) from None
        finally:
            self._waiting.pop(number, None)
        if 'error' not in got:
            return got['value']
        text = f'{self._where}: {operation}: {got["text"]}'
        if got['error'] == 'lost':
            raise RobotUnavailableError(text)
        raise SkillFailedError(text)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                got = json.loads(line)
                answer = self._waiting.get(got['id'])
                if answer is not None and not answer.done():
                    answer.set_result(got)
        _logger.error('%s: %s', self._where, _ENDED)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._fail(_ENDED)

    def _fail(self, text: str) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result({'error': 'lost', 'text': text})

    @property
    def _where(self) -> str:
        return f'Indy at {self._options.host}'


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(EXIT_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
