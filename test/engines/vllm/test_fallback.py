"""A vLLM that the scheduler does not fit: the same plans, served a request for each segment."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from support.engines.completion_server import CompletionServer
from support.engines.engine_run import EngineRun
from support.engines.server_runs import GENERATIONS, request

from timely_llm_ros.engines import create_engine
from timely_llm_ros.engines.openai.client import ServerClient
from timely_llm_ros.engines.openai.options import ServerOptions
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.engines.vllm.config import VllmConfig
from timely_llm_ros.engines.vllm.engine import VllmEngine
from timely_llm_ros.engines.vllm.stock import StockVllmEngine
from timely_llm_ros.errors import ConfigurationError, ContractError, ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.openai.completions import Completions

pytestmark = pytest.mark.usefixtures('quick_retries')


def choice_run(options: dict[str, Any]) -> EngineRun:
    """Return a run of engine ``vllm`` whose vLLM is made up: a server on loopback."""
    return EngineRun(create_engine(VllmConfig(**options)))


@pytest.fixture
def broken_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: VllmEngine) -> None:
        raise ContractError('the scheduler does not fit this vLLM: vllm 9.9.9: expected >=0.32')

    monkeypatch.setattr(VllmEngine, '_prepare', refuse)


def serve_from(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    def connect(_self: StockVllmEngine) -> Sequence[Completions]:
        options = ServerOptions((url,))
        return [ServerClient(url, options, api_key='', tls=options.ssl_context())]

    monkeypatch.setattr(StockVllmEngine, '_connect', connect)


@pytest.mark.usefixtures('broken_contract')
async def test_plans_are_the_same_and_the_log_says_what_serves(
    undisturbed_plans: dict[int, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = await CompletionServer().start()
    serve_from(monkeypatch, server.url)
    with caplog.at_level(logging.WARNING):
        async with choice_run({'max_running': 2}) as run:
            assert (run.info.engine, run.info.dtype) == ('vllm', 'float32')
            for number in GENERATIONS:
                run.engine.submit(request(number))
                run.engine.suspend(f'g{number}')
            for number in GENERATIONS:
                run.engine.robot_idle_at(f'g{number}', 0.0)
                run.engine.resume(f'g{number}')
            await run.all_ended(GENERATIONS)
            assert {n: run.plan(n) for n in GENERATIONS} == undisturbed_plans
            run.engine.cancel('g0')
    assert "vLLM's own scheduler serves, a request for each segment" in caplog.text
    assert 'vllm 9.9.9: expected >=0.32' in caplog.text
    assert len(server.requests) > len(GENERATIONS)
    await server.stop()


@pytest.mark.usefixtures('broken_contract')
async def test_the_user_says_how_tokens_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    server = await CompletionServer().start()
    serve_from(monkeypatch, server.url)
    async with choice_run({'sampling': Sampling(0.5, 0.9)}) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
    assert {item.body['temperature'] for item in server.requests} == {0.5}
    assert {item.body['top_p'] for item in server.requests} == {0.9}
    await server.stop()


async def test_any_other_fault_is_not_worked_around(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: VllmEngine) -> None:
        raise ModelLoadError('broken weights')

    monkeypatch.setattr(VllmEngine, '_prepare', refuse)
    with pytest.raises(ModelLoadError, match='broken weights'):
        async with choice_run({}):
            pass


def test_options_are_checked_at_once() -> None:
    with pytest.raises(ConfigurationError, match='max_running 0'):
        VllmConfig(max_running=0)
