"""What every engine offers: commands in, segments out, suspension in between.

An engine generates plans for many robots at once. It cuts each generation's text into segments
itself, so that a segment leaves with the token that completes it.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from timely_llm_ros.engines.commands import Cancel, Resume, RobotIdleAt, Submit, Suspend, Warm
from timely_llm_ros.pickling import pickled_as_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.prediction.times import ExecutionTimeModel
    from timely_llm_ros.scheduling import Phase
    from timely_llm_ros.skills import Prompt, Scene, Segment, SkillSet

EndReason = Literal['stop', 'length', 'canceled', 'invalid_plan', 'worthless', 'error']
"""Why a generation ended: its plan is complete, it reached ``max_tokens``, it was cancelled, its
text does not parse against the skill set, its first segment would come too late to be worth more
than the task's floor, or the engine could not go on with it."""


@pickled_as_call
@dataclass(frozen=True, slots=True)
class SegmentGenerated:
    """A segment is complete.

    Attributes:
        token_at_s: When its closing token was known, on the engine's clock (s).
        generation_s: Time that the engine was busy with its tokens (s).
        kv_tokens: Tokens of this generation whose KV is held, the shared prefix included.
        cost_s: What of the engine's time they take where steps are full (s).
    """

    generation_id: str
    segment: Segment
    token_at_s: float
    generation_s: float
    kv_tokens: int
    cost_s: float = 0.0


@pickled_as_call
@dataclass(frozen=True, slots=True)
class GenerationEnded:
    """A generation is over and its KV is free. No later event carries its id.

    Attributes:
        error: What went wrong, empty for ``stop``, ``length`` and ``canceled``.
        tokens: Tokens generated.
        generation_s: Time that the engine was busy with it (s).
        token_ids: The generated token ids, where the engine knows them.
        forwarded: How many of these tokens took no step of the model of their own.
        refused: Whether its request is at fault, so that it would end so wherever it is tried.
    """

    generation_id: str
    reason: EndReason
    error: str
    tokens: int
    generation_s: float
    token_ids: tuple[int, ...] = ()
    forwarded: int = 0
    refused: bool = False


@pickled_as_call
@dataclass(frozen=True, slots=True)
class EvictionDecided:
    """A prompt's KV is complete, and its request's rule said how much of it to keep.

    Attributes:
        at_s: When prefill ended, on the engine's clock (s).
        prompt_tokens: Tokens of the prompt, the shared prefix included.
        evicted_tokens: How many of them gave up their KV.
    """

    generation_id: str
    at_s: float
    prompt_tokens: int
    evicted_tokens: int

    @property
    def share(self) -> float:
        """The share of the prompt's KV that was evicted."""
        return self.evicted_tokens / self.prompt_tokens


@pickled_as_call
@dataclass(frozen=True, slots=True)
class GenerationState:
    """One generation as the scheduler sees it.

    Attributes:
        rank: The policy's latest rank, higher first; NaN where it is not ranked.
        waiting_s: Seconds since it was received, or since its robot has been idle; 0 where the
            robot is busy.
        segments: Segments complete so far.
        kv_tokens: Tokens of its own whose KV is held.
        remaining_tokens: How many tokens are predicted to be left of its plan; NaN without a
            prediction.
    """

    generation_id: str
    phase: Phase
    rank: float
    waiting_s: float
    segments: int
    kv_tokens: int
    remaining_tokens: float = math.nan


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server of an engine that has its model elsewhere.

    Attributes:
        error: Why it does not serve, empty where it does.
        generations: Generations whose KV is there, or that wait for it.
        running: Generations that it serves now.
        step_s: Time between a generation's latest two tokens (s).
        losses: Times that it was lost since the start.
    """

    url: str
    well: bool
    error: str
    generations: int
    running: int
    step_s: float
    losses: int


@pickled_as_call
@dataclass(frozen=True, slots=True)
class EngineState:
    """A snapshot of the engine.

    Attributes:
        running: Generations in the latest step.
        suspended: Generations with KV that were not in it.
        held: Generations that wait for a robot's value or were suspended explicitly.
        queued: Generations not started yet.
        kv_tokens: Tokens whose KV is held, shared prefixes counted once.
        kv_capacity_tokens: The bound on ``kv_tokens``.
        step_s: Duration of the latest step (s).
        spilled: Times that a generation's KV was dropped for lack of room, since the start.
        background: Background generations, which none of the other counts includes.
        servers: The servers of an engine that has its model elsewhere.
        busy_s: Time spent in steps since the start (s), the background's and those ahead of values
            included.
        interrupted: Times that a step of the background was interrupted for a robot, since the
            start; nothing is computed twice for it.
        warm_scenes: Robots' scenes whose KV is computed and that no task uses now.
        warm_tokens: Tokens of KV that are held for such scenes.
        warm_hits: Tasks that found their scene warm, since the start.
        warm_hit_tokens: Prompt tokens that these did not compute.
        ahead_kv_tokens: Tokens of KV that are held for what is written ahead of robots' values.
        ahead_tokens: Tokens written ahead of a value that plans took over, since the start.
        ahead_dropped_tokens: Tokens written ahead of values that did not come, since the start.
        waited_for: Generations whose robots are idle and wait for steps of theirs.
        restored_kv_tokens: Tokens of KV that plans lost and have again before their value comes.
        restored: Plans that had all of it again when their value came, since the start.
    """

    running: int
    suspended: int
    held: int
    queued: int
    kv_tokens: int
    kv_capacity_tokens: int
    step_s: float
    generations: tuple[GenerationState, ...]
    spilled: int = 0
    background: int = 0
    servers: tuple[ServerState, ...] = ()
    busy_s: float = 0.0
    interrupted: int = 0
    warm_scenes: int = 0
    warm_tokens: int = 0
    warm_hits: int = 0
    warm_hit_tokens: int = 0
    ahead_kv_tokens: int = 0
    ahead_tokens: int = 0
    ahead_dropped_tokens: int = 0
    waited_for: int = 0
    restored_kv_tokens: int = 0
    restored: int = 0

    @property
    def spare_kv_tokens(self) -> int:
        """Tokens of KV that were computed in idle time and give way to whoever needs the room."""
        return self.warm_tokens + self.ahead_kv_tokens + self.restored_kv_tokens

    @classmethod
    def together(
        cls, states: Sequence[EngineState], servers: tuple[ServerState, ...], *, waiting: int = 0
    ) -> EngineState:
        """Return the state of several as one, with what waits for any; a step takes their mean."""
        sums: dict[str, Any] = {
            name: sum(getattr(state, name) for state in states)
            for name in cls.__slots__
            if name not in ('generations', 'servers', 'step_s')
        }
        sums['queued'] += waiting
        sums['waited_for'] += waiting
        steps_s = [state.step_s for state in states if state.step_s]
        step_s = sum(steps_s) / len(steps_s) if steps_s else 0.0
        generations = tuple(item for state in states for item in state.generations)
        return cls(**sums, step_s=step_s, generations=generations, servers=servers)


@dataclass(frozen=True, slots=True)
class EngineStateChanged:
    """The state, at most ten times a second and only when something changed."""

    state: EngineState


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine runs.

    Attributes:
        engine: The engine's name, for example ``torch``.
        model: The model's name or path.
        parameters: Parameters of the model; 0 where there is none, or their number is not known.
        dtype: Number format of the model, for example ``float32``.
        vocabulary: Tokens of the vocabulary; 0 where there is none.
        kv_capacity_tokens: The bound on tokens whose KV is held.
        load_s: Time that loading and warming up took (s).
        eviction: How it chooses what to evict; empty where it cannot evict.
        times: How long its prompts and steps take, where it knows.
        tokenizer: Folder with the tokenizer, where ``model`` is not that folder.
        context_tokens: Most tokens of one context; 0 where that is not known.
        messages: Whether it takes prompts as messages, because its servers make the rest of them.
        warms: Whether it computes robots' scenes ahead; others ignore :meth:`Engine.warm`.
        reschedules: Whether it takes another policy while it runs; others ignore ``Reschedule``.
        ranks_plans: Whether lengths of plans are predicted for it, or will be once its policy asks
            for them; without, a policy that ranks whole plans goes by the mean length.
        adapters: Folders of the adapters that write the plans of single skill sets, by their names;
            each has the prompt that it was tuned on.
    """

    engine: str
    model: str
    parameters: int
    dtype: str
    vocabulary: int
    kv_capacity_tokens: int
    load_s: float
    eviction: str = ''
    times: ExecutionTimeModel | None = None
    tokenizer: str = ''
    context_tokens: int = 0
    messages: bool = False
    warms: bool = False
    reschedules: bool = True
    ranks_plans: bool = True
    adapters: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> str:
        """Parameters, where their number is known, and number format of the model, for people."""
        known = f'{self.parameters} parameters, ' if self.parameters else ''
        return known + self.dtype


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """The engine broke down and restarts itself; its generations end with ``error`` after this."""

    error: str


@dataclass(frozen=True, slots=True)
class EngineReady:
    """The engine is back after :class:`EngineFailed`."""

    info: EngineInfo


EngineEvent = (
    SegmentGenerated
    | GenerationEnded
    | EvictionDecided
    | EngineStateChanged
    | EngineFailed
    | EngineReady
)


def deliver(on_event: Callable[[EngineEvent], None], event: EngineEvent) -> None:
    """Call ``on_event``; its exception goes to the running loop's handler, not to the engine."""
    try:
        on_event(event)
    except Exception as err:  # noqa: BLE001 -- the loop's handler gets it, the engine goes on
        asyncio.get_running_loop().call_exception_handler(
            {'message': f'on_event failed for {type(event).__name__}', 'exception': err}
        )


LOADING = 'loading the model'
MEASURING = 'measuring how long steps take'
"""What an engine does while it starts."""


class Engine(Protocol):
    """An engine. Only :meth:`start` and :meth:`close` wait; the rest returns at once.

    An engine derives from this class and implements these two and :meth:`send`. It ignores an
    unknown ``generation_id``, because that generation may just have ended. A request that it cannot
    serve it answers by :class:`GenerationEnded` with reason ``error``.
    """

    async def start(self, on_event: Callable[[EngineEvent], None]) -> EngineInfo:
        """Load the model and begin; call once.

        Args:
            on_event: Called with every event, on the thread of the running asyncio loop.

        Raises:
            ModelLoadError: The model cannot be loaded.
        """
        ...

    @property
    def doing(self) -> str:
        """What it does while it starts, for whoever waits for that."""
        return LOADING

    async def close(self) -> None:
        """Stop and free everything. No event comes after it, not even of generations that live."""
        ...

    def send(self, command: Command) -> None:
        """Do what a command asks for, in the order in which commands are sent."""
        ...

    def submit(self, request: GenerationRequest) -> None:
        """Queue a generation."""
        self.send(Submit(request))

    def suspend(self, generation_id: str) -> None:
        """Hold a generation, its KV and token ids kept, until :meth:`resume`."""
        self.send(Suspend(generation_id))

    def resume(self, generation_id: str, observation: str | None = None) -> None:
        """Go on with a held generation.

        ``observation`` is the value of the blocking call that it waits for, and None after
        :meth:`suspend`. A generation that waits for a value ignores a resume without one.
        """
        self.send(Resume(generation_id, observation))

    def robot_idle_at(self, generation_id: str, idle_at_s: float) -> None:
        """Correct when the robot is expected to run out of work, on the engine's clock (s)."""
        self.send(RobotIdleAt(generation_id, idle_at_s))

    def cancel(self, generation_id: str) -> None:
        """End a generation and free its KV; answers with ``GenerationEnded('canceled')``."""
        self.send(Cancel(generation_id))

    def warm(self, scene_of: str, prompt: Prompt | None, skill_set: SkillSet, scene: Scene) -> None:
        """Compute ahead what a robot's prompts begin with, in idle time; None forgets it."""
        self.send(Warm(scene_of, prompt, skill_set, scene))
