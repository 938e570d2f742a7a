"""Drives a vLLM engine from a test: one event loop, one start, many runs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from support.engines.torch_runs import Run

from timely_llm_ros.engines.commands import GenerationRequest, Resume, Submit
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.engine import (
    EngineStateChanged,
    GenerationEnded,
    SegmentGenerated,
)
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.engines.vllm.config import VllmConfig
from timely_llm_ros.engines.vllm.engine import VllmEngine
from timely_llm_ros.engines.vllm.uncut_text import UNCUT_TEXT, UncutText
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from timely_llm_ros.engines.engine import EngineEvent, EngineInfo, ServerState
    from timely_llm_ros.engines.torch.compute.model import LoadedModel
    from timely_llm_ros.engines.vllm.fallback import VllmWithFallback

Result = TypeVar('Result')

LIMIT_S = 240.0
"""Far beyond what any run takes, even on a crowded machine."""


def free_request(number: int, *, max_tokens: int = 48) -> GenerationRequest:
    """A request for text that is never cut; every number has its own prompt."""
    rng = random.Random(number)
    body = ''.join(rng.choice('abcdefghij ,;') for _ in range(20 + number % 50))
    return GenerationRequest(
        f'free{number}',
        Prompt('a part that all of them share; ' * 2, body),
        UNCUT_TEXT,
        Scene(),
        URGENT if number % 3 == 0 else NORMAL,
        0.0,
        max_tokens=max_tokens,
        constrained=False,
    )


def start_asynchronous(arguments: dict[str, Any]) -> Any:
    """Start vLLM with asynchronous scheduling on a CPU, where it switches that off.

    Its worker can do it: steps are scheduled while the one before is computed.
    """
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    config = AsyncEngineArgs(**arguments).create_engine_config()
    config.scheduler_config.async_scheduling = True
    llm = AsyncLLM.from_vllm_config(config)
    assert llm.vllm_config.scheduler_config.async_scheduling
    return llm


class _Numbered(Sampling):
    """Greedy, or drawn by the number in a request's name while its run is seeded."""

    def __init__(self, run: VllmRun) -> None:
        super().__init__()
        object.__setattr__(self, '_run', run)

    def __call__(self, request: GenerationRequest) -> dict[str, Any]:
        run: VllmRun = object.__getattribute__(self, '_run')
        if not run.seeded:
            return {'temperature': 0.0}
        number = int(''.join(c for c in request.generation_id.split('/')[1] if c.isdigit()))
        return {'temperature': 1.0, 'seed': number}


class VllmRun:
    """A started engine and what it has said; requests get new names for every run."""

    def __init__(
        self, kind: type[VllmEngine] | type[VllmWithFallback] = VllmEngine, **options: Any
    ) -> None:
        os.environ.setdefault('VLLM_LOGGING_LEVEL', 'ERROR')
        self.seeded = False
        self._before = _children()
        self.engine = kind(VllmConfig(sampling=_Numbered(self), **options))
        self.ended: dict[str, GenerationEnded] = {}
        self.segments: dict[str, list[SegmentGenerated]] = {}
        self.servers: tuple[ServerState, ...] = ()
        self.others: list[EngineEvent] = []
        self.spilled = self.suspended = self.tokens_in_kv = 0
        self.warm = 0, 0, 0
        self.ahead = 0, 0
        self.patient = False
        self.asked: list[SegmentGenerated] = []
        self._news = asyncio.Event()
        self._runner = asyncio.Runner()
        self._runs = 0
        self.info: EngineInfo = self.do(self.engine.start(self._on_event))

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the engine's loop."""
        return self._runner.run(asyncio.wait_for(work, LIMIT_S))

    @property
    def core_pids(self) -> list[int]:
        """The processes that its vLLM has started: one, where there are no further workers."""
        return sorted(_children() - self._before)

    def close(self) -> None:
        self.do(self.engine.close())
        self._runner.close()

    def _on_event(self, event: EngineEvent) -> None:
        self._news.set()
        match event:
            case GenerationEnded():
                assert event.generation_id not in self.ended
                self.ended[event.generation_id] = event
            case SegmentGenerated():
                self.segments.setdefault(event.generation_id, []).append(event)
                if event.segment.awaits_value and self.patient:
                    self.asked.append(event)
                elif event.segment.awaits_value:
                    self.answer(event)
            case EngineStateChanged():
                self.spilled, self.servers = event.state.spilled, event.state.servers
                self.tokens_in_kv = event.state.kv_tokens
                state = event.state
                self.warm = state.warm_scenes, state.warm_hits, state.warm_hit_tokens
                self.ahead = state.ahead_tokens, state.ahead_dropped_tokens
                self.suspended = max(self.suspended, event.state.suspended + event.state.held)
            case _:
                self.others.append(event)

    def answer(self, event: SegmentGenerated) -> None:
        """Report the value that a segment ends with."""
        self.engine.resume(event.generation_id, value_of(event))

    async def until(self, condition: Any) -> None:
        """Wait for a condition on what was said."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def submit(self, requests: list[GenerationRequest]) -> dict[str, str]:
        """Submit copies under new names; return the old name of each new one."""
        self._runs += 1
        names = {}
        for request in requests:
            name = f'{self._runs}/{request.generation_id}'
            names[name] = request.generation_id
            self.engine.submit(replace(request, generation_id=name, arrival_s=time.monotonic()))
        return names

    async def alone(self, requests: list[GenerationRequest]) -> dict[str, tuple[int, ...]]:
        """Return what each generates by itself, without interruption."""
        found = {}
        for request in requests:
            (name,) = self.submit([request])
            await self.until(lambda name=name: name in self.ended)
            ended = self.ended[name]
            assert ended.reason in ('stop', 'length'), ended
            found[request.generation_id] = ended.token_ids
        return found

    async def torn(
        self, requests: list[GenerationRequest], rng: random.Random, *, cancels: int = 3
    ) -> dict[str, GenerationEnded]:
        """Run them together with random suspensions, resumes, cancels and corrections."""
        names = self.submit(requests)
        held: set[str] = set()
        while any(name not in self.ended for name in names):
            live = [name for name in names if name not in self.ended]
            action, name = rng.random(), rng.choice(live)
            if action < 0.4:
                self.engine.suspend(name)
                held.add(name)
            elif action < 0.7 and held:
                self.engine.resume(held.pop())
            elif action < 0.75 and cancels:
                cancels -= 1
                self.engine.cancel(name)
            elif action < 0.9:
                self.engine.robot_idle_at(name, time.monotonic() + rng.uniform(-0.5, 2.0))
            else:
                # Where all are held, nothing else would ever happen.
                for other in (*held, *names):
                    self.engine.resume(other)
                held.clear()
            await asyncio.sleep(rng.uniform(0.0, 0.01))
        return {old: self.ended[new] for new, old in names.items()}


async def forget_prefixes(run: VllmRun) -> None:
    """Empty vLLM's prefix cache."""
    assert isinstance(run.engine, VllmEngine)
    assert run.engine._process is not None
    assert await run.engine._process._llm.reset_prefix_cache()


class Lent:
    """A run's engine, for somebody else who starts and closes it: it runs on."""

    def __init__(self, run: VllmRun) -> None:
        assert isinstance(run.engine, VllmEngine)
        self._run, self._engine = run, run.engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        self._engine._supervisor._on_event = on_event
        return self._run.info

    async def close(self) -> None:
        self._engine._supervisor._on_event = self._run._on_event


def _children() -> set[int]:
    return {process.pid for process in multiprocessing.active_children() if process.pid}


def value_of(event: SegmentGenerated) -> str:
    """A robot's answer; it depends on the segment alone."""
    return 'true' if len(event.segment.text) % 2 else 'false'


def torch_tokens(loaded: LoadedModel, request: GenerationRequest) -> tuple[int, ...]:
    """Return what the torch engine generates for a request alone; robots answer as here."""
    run = Run(loaded, options={'max_running': 1})
    if not request.constrained:
        assert isinstance(run.core, EngineCore)
        run.core.generations._segmenter = lambda _: UncutText()
    run.core.apply(Submit(request))
    while run.step() or run.awaiting:
        while run.awaiting:
            name = run.awaiting.pop(0)
            run.core.apply(Resume(name, value_of(run.segments[name][-1])))
    for prefix in list(run.backend._prefixes):
        run.backend.drop_prefix(prefix)
    return run.ended[request.generation_id].token_ids


def mismatches(
    found: Mapping[str, GenerationEnded], expected: Mapping[str, tuple[int, ...]]
) -> list[str]:
    """Return those whose tokens differ; a cancelled one must be a beginning."""
    wrong = []
    for name, ended in found.items():
        whole = expected[name]
        assert ended.reason in ('stop', 'length', 'canceled'), ended
        if ended.token_ids != (
            whole[: len(ended.token_ids)] if ended.reason == 'canceled' else whole
        ):
            wrong.append(name)
    return wrong
