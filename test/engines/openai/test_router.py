"""vLLM's own router in front of servers: resumed generations come back to where their KV is."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.engines.completion_server import CompletionServer
from support.engines.engine_run import LIMIT_S
from support.engines.server_runs import Run, request

from timely_llm_ros.engines.openai import exchange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROUTER = shutil.which('vllm-router', path=Path(sys.executable).parent) or shutil.which(
    'vllm-router'
)
NUMBERS = range(12)

pytestmark = [
    pytest.mark.usefixtures('quick_retries'),
    pytest.mark.skipif(ROUTER is None, reason='vllm-router: expected on the PATH (PyPI has it)'),
]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@asynccontextmanager
async def router(policy: str, servers: list[CompletionServer], folder: Path) -> AsyncIterator[str]:
    """Run the router; yield its address."""
    port, metrics = free_ports(2)
    with (folder / 'router.log').open('wb') as log:
        process = subprocess.Popen(
            [
                *(str(ROUTER), '--host', '127.0.0.1', '--port', str(port), '--policy', policy),
                *('--prometheus-port', str(metrics), '--worker-urls'),
                *(server.url for server in servers),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f'http://127.0.0.1:{port}'
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, LIMIT_S)


async def served(policy: str, folder: Path) -> tuple[list[CompletionServer], Run]:
    """Serve plans that give way to one another at their segments; every request is kept."""
    servers = [await CompletionServer().start() for _ in range(3)]
    try:
        async with (
            router(policy, servers, folder) as url,
            Run([url], {'max_running': 3, 'start_limit_s': LIMIT_S}) as run,
        ):
            for number in NUMBERS:
                run.engine.submit(request(number))
            await run.all_ended(NUMBERS)
    finally:
        for server in servers:
            await server.stop()
    return servers, run


def resumes(servers: list[CompletionServer]) -> tuple[int, int]:
    """Return how many requests went on with a generation, and how many of them elsewhere."""
    sent = [
        (len(one.body['prompt']), number, one.body['prompt'])
        for number, server in enumerate(servers)
        for one in server.requests
    ]
    begun: list[list[tuple[int, list[int]]]] = []
    for _, number, prompt in sorted(sent):
        for earlier in begun:
            if prompt[: len(earlier[0][1])] == earlier[0][1]:
                earlier.append((number, prompt))
                break
        else:
            begun.append([(number, prompt)])
    moves = [a != b for made in begun for (a, _), (b, _) in pairwise(made)]
    return len(moves), sum(moves)


@pytest.mark.parametrize('policy', ['consistent_hash', 'sticky_least_loaded'])
async def test_behind_a_sticky_router_no_resume_is_away_from_its_kv(
    policy: str, tmp_path: Path, undisturbed_plans: dict[int, Any]
) -> None:
    servers, run = await served(policy, tmp_path)
    count, away = resumes(servers)
    print(f'{policy}: {count} resumes, {away} away from their KV')
    assert count > len(NUMBERS)
    assert away == 0
    assert sum(bool(server.requests) for server in servers) > 1
    assert {n: run.plan(n) for n in undisturbed_plans} == undisturbed_plans


async def test_without_a_session_it_would_scatter_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the count above can tell the difference."""
    monkeypatch.setattr(exchange, 'SESSION_HEADER', 'X-Nothing')
    servers, _ = await served('consistent_hash', tmp_path)
    count, away = resumes(servers)
    print(f'no session: {count} resumes, {away} away from their KV')
    assert away > count // 4
