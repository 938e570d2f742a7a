"""The demo's own model server, where its engine is ``openai`` and no server is named."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import TYPE_CHECKING

from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.demo.processes import Child, Children

START_LIMIT_S = 300.0
"""How long it may take until it serves (s)."""

_PROGRAM = 'import sys; from timely_llm_ros.cli.main import main; sys.exit(main())'


def start_server(children: Children, max_running: int, model: str) -> tuple[Child, str]:
    """Start ``timely-llm serve`` with a model's folder; return the process and its address."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, '-c', _PROGRAM, 'serve', '--port', str(port), '--dtype', 'float32',
        '--max-running', str(max_running), '--model', model,
    ]  # fmt: skip
    return children.start('model_server', command), f'http://127.0.0.1:{port}'


async def wait_until_served(
    child: Child, children: Children, tell: Callable[[float], None]
) -> None:
    """Wait until the server answers; ``tell`` now and then how long it has taken (s).

    Raises:
        TimelyError: It does not answer within the limit, or one of the children ended.
    """
    started_s = told_s = time.monotonic()
    while 'is served at' not in child.log_tail(lines=50):
        children.check()
        now_s = time.monotonic()
        if now_s - started_s > START_LIMIT_S:
            raise TimelyError(f'the model server: not ready after {START_LIMIT_S:g} s')
        if now_s - told_s >= 5:
            told_s = now_s
            tell(now_s - started_s)
        await asyncio.sleep(0.2)
