"""Plans that no robot waits for, made in the engine time that robots leave over.

The engine gets a few of them at a time, so that it never has to look through thousands, and
decides which of its steps they get.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.engines import GenerationEnded, GenerationRequest, SegmentGenerated
from timely_llm_ros.errors import (
    Ending,
    EngineError,
    InvalidTaskError,
    PlanError,
    ShutdownError,
    TaskCanceledError,
)
from timely_llm_ros.skills import Scene
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from timely_llm_ros.planner.context import PlannerContext
    from timely_llm_ros.skills import Message, Prompt, SkillSet

WINDOW = 32
"""Most background generations that the engine has at a time."""

_TRIES = 2
"""How often a task may be under way when the engine breaks down: it may be the reason."""


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """One plan, or one answer, that no robot waits for.

    Attributes:
        task_id: Unique among the background tasks that have not ended.
        skill_set: Name of the skill set that the plan may use.
        instruction: What to plan, in words.
        scene: The objects that the plan may name.
        max_tokens: Length limit; None for the planner's.
        history: What was said in a chat before.

    Raises:
        InvalidTaskError: The id is empty or the limit below 1.
    """

    task_id: str
    skill_set: str
    instruction: str
    scene: Scene = field(default_factory=Scene)
    max_tokens: int | None = None
    history: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        if not self.task_id:
            raise InvalidTaskError(f'task id {self.task_id!r}: expected some text')
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidTaskError(f'max_tokens {self.max_tokens!r}: expected at least 1')


@dataclass(frozen=True, slots=True)
class BackgroundResult:
    """How a background task ended.

    Attributes:
        ending: Its code is 0, or the ``code`` of a class in ``errors.py``.
        text: The plan, as far as it was generated.
        tokens: Tokens generated.
        generation_s: Seconds that the engine was busy with it.
    """

    task_id: str
    ending: Ending
    text: str
    tokens: int
    generation_s: float


@dataclass(slots=True, eq=False)
class _Run:
    task: BackgroundTask
    prompt: Prompt
    skill_set: SkillSet
    result: asyncio.Future[BackgroundResult]
    text: str = ''
    tries: int = 0


class BackgroundHandle:
    """An accepted background task."""

    def __init__(self, tasks: BackgroundTasks, run: _Run) -> None:
        self._tasks, self._run = tasks, run

    async def result(self) -> BackgroundResult:
        """Return how it ended, once it has; never raises for a task that failed."""
        return await asyncio.shield(self._run.result)

    def cancel(self) -> None:
        """End it; no-op if it has ended."""
        self._tasks.cancel(self._run.task.task_id)


class BackgroundTasks:
    """The planner's background tasks, first come first served."""

    def __init__(
        self,
        context: PlannerContext,
        skill_sets: Mapping[str, SkillSet],
        build_prompt: Callable[[SkillSet, Scene, str, Sequence[Message]], Prompt],
    ) -> None:
        self._context, self._skill_sets = context, skill_sets
        self._build_prompt = build_prompt
        self._queue: deque[_Run] = deque()
        self._runs: dict[str, _Run] = {}
        self._generating: dict[str, _Run] = {}
        self._ready = False

    def __len__(self) -> int:
        """Return how many have not ended."""
        return len(self._runs)

    def submit(self, task: BackgroundTask) -> BackgroundHandle:
        """Accept a task; it then ends exactly once.

        Raises:
            InvalidTaskError: Its skill set is unknown, its id is taken, or it has a bad text.
        """
        skill_set = self._skill_sets.get(task.skill_set)
        if skill_set is None:
            raise InvalidTaskError(
                f'skill set {task.skill_set!r}: expected one of {sorted(self._skill_sets)}'
            )
        if task.task_id in self._runs:
            raise InvalidTaskError(
                f'background task id {task.task_id!r}: expected one that is not in use'
            )
        prompt = self._build_prompt(skill_set, task.scene, task.instruction, task.history)
        run = _Run(task, prompt, skill_set, asyncio.get_running_loop().create_future())
        self._runs[task.task_id] = run
        self._queue.append(run)
        self._fill()
        return BackgroundHandle(self, run)

    def cancel(self, task_id: str) -> None:
        """End a task; no-op if it has ended."""
        run = self._runs.get(task_id)
        if run is not None:
            self._end(run, Ending.of(TaskCanceledError('cancelled by the client')))
            self._fill()

    def engine_ready(self) -> None:
        """Note that the engine takes generations."""
        self._ready = True
        self._fill()

    def engine_failed(self, error: str) -> None:
        """Note that the engine lost its generations; they are tried once more when it is back."""
        self._ready = False
        lost = list(self._generating.values())
        self._generating.clear()
        for run in reversed(lost):
            run.text = ''
            if run.tries >= _TRIES:
                text = f'engine failed {run.tries} times: {error}'
                self._end(run, Ending(EngineError.code, text))
            else:
                self._queue.appendleft(run)

    def close(self) -> None:
        """End every task as SHUTDOWN."""
        self._ready = False
        ending = Ending.of(ShutdownError('the planner is going down'))
        for run in tuple(self._runs.values()):
            self._end(run, ending)

    def on_event(self, event: SegmentGenerated | GenerationEnded) -> None:
        """Take an event of a generation; one of no background task is ignored."""
        run = self._generating.get(event.generation_id)
        if run is None:
            return
        if isinstance(event, SegmentGenerated):
            run.text += event.segment.text
            return
        self._end(run, _ending_of(event, run.skill_set), event.tokens, event.generation_s)
        self._fill()

    def _fill(self) -> None:
        while self._ready and self._queue and len(self._generating) < WINDOW:
            run = self._queue.popleft()
            run.tries += 1
            name = _generation_id(run)
            self._generating[name] = run
            task, config = run.task, self._context.config
            self._context.engine.submit(
                GenerationRequest(
                    generation_id=name,
                    prompt=run.prompt,
                    skill_set=run.skill_set,
                    scene=task.scene,
                    utility=NORMAL,
                    arrival_s=self._context.clock.now(),
                    max_tokens=task.max_tokens or config.max_tokens,
                    constrained=config.constrained,
                    background=True,
                )
            )

    def _end(self, run: _Run, ending: Ending, tokens: int = 0, generation_s: float = 0.0) -> None:
        del self._runs[run.task.task_id]
        name = _generation_id(run)
        if self._generating.pop(name, None) is None:
            with contextlib.suppress(ValueError):
                self._queue.remove(run)
        elif ending.code in (TaskCanceledError.code, ShutdownError.code):
            self._context.engine.cancel(name)
        run.result.set_result(
            BackgroundResult(run.task.task_id, ending, run.text, tokens, generation_s)
        )


def _generation_id(run: _Run) -> str:
    return f'background/{run.task.task_id}'


def _ending_of(event: GenerationEnded, skill_set: SkillSet) -> Ending:
    match event.reason:
        case 'stop':
            return Ending()
        case 'length' if skill_set.free_text is not None:
            return Ending()
        case 'length':
            text = f'the plan has {event.tokens} tokens and no end: expected fewer'
            return Ending(PlanError.code, text)
        case 'invalid_plan' | 'worthless':
            return Ending(PlanError.code, event.error)
        case 'canceled' | 'error':
            return Ending(EngineError.code, event.error or 'the engine dropped the generation')
