"""Fixtures that tests of several engines share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.engines.tiny_model import write_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope='session')
def chaotic_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp('models') / 'chaotic')


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost servers are tried again soon, and no key comes from outside."""
    from timely_llm_ros.engines.openai import retries
    from timely_llm_ros.engines.openai import server as openai_server
    from timely_llm_ros.engines.openai.options import API_KEY_VARIABLE

    monkeypatch.setattr(openai_server, 'FIRST_RETRY_S', 0.01)
    monkeypatch.setattr(openai_server, 'LAST_RETRY_S', 0.1)
    monkeypatch.setattr(retries, 'LAST_PAUSE_S', 0.1)
    monkeypatch.setattr(retries, 'SLOW_S', 0.15)
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)


@pytest.fixture(scope='session')
def undisturbed_plans() -> dict[int, Any]:
    """How the generations of server runs go undisturbed."""
    from support.engines.completion_server import CompletionServer
    from support.engines.server_runs import GENERATIONS, undisturbed

    async def run() -> dict[int, Any]:
        server = await CompletionServer().start()
        try:
            return await undisturbed(server.url, GENERATIONS)
        finally:
            await server.stop()

    return asyncio.run(run())
