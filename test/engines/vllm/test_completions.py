"""A vLLM of this process as a server of completions, over one that is made up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

from timely_llm_ros.engines.openai.completions import PROBE_PLAN
from timely_llm_ros.engines.texts.server_texts import ServerTexts
from timely_llm_ros.engines.tokens import Adapter
from timely_llm_ros.engines.vllm import completions as vllm_completions
from timely_llm_ros.engines.vllm.completions import VllmCompletions
from timely_llm_ros.engines.vllm.model_folder import ModelFolder
from timely_llm_ros.errors import ModelLoadError, RequestRefusedError, ServerLostError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

TEXTS = ServerTexts('timely-planner')
MODEL = ModelFolder('base', 'base', {'arm': Adapter('base/adapters/arm', 'base')})


@dataclass
class Llm:
    """Answers every request with the same chunks."""

    chunks: list[tuple[list[int], str | None]]
    errored: bool = False
    stopped: bool = False
    error: Exception | None = None
    refusal: Exception | None = None
    asked: list[Any] = field(default_factory=list)
    left: int = 0
    prepared: list[str] = field(default_factory=list)
    vllm_config: Any = field(
        default_factory=lambda: SimpleNamespace(
            model_config=SimpleNamespace(model='a-model', max_model_len=99),
            parallel_config=SimpleNamespace(pipeline_parallel_size=2),
        )
    )

    async def generate(
        self, prompt: Any, parameters: Any, _request_id: str, *, lora_request: Any
    ) -> AsyncGenerator[Any, None]:
        self.asked.append((prompt['prompt_token_ids'], parameters, lora_request))
        try:
            for ids, finish in self.chunks:
                output = SimpleNamespace(token_ids=ids, finish_reason=finish)
                yield SimpleNamespace(outputs=[output])
            if self.error is not None:
                raise self.error
        except GeneratorExit:
            self.left += 1
            raise

    async def add_lora(self, adapter: Any) -> None:
        self.prepared.append(adapter.lora_path)
        if self.refusal is not None:
            raise self.refusal

    async def collective_rpc(self, method: str) -> None:
        self.prepared.append(method)

    def shutdown(self) -> None:
        self.stopped = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Llm, dict[str, Any]]]:
    """What was started, with which arguments."""
    found: list[tuple[Llm, dict[str, Any]]] = []

    def start(arguments: dict[str, Any]) -> Llm:
        found.append(
            (Llm([(TEXTS.encode(PROBE_PLAN), None), ([min(TEXTS.end_ids)], 'stop')]), arguments)
        )
        return found[-1][0]

    monkeypatch.setattr(vllm_completions, 'start_llm', start)
    return found


async def test_it_starts_checks_serves_and_ends(
    started: list[tuple[Llm, dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    served = VllmCompletions(lambda: {'model': 'm', 'not_in_this_vllm': 1}, {'seed': 3}, MODEL)
    with pytest.raises(ServerLostError):
        await served.check_health()
    found = await served.check(TEXTS)
    assert (found.name, found.context_limit) == ('a-model', 99)
    assert started[0][1] == {'model': 'm', 'seed': 3}
    assert started[0][0].prepared == ['base/adapters/arm', 'execute_dummy_batch']
    assert 'this vLLM has no argument not_in_this_vllm' in caplog.text
    await served.check_health()
    prompt = [5, 6, 7]
    body = {'prompt': prompt, 'max_tokens': 4, 'stop_token_ids': [1], 'temperature': 0, 'seed': 2}
    chunks = [chunk async for chunk in served.tokens(body)]
    assert chunks[-1].finish == 'stop'
    assert [token for chunk in chunks for token in chunk.token_ids][:-1] == TEXTS.encode(PROBE_PLAN)
    ids, parameters, _ = started[0][0].asked[-1]
    assert (parameters.max_tokens, parameters.stop_token_ids, parameters.seed) == (4, [1], 2)
    # The caller's list grows while vLLM reads this one.
    prompt.append(8)
    assert ids == [5, 6, 7]
    await served.close()
    assert started[0][0].stopped


async def test_a_dead_core_is_a_lost_server_and_the_next_check_starts_another(
    started: list[tuple[Llm, dict[str, Any]]],
) -> None:
    served = VllmCompletions(dict, {}, MODEL)
    await served.check(TEXTS)
    llm = started[0][0]
    llm.error, llm.errored = RuntimeError('EngineCore died'), True
    with pytest.raises(ServerLostError, match='EngineCore died'):
        async for _ in served.tokens({'prompt': [1], 'max_tokens': 9}):
            pass
    with pytest.raises(ServerLostError, match="vLLM's engine core ended"):
        await served.check_health()
    await served.check(TEXTS)
    await served.check_health()
    assert (len(started), llm.stopped) == (2, True)
    await served.close()


async def test_what_vllm_refuses_is_no_lost_server(
    started: list[tuple[Llm, dict[str, Any]]],
) -> None:
    served = VllmCompletions(dict, {}, MODEL)
    await served.check(TEXTS)
    with pytest.raises(RequestRefusedError, match='max_tokens'):
        await anext(served.tokens({'prompt': [1], 'max_tokens': 0}))
    started[0][0].chunks = [([4], 'error')]
    with pytest.raises(RequestRefusedError, match="'error': expected stop or length"):
        await anext(served.tokens({'prompt': [1], 'max_tokens': 1}))
    await served.close()


async def test_an_adapter_writes_what_names_its_skill_set_and_no_other(
    started: list[tuple[Llm, dict[str, Any]]],
) -> None:
    served = VllmCompletions(dict, {}, MODEL)
    await served.check(TEXTS)
    for model in ({'model': 'arm'}, {}):
        async for _ in served.tokens({'prompt': [1], 'max_tokens': 9, **model}):
            pass
    assert [adapter and adapter.lora_path for *_, adapter in started[0][0].asked] == [
        None, 'base/adapters/arm', None,
    ]  # fmt: skip
    await served.close()


async def test_an_adapter_that_vllm_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = Llm([], refusal=ValueError('vLLM does not yet support DoRA.'))
    monkeypatch.setattr(vllm_completions, 'start_llm', lambda _: refusing)
    served = VllmCompletions(dict, {}, MODEL)
    with pytest.raises(ModelLoadError, match=r"^adapter 'base/adapters/arm': vLLM: .* DoRA"):
        await served.check(TEXTS)
    await served.close()
    assert refusing.stopped


async def test_leaving_a_stream_ends_the_request(
    started: list[tuple[Llm, dict[str, Any]]],
) -> None:
    served = VllmCompletions(dict, {}, MODEL)
    await served.check(TEXTS)
    stream = served.tokens({'prompt': [1], 'max_tokens': 9})
    await anext(stream)
    await stream.aclose()
    assert started[0][0].left == 1
    await served.close()


async def test_a_model_that_obeys_no_grammar_and_one_that_does_not_start_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = VllmCompletions(dict, {}, MODEL)
    monkeypatch.setattr(vllm_completions, 'start_llm', lambda _: Llm([([300], 'length')]))
    with pytest.raises(ModelLoadError, match='where the grammar allows only'):
        await served.check(TEXTS)

    refusing = Llm([], error=ValueError('no such grammar'))
    monkeypatch.setattr(vllm_completions, 'start_llm', lambda _: refusing)
    with pytest.raises(ModelLoadError, match='no such grammar; expected vLLM'):
        await served.check(TEXTS)

    def fail(_arguments: dict[str, Any]) -> Llm:
        raise RuntimeError('no memory')

    monkeypatch.setattr(vllm_completions, 'start_llm', fail)
    with pytest.raises(ModelLoadError, match='vLLM did not start: RuntimeError: no memory'):
        await served.check(TEXTS)
    await served.close()


async def test_who_closes_during_the_start_leaves_nothing(
    started: list[tuple[Llm, dict[str, Any]]],
) -> None:
    served = VllmCompletions(dict, {}, MODEL)
    check = asyncio.create_task(served.check(TEXTS))
    while served._starting is None:
        await asyncio.sleep(0)
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check
    await served.close()
    assert all(llm.stopped for llm, _ in started)


def test_the_guard_ends_what_a_killed_process_leaves() -> None:
    code = (
        'import sys, time\n'
        'from timely_llm_ros.engines.vllm.completions import start_guard\n'
        'guard = start_guard((int(sys.argv[1]),))\n'
        'print("there", flush=True)\n'
        'time.sleep(600)\n'
    )
    with subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']) as left:
        with subprocess.Popen(
            [sys.executable, '-c', code, str(left.pid)], stdout=subprocess.PIPE
        ) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b'there\n'
            assert left.poll() is None
            os.kill(owner.pid, signal.SIGKILL)
        assert left.wait(60) == -signal.SIGKILL
