"""The engine as it is used: a real worker process behind a real socket."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

pytest.importorskip('torch')

from support.engines.tiny_model import write_model
from support.engines.torch_runs import plan_request
from support.process_table import is_running

from timely_llm_ros.budget.eviction_rule import BudgetedEviction, FixedEviction
from timely_llm_ros.engines import (
    EngineConfig,
    EngineFailed,
    EngineReady,
    EngineStateChanged,
    EvictionDecided,
    GenerationEnded,
    SegmentGenerated,
    create_engine,
    find_engine,
)
from timely_llm_ros.engines.torch import worker
from timely_llm_ros.engines.torch.compute import TorchStopwatch, load_model
from timely_llm_ros.engines.torch.config import TorchConfig
from timely_llm_ros.engines.torch.engine import TorchEngine
from timely_llm_ros.errors import ConfigurationError, ModelLoadError
from timely_llm_ros.scheduling.options import SchedulingOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from timely_llm_ros.engines import EngineEvent, GenerationRequest

pytestmark = pytest.mark.engines
LIMIT_S = 300.0
Event = TypeVar('Event')


class Client:
    """Collects events and lets tests wait for them."""

    def __init__(self, engine: TorchEngine) -> None:
        self.engine = engine
        self.events: list[EngineEvent] = []
        self._news = asyncio.Event()

    def on_event(self, event: EngineEvent) -> None:
        self.events.append(event)
        self._news.set()
        if isinstance(event, SegmentGenerated) and event.segment.awaits_value:
            self.engine.resume(event.generation_id, 'true')

    def of(self, kind: type[Event]) -> list[Event]:
        found: list[Event] = []
        found.extend(event for event in self.events if isinstance(event, kind))
        return found

    async def wait_for(self, kind: type[Event], count: int = 1) -> list[Event]:
        async with asyncio.timeout(LIMIT_S):
            while len(found := self.of(kind)) < count:
                self._news.clear()
                await self._news.wait()
        return found

    def submit(self, number: int, *, max_tokens: int = 40) -> GenerationRequest:
        request = replace(plan_request(number, max_tokens=max_tokens), arrival_s=time.monotonic())
        self.engine.submit(request)
        return request


@pytest.fixture
async def client(chaotic_model: Path) -> AsyncIterator[Client]:
    # Else a long plan of this small model is over in a second, before a busy test ends it.
    engine = create_engine(
        TorchConfig(model_path=str(chaotic_model), max_kv_tokens=4096, min_step_s=0.01)
    )
    assert isinstance(engine, TorchEngine)
    client = Client(engine)
    info = await engine.start(client.on_event)
    assert (info.engine, info.dtype, info.vocabulary) == ('torch', 'float32', 257)
    assert info.parameters > 0
    assert info.load_s > 0
    # It has no predictors.
    assert not info.ranks_plans
    yield client
    await engine.close()


async def test_plans_arrive_segment_by_segment(client: Client) -> None:
    requests = [client.submit(number) for number in range(4)]
    ended = await client.wait_for(GenerationEnded, 4)
    assert {event.generation_id for event in ended} == {r.generation_id for r in requests}
    for event in ended:
        assert event.reason in ('length', 'stop')
        assert event.tokens == len(event.token_ids) <= 40
    segments = [e for e in client.events if isinstance(e, SegmentGenerated)]
    for request in requests:
        own = [e for e in segments if e.generation_id == request.generation_id]
        assert [e.segment.index for e in own] == list(range(len(own)))
        assert all(request.arrival_s < e.token_at_s <= time.monotonic() for e in own)
        assert all(e.generation_s > 0 for e in own)
    assert any(segments)
    # The ended generations' KV is free; only the shared prefixes stay.
    states = await client.wait_for(EngineStateChanged)
    async with asyncio.timeout(LIMIT_S):
        while states[-1].state.generations:
            await asyncio.sleep(0.01)
            states = await client.wait_for(EngineStateChanged)
    assert states[-1].state.kv_tokens == len(requests[0].prompt.fixed)


async def test_cancel_suspend_and_unknown_ids(client: Client) -> None:
    first = client.submit(1, max_tokens=4000)
    client.engine.suspend(first.generation_id)
    client.submit(2)
    (second,) = await client.wait_for(GenerationEnded)
    assert second.generation_id == 'g2'
    client.engine.resume(first.generation_id)
    await client.wait_for(SegmentGenerated)
    client.engine.cancel(first.generation_id)
    client.engine.cancel('nobody')
    client.engine.resume('nobody', 'true')
    client.engine.robot_idle_at('nobody', 0.0)
    canceled = (await client.wait_for(GenerationEnded, 2))[-1]
    assert (canceled.generation_id, canceled.reason) == ('g1', 'canceled')


async def test_a_killed_worker_is_replaced(client: Client) -> None:
    pid = client.engine.worker_pid
    assert pid is not None
    client.submit(1, max_tokens=4000)
    client.submit(2, max_tokens=4000)
    await client.wait_for(SegmentGenerated)
    os.kill(pid, signal.SIGKILL)
    (failed,) = await client.wait_for(EngineFailed)
    assert '-9' in failed.error
    ended = await client.wait_for(GenerationEnded, 2)
    assert [(e.generation_id, e.reason) for e in ended] == [('g1', 'error'), ('g2', 'error')]
    client.submit(3)
    third = (await client.wait_for(GenerationEnded, 3))[-1]
    assert (third.generation_id, third.reason) == ('g3', 'error')
    await client.wait_for(EngineReady)
    assert client.engine.worker_pid not in (None, pid)
    client.submit(4)
    fourth = (await client.wait_for(GenerationEnded, 4))[-1]
    assert (fourth.generation_id, fourth.reason) == ('g4', 'stop')


async def test_interrupts_do_not_reach_the_worker(client: Client) -> None:
    assert client.engine.worker_pid is not None
    os.kill(client.engine.worker_pid, signal.SIGINT)
    client.submit(1)
    await client.wait_for(GenerationEnded)
    assert not any(isinstance(event, EngineFailed) for event in client.events)


async def test_a_missing_torch_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / 'torch.py').write_text('raise ModuleNotFoundError("No module named \'torch\'")')
    write_model(tmp_path / 'model')
    # The worker's too.
    monkeypatch.syspath_prepend(tmp_path)
    engine = TorchEngine(TorchConfig(model_path=str(tmp_path / 'model')))
    with pytest.raises(ModelLoadError, match=r'torch.; expected the packages of the extra "torch"'):
        await engine.start(lambda _: None)


async def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    engine = TorchEngine(TorchConfig(model_path=str(tmp_path / 'nothing')))
    with pytest.raises(ModelLoadError, match=r'nothing.*expected a local folder'):
        await engine.start(lambda _: None)
    (tmp_path / 'config.json').write_text('{"model_type": "nonsense"}')
    (tmp_path / 'tokenizer.json').write_text('{}')
    with pytest.raises(ModelLoadError, match=str(tmp_path)):
        await TorchEngine(TorchConfig(model_path=str(tmp_path))).start(lambda _: None)


@pytest.mark.parametrize(
    ('options', 'problem'),
    [
        ({'max_running': 0}, 'max_running 0'),
        ({'mode': 'batch'}, "mode 'batch'"),
        ({'policy': 'lifo'}, "policy 'lifo'"),
        ({'min_step_s': -1.0}, 'min_step_s'),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        TorchConfig(**options)


def test_unknown_engine() -> None:
    with pytest.raises(ConfigurationError, match=r"'steam'.*simulated.*torch"):
        find_engine('steam')


def test_options_of_no_engine() -> None:
    with pytest.raises(ConfigurationError, match=r'EngineConfig.*TorchConfig'):
        create_engine(EngineConfig())


PARENT = """
import asyncio, sys
from timely_llm_ros.engines import create_engine
from timely_llm_ros.engines.torch import TorchConfig

async def main():
    engine = create_engine(TorchConfig(model_path=sys.argv[1]))
    await engine.start(lambda _: None)
    assert 'torch' not in sys.modules
    print(engine.worker_pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGINT])
def test_a_worker_never_outlives_its_parent(chaotic_model: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, '-c', PARENT, str(chaotic_model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {'PYTHONPATH': os.pathsep.join(sys.path)},
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.send_signal(number)
        parent.wait(LIMIT_S)
    deadline_s = time.monotonic() + LIMIT_S
    while is_running(worker):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_the_worker_gets_every_option_that_the_engine_was_made_with() -> None:
    options = TorchConfig(
        model_path='models/x',
        mode='stream',
        policy='edf',
        max_running=3,
        max_kv_tokens=512,
        prefill_chunk=16,
        device='cpu',
        dtype='float32',
        threads=2,
        min_step_s=0.25,
        scheduling=SchedulingOptions(
            admission='lookahead', interrupts=False, age_bound_s=None, network_s=0.5
        ),
    )
    assert TorchConfig.from_json(options.to_json()) == options


def test_a_slow_model_is_measured_briefly(
    chaotic_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    prefill_s = TorchStopwatch.prefill_s

    def noted(stopwatch: TorchStopwatch, tokens: int, cached: int) -> float:
        computed.append(tokens - cached)
        return prefill_s(stopwatch, tokens, cached)

    monkeypatch.setattr(TorchStopwatch, 'prefill_s', noted)
    # Any model takes longer than no time at all.
    monkeypatch.setattr(worker, 'MEASURE_S', 0.0)
    monkeypatch.setattr(worker, 'REQUESTS_S', 0.0)
    loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
    options = TorchConfig(model_path=str(chaotic_model), max_kv_tokens=4096, max_running=2)
    times = worker.measured(loaded, options, None)
    assert [entry.batch for entry in times.decode] == [1, 2]
    assert max(computed) <= 64
    # One round says what is expected, not how far that is off.
    assert not times.margins


async def test_a_worker_measures_itself_and_evicts(
    chaotic_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level('INFO')
    engine = create_engine(
        TorchConfig(model_path=str(chaotic_model), max_kv_tokens=4096, max_running=2, measure=True)
    )
    assert isinstance(engine, TorchEngine)
    client = Client(engine)
    try:
        info = await engine.start(client.on_event)
        assert info.eviction == 'snapkv'
        assert 'engine torch: measuring how long steps take' in caplog.messages
        assert info.times is not None
        assert [entry.batch for entry in info.times.decode] == [1, 2]
        assert max(margin.coverage for margin in info.times.margins) >= 0.95
        now_s = time.monotonic()
        # Its time is over before it begins: the most is evicted. What that takes and saves is
        # given, because measured beside other work it may take longer than it saves.
        times = replace(info.times.at(1), kv_token_s=1e-3, evicting_token_s=0.0)
        rule = BudgetedEviction(now_s - 1.0, times, 40, 0.75)
        engine.submit(replace(plan_request(1), arrival_s=now_s, eviction=rule))
        (decided,) = await client.wait_for(EvictionDecided)
        assert decided.share == pytest.approx(0.75, abs=0.02)
        await client.wait_for(GenerationEnded)
    finally:
        await engine.close()
    # One that is given up while it starts is closed before anybody asks.
    assert engine.doing == 'measuring how long steps take'


async def test_models_with_a_sliding_window_do_not_evict(tmp_path: Path) -> None:
    folder = write_model(tmp_path / 'mistral', 'mistral')
    engine = create_engine(TorchConfig(model_path=str(folder), max_kv_tokens=512))
    assert isinstance(engine, TorchEngine)
    client = Client(engine)
    try:
        info = await engine.start(client.on_event)
        assert (info.eviction, info.times) == ('', None)
        rule = FixedEviction(0.5)
        engine.submit(replace(plan_request(1, max_tokens=4), eviction=rule))
        await client.wait_for(GenerationEnded)
        assert not any(isinstance(event, EvictionDecided) for event in client.events)
    finally:
        await engine.close()


class Saturated(Client):
    """Keeps a background of eight generations going."""

    def __init__(self, engine: TorchEngine) -> None:
        super().__init__(engine)
        self.sent = self.interrupted = 0
        self.reasons: dict[str, str] = {}

    def on_event(self, event: EngineEvent) -> None:
        super().on_event(event)
        if isinstance(event, EngineStateChanged):
            self.interrupted = event.state.interrupted
        elif isinstance(event, GenerationEnded):
            self.reasons[event.generation_id] = event.reason
            if event.generation_id.startswith('background'):
                self.send()

    def send(self) -> None:
        self.sent += 1
        offline = replace(plan_request(self.sent), generation_id=f'background {self.sent}')
        self.engine.submit(replace(offline, background=True, arrival_s=time.monotonic()))

    async def end_of(self, request: GenerationRequest) -> None:
        while request.generation_id not in self.reasons:
            self._news.clear()
            await self._news.wait()


async def test_robots_interrupt_the_background(chaotic_model: Path) -> None:
    """Which moment a task meets is chance: they come until one has met the middle of a step."""
    engine = TorchEngine(TorchConfig(model_path=str(chaotic_model), max_kv_tokens=4096))
    client = Saturated(engine)
    await engine.start(client.on_event)
    try:
        for _ in range(8):
            client.send()
        async with asyncio.timeout(LIMIT_S):
            number = 0
            while not client.interrupted or client.sent < 20:
                number += 1
                await client.end_of(client.submit(number))
    finally:
        await engine.close()
    assert set(client.reasons.values()) <= {'stop', 'length'}
    assert len(client.reasons) >= number + client.sent - 8
