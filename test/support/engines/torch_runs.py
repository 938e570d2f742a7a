"""Drives the engine core on a real model in this process, on a clock of its own."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.budget import FixedEviction
from timely_llm_ros.engines import Cancel, Resume, RobotIdleAt, Submit, Suspend
from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.core.options import CoreOptions
from timely_llm_ros.engines.engine import GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.engines.torch.compute.backend import TorchBackend
from timely_llm_ros.engines.torch.compute.eviction import SnapKv
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt, build_prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.torch.compute.model import LoadedModel
    from timely_llm_ros.errors import PlanError

FIXED_PARTS = ('a fixed part that several of them share; ', 'another fixed part; ')
KINDS = ('cat', 'cup', 'book', 'ball')


class FreeText:
    """A segmenter for any text: a segment every few tokens, no plan language."""

    error: PlanError | None = None
    stops = True

    def __init__(self, tokens: int = 5) -> None:
        self._size = tokens
        self._text = ''
        self._tokens = 0
        self._index = 0

    def push(self, text: str, tokens: int = 1) -> list[Segment]:
        self._text += text
        self._tokens += tokens
        if self._tokens < self._size:
            return []
        segment = Segment(self._index, self._text, (), self._tokens)
        self._index += 1
        self._text, self._tokens = '', 0
        return [segment]

    def finish(self) -> list[Segment]:
        return []


def free_request(number: int, *, length: int = 40, max_tokens: int = 48) -> GenerationRequest:
    """A request for free text; every number has its own prompt."""
    rng = random.Random(number)
    body = ''.join(rng.choice('abcdefghij ,;') for _ in range(length))
    return GenerationRequest(
        f'g{number}',
        Prompt(FIXED_PARTS[number % len(FIXED_PARTS)], body),
        find_skill_set('tello'),
        Scene(),
        URGENT if number % 3 == 0 else NORMAL,
        0.0,
        max_tokens=max_tokens,
        constrained=False,
    )


WAYS: dict[str, dict[str, Any]] = {
    'likeliest': {},
    'drawn': {'sampling': Sampling(1.5, 0.95, 11)},
    'evicted': {'eviction': SnapKv()},
}
"""How tokens are chosen, and from what is left of a prompt: options of a :class:`Run`."""


def evicting_request(number: int) -> GenerationRequest:
    """A plan; of most prompts a part is evicted, where that is possible."""
    rule = FixedEviction((0.0, 0.4, 0.8)[number % 3])
    return replace(plan_request(number), eviction=rule)


def plan_request(number: int, *, max_tokens: int = 40) -> GenerationRequest:
    """A request for a plan within the grammar; every number has its own scene."""
    rng = random.Random(number)
    scene = Scene(
        tuple(
            SceneObject(f'{rng.choice(KINDS)}_{index}', rng.choice(KINDS), x_m=rng.uniform(-4, 4))
            for index in range(2)
        )
    )
    skill_set = find_skill_set('tello')
    prompt = build_prompt(skill_set, scene, f'look at number {number}')
    return GenerationRequest(
        f'g{number}',
        Prompt(prompt.fixed[:60], prompt.body),
        skill_set,
        scene,
        URGENT if number % 3 == 0 else NORMAL,
        0.0,
        max_tokens=max_tokens,
    )


@dataclass
class Run:
    """One run of a core; ``ended`` and ``texts`` are by generation."""

    loaded: LoadedModel
    free: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    kind: type[EngineCore] | type[LanedCore] = EngineCore
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.backend = TorchBackend(
            self.loaded,
            eviction=self.options.pop('eviction', None),
            sampling=self.options.pop('sampling', None),
            fast_forward=self.options.pop('fast_forward', True),
        )
        drafter = self.backend.drafter if self.options.pop('drafts', False) else None
        self.core = self.kind(
            self.backend,
            CoreOptions(**{'max_kv_tokens': self.loaded.pool.capacity} | self.options),
            drafter=drafter,
        )
        if self.free:
            core = self.core
            lanes = (core._robots, core._background) if isinstance(core, LanedCore) else (core,)
            for lane in lanes:
                lane.generations._segmenter = lambda _: FreeText()  # type: ignore[assignment, return-value]
        self.ended: dict[str, GenerationEnded] = {}
        self.segments: dict[str, list[SegmentGenerated]] = {}
        self.awaiting: list[str] = []
        self.values: Counter[str] = Counter()

    def step(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Run one step of 5 ms, of the background until ``stop``; return whether there was one."""
        plan, core = self.core.plan(self.now_s), self.core
        if isinstance(core, LanedCore):
            while plan is None and core.prepare():
                plan = core.plan(self.now_s)
        if plan is not None:
            if isinstance(core, LanedCore) and core.may_interrupt(plan):
                outputs = self.backend.advance(plan, stop)
            else:
                outputs = self.backend.execute(plan)
            if outputs is not None:
                core.complete(plan, outputs, self.now_s, self.now_s + 0.005)
            elif isinstance(core, LanedCore):
                core.interrupt(plan, self.now_s, self.now_s + 0.005)
            assert self.loaded.pool.used == core.kv.used <= core.kv.capacity
        self.now_s += 0.005
        for event in self.core.take_events():
            if isinstance(event, GenerationEnded):
                assert event.generation_id not in self.ended
                self.ended[event.generation_id] = event
            elif isinstance(event, SegmentGenerated):
                self.segments.setdefault(event.generation_id, []).append(event)
                if event.segment.awaits_value:
                    self.awaiting.append(event.generation_id)
        return plan is not None

    def answer(self) -> None:
        """Give one robot's value; it depends on the generation and on how many it has had."""
        name = self.awaiting.pop(0)
        self.values[name] += 1
        true = zlib.crc32(f'{name} {self.values[name]}'.encode()) % 2
        self.core.apply(Resume(name, 'true' if true else 'false'))

    def finish(self) -> None:
        """Run until nothing is left to do."""
        while self.step() or self.awaiting:
            while self.awaiting:
                self.answer()


def alone(
    loaded: LoadedModel, request: GenerationRequest, *, free: bool, **options: Any
) -> tuple[int, ...]:
    """Return what a request generates by itself, without interruption."""
    run = Run(loaded, free=free, options={'max_running': 1, **options})
    run.core.apply(Submit(request))
    run.finish()
    run.core.apply(Cancel(request.generation_id))
    ended = run.ended[request.generation_id]
    assert ended.reason in ('length', 'stop'), ended
    for prefix in list(run.backend._prefixes):
        run.backend.drop_prefix(prefix)
    return ended.token_ids


def interleave(run: Run, requests: list[GenerationRequest], rng: random.Random) -> set[str]:
    """Submit, suspend, resume and cancel at random; return the ids that were cancelled."""
    waiting = list(requests)
    suspended: list[str] = []
    canceled: set[str] = set()
    while waiting or suspended or run.step():
        action = rng.random()
        if waiting and action < 0.4:
            run.core.apply(Submit(waiting.pop()))
        live = [r.generation_id for r in requests if r not in waiting]
        live = [name for name in live if name not in run.ended]
        if live and action < 0.3:
            name = rng.choice(live)
            run.core.apply(Suspend(name))
            suspended.append(name)
        if live and 0.3 < action < 0.34 and len(canceled) < 3:
            name = rng.choice(live)
            run.core.apply(Cancel(name))
            canceled.add(name)
        if live and action > 0.9:
            run.core.apply(RobotIdleAt(rng.choice(live), run.now_s + rng.uniform(-0.5, 2.0)))
        if suspended and action > 0.5:
            run.core.apply(Resume(suspended.pop(rng.randrange(len(suspended)))))
        if run.awaiting and action > 0.6:
            run.answer()
        run.step()
    run.finish()
    return canceled
