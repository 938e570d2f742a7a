"""An engine without a model: known plans, and step times from a formula.

It runs on the asyncio loop's own time, so a virtual-time loop makes hours pass in seconds. It
shares the scheduler, the segmenter and the KV account with the real engines.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import RobotIdleAt, Submit
from timely_llm_ros.engines.core import KvLedger, LanedCore, Output
from timely_llm_ros.engines.engine import Engine, EngineInfo, deliver
from timely_llm_ros.engines.simulated.step_time import work_of
from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills import common_start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.engines.core import StepPlan
    from timely_llm_ros.engines.engine import EngineEvent
    from timely_llm_ros.engines.simulated.config import LengthSource, PlanText, SimulatedConfig

_PIECE = re.compile(r'[A-Za-z_]+|[0-9]+|\s+|.', re.DOTALL)
"""What counts as one token of a simulated plan."""

_CHARACTERS_PER_PROMPT_TOKEN = 4

_NOTHING = Output('')
"""A token whose text is not complete yet."""


@dataclass(slots=True)
class _Plan:
    """A plan's tokens and how many are out; ``last`` is the number of the one that ends it."""

    pieces: Sequence[str]
    last: int
    done: int = 0
    body: str = ''


class PlanTexts:
    """The simulated backend: tokens are pieces of the plan's text."""

    def __init__(self, plan_text: PlanText, *, evicts: bool = True, forwarded: float = 0.0) -> None:
        self._plan_text, self._forwarded = plan_text, forwarded
        self.evicts = evicts
        self.pauses = False
        self._plans: dict[str, _Plan] = {}

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        """Ask for a request's plan; four characters of a prompt count as a token."""
        plan = self._plan_text(request)
        if isinstance(plan, str):
            # Its end is a token of its own.
            pieces: Sequence[str] = _PIECE.findall(plan)
            last = len(pieces) + 1
        else:
            pieces, last = plan, len(plan)
        self._plans[request.generation_id] = _Plan(pieces, last, body=request.prompt.body)
        fixed, body = request.prompt.fixed, request.prompt.body
        per = _CHARACTERS_PER_PROMPT_TOKEN
        return fixed, -(-len(fixed) // per), max(1, -(-len(body) // per))

    def observe(self, generation_id: str, text: str) -> int:
        """Return the length of an observation (tokens)."""
        if generation_id not in self._plans:
            raise EngineError(f'generation {generation_id!r}: expected one that has not ended')
        return len(_PIECE.findall(text))

    def evict(self, generation_id: str, tokens: int) -> None:
        """Nothing is held."""

    def drop(self, generation_id: str) -> None:
        """Nothing is held."""

    def drop_prefix(self, key: str) -> None:
        """Nothing is held."""

    def take_back(self, generation_id: str, tokens: int) -> None:
        """Nothing is held."""

    def warm(self, request: GenerationRequest) -> tuple[str, int, int, int]:
        """Note a scene's text; what it has in common with the one before keeps its KV."""
        old = self._plans.get(request.generation_id)
        body = request.prompt.body
        self._plans[request.generation_id] = _Plan((), 0, body=body)
        per = _CHARACTERS_PER_PROMPT_TOKEN
        fixed = request.prompt.fixed
        kept = 0 if old is None else common_start(old.body, body) // per
        return fixed, -(-len(fixed) // per), max(1, -(-len(body) // per)), kept

    def common(self, giver: str, taker: str) -> int:
        """Return how many tokens of two prompts are equal from their beginning on."""
        same = common_start(self._plans[giver].body, self._plans[taker].body)
        return same // _CHARACTERS_PER_PROMPT_TOKEN

    def move(self, giver: str, taker: str) -> None:
        """Nothing is held."""

    def fork(self, generation_id: str, branch_id: str, observation: str) -> int:
        """Begin a branch, which has the same plan; return the observation's length (tokens)."""
        self._plans[branch_id] = replace(self._plans[generation_id])
        return self.observe(branch_id, observation)

    def join(self, generation_id: str, branch_id: str) -> None:
        """Go on where a branch is."""
        self._plans[generation_id] = self._plans.pop(branch_id)

    def close(self, generation_id: str) -> tuple[int, ...]:
        """Forget a plan; its tokens' places are their ids."""
        return tuple(range(self._plans.pop(generation_id).done))

    def fast_forward(self, generation_id: str) -> Output | None:
        """Return the next token if it is one that takes no step; never the one that ends a plan."""
        plan, share = self._plans[generation_id], self._forwarded
        if not share or plan.done + 1 == plan.last:
            return None
        follows = int(share * (plan.done + 1)) > int(share * plan.done)
        return self.next(generation_id) if follows else None

    def length(self, generation_id: str) -> int:
        """Return how many tokens a generation's plan takes, its end included."""
        return self._plans[generation_id].last

    def next(self, generation_id: str) -> Output:
        """Return a generation's next token."""
        plan = self._plans[generation_id]
        done = plan.done
        if done == len(plan.pieces):
            return Output('', ended=True)
        plan.done = done + 1
        text, ended = plan.pieces[done], done + 1 == plan.last
        return Output(text, ended) if text or ended else _NOTHING


class SimulatedEngine(Engine):
    """Generates given plans in simulated time."""

    def __init__(self, config: SimulatedConfig) -> None:
        self._lengths = config.lengths
        self._texts = PlanTexts(
            config.plan_text, evicts=bool(config.eviction), forwarded=config.forwarded
        )
        self._step_time = config.paced
        kv = KvLedger(
            config.max_kv_tokens,
            host_capacity=config.host_kv_tokens,
            copying_pays=self._step_time.copying_pays,
        )
        self._core = LanedCore(self._texts, config.core_options(), kv=kv)
        self._max_kv_tokens = config.max_kv_tokens
        self._on_event: Callable[[EngineEvent], None] | None = None
        self._started = False
        self._task: asyncio.Task[None] | None = None
        self._work = asyncio.Event()

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Begin; there is nothing to load."""
        self._started = True
        self._on_event = on_event
        self._task = asyncio.create_task(self._run(), name='simulated engine')
        return EngineInfo(
            'simulated',
            'simulated',
            0,
            'none',
            0,
            self._max_kv_tokens,
            0.0,
            eviction='simulated' if self._texts.evicts else '',
            times=self._step_time.times(),
            warms=True,
        )

    async def close(self) -> None:
        """Stop; no event comes after this."""
        self._on_event = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def send(self, command: Command) -> None:
        """Do what a command asks for."""
        if not self._started:
            raise EngineError('the engine has not started: expected start() before')
        self._core.apply(command)
        if isinstance(command, Submit):
            name = command.request.generation_id
            if self._lengths is not None and name in self._core:
                self._core.predict(name, self._lengths.predict(name, self._texts.length(name)))
        if not isinstance(command, RobotIdleAt):
            self._work.set()

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _run(self) -> None:
        texts = self._texts
        kept: Collection[str] = ()
        while True:
            self._work.clear()
            plan = self._core.plan(self._now_s())
            self._deliver()
            if plan is None:
                if not self._core.prepare():
                    await self._idle()
                continue
            started_s = self._now_s()
            work = work_of(plan, kept, self._core.waiting)
            await asyncio.sleep(self._step_time.step_s(work))
            outputs = [
                _NOTHING if row.generation.ended else texts.next(row.generation.generation_id)
                for row in plan.rows
                if row.samples
            ]
            self._core.complete(plan, outputs, started_s, self._now_s())
            if self._lengths is not None and not plan.background:
                self._refine(self._lengths, plan)
            kept = frozenset(self._core.running)
            self._deliver()

    def _refine(self, lengths: LengthSource, plan: StepPlan) -> None:
        """Predict anew what is left of the plans that got a token."""
        found = {}
        for row in plan.rows:
            name, tokens = row.generation.generation_id, row.generation.tokens
            if row.samples and not row.generation.ended:
                left = lengths.refine(name, tokens, self._texts.length(name))
                if left is not None:
                    found[name] = left
        if found:
            self._core.refine(found)

    async def _idle(self) -> None:
        """Wait for a command; meanwhile bring the last state out."""
        due_s = self._core.state_due_s
        try:
            async with asyncio.timeout_at(due_s):
                await self._work.wait()
        except TimeoutError:
            self._deliver()

    def _deliver(self) -> None:
        events = self._core.take_events()
        state = self._core.take_state(self._now_s())
        if state is not None:
            events.append(state)
        for event in events:
            if self._on_event is not None:
                deliver(self._on_event, event)
