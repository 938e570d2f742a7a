"""What the scheduler inside vLLM knows of its generations: an engine core without KV and model.

The same table, policies, costs and segmenters as in every other engine; vLLM does the rest. A
step is::

    ids = core.choose(now_s)            # best rank first
    step = core.begin_step(rows, now_s) # what vLLM made of them
    core.finish_step(step, tokens, now_s)

This module imports no vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from timely_llm_ros.engines.commands import Submit
from timely_llm_ros.engines.core import CoreOptions, ForeignKv, Generations, Output
from timely_llm_ros.engines.texts import TextStream
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.skills import ConstantDuration, Skill, SkillSet, segmenter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.engines.core import Generation
    from timely_llm_ros.engines.engine import (
        EndReason,
        EngineEvent,
        EngineState,
        EngineStateChanged,
    )
    from timely_llm_ros.engines.texts import TokenTexts
    from timely_llm_ros.errors import PlanError
    from timely_llm_ros.skills import Segment, TextSegmenter

UNCUT = SkillSet(
    'uncut',
    'Text that is no plan and is never cut.',
    {'wait': Skill('wait', 'does nothing', (), ConstantDuration(0.0))},
    'wait',
)
"""The skill set of requests that are no plans: whoever else uses the server."""


class Work(NamedTuple):
    """One generation's part in a step.

    Attributes:
        name: Whose.
        tokens: Tokens computed for it in this step.
        computed: Tokens of its whose KV is there after it.
    """

    name: str
    tokens: int
    computed: int


class New(NamedTuple):
    """What a step brought to one generation: new tokens, and vLLM's reason to end it."""

    name: str
    token_ids: Sequence[int]
    reason: EndReason | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step that was begun.

    Attributes:
        generations: Who is in it.
        begun: How many prompts it completes.
        parts: Of how many prompts something is left after it.
        decodes_only: Whether it computes just the latest token of each.
        started_s: When it was scheduled (s).
    """

    generations: tuple[Generation, ...]
    begun: int
    parts: int
    decodes_only: bool
    started_s: float


class FreezeCore:
    """Generations that vLLM computes: which of them run, and their segments.

    Args:
        texts: The tokenizer.
        append: Appends an observation's tokens to a generation's context in vLLM.
        kv_tokens: Returns how many tokens' KV is held.
        options: How generations are scheduled, and what vLLM's bounds are.
    """

    def __init__(
        self,
        texts: TokenTexts,
        *,
        append: Callable[[str, list[int]], None],
        kv_tokens: Callable[[], int],
        options: CoreOptions,
    ) -> None:
        self._texts = _Texts(texts, append)
        self._kv = ForeignKv(options.max_kv_tokens, kv_tokens)
        self._whole_plan = options.mode == 'whole_plan'
        self._generations = Generations(
            self._texts,
            self._kv,
            options,
            context_limit=options.context_limit,
            segmenter=self._cut,
        )
        self._last_end_s = 0.0
        self._unread_s = 0.0
        self._crowded = True
        self.pipeline = False
        """Whether several steps, each of other generations, are under way in stages."""
        self._under_way: list[Step] = []

    def __len__(self) -> int:
        return len(self._generations)

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self._generations

    def add(self, request: GenerationRequest, prompt_tokens: int) -> None:
        """Take a generation whose prompt has that many tokens."""
        self._texts.prompt_tokens = prompt_tokens
        self._generations.apply(Submit(request))

    def apply(self, command: Command) -> None:
        """Do what a command asks for; one that names no generation of these is ignored."""
        self._generations.apply(command)

    def take_events(self) -> list[EngineEvent]:
        """Return the events since the last call, oldest first."""
        return self._generations.take_events()

    def take_state(self, now_s: float, *, at_once: bool = False) -> EngineStateChanged | None:
        """Return the state where it changed; see :meth:`Generations.take_state`."""
        return self._generations.take_state(now_s, at_once=at_once)

    def state(self, now_s: float) -> EngineState:
        """Return a snapshot."""
        return self._generations.state(now_s)

    @property
    def competing(self) -> int:
        """Generations that could run: all but those that are held."""
        table = self._generations.table
        return len(table) - table.count(Phase.HELD)

    def choose(self, now_s: float) -> list[str]:
        """Return who is to run next, best rank first."""
        chosen = self._generations.choose(now_s)
        self._crowded = self.competing > len(chosen)
        return [generation.generation_id for generation in chosen]

    def due_s(self, name: str) -> float:
        """Return when a generation's next segment is due (s).

        Raises:
            KeyError: There is no such generation.
        """
        generation = self._generations.get(name)
        if generation is None:
            raise KeyError(name)
        return self._generations.due_s(generation)

    def phase(self, name: str) -> Phase:
        """Return where a generation stands."""
        return self._generations.table.phase(name)

    def awaits_value(self, name: str) -> bool:
        """Whether a generation waits for its robot's value."""
        generation = self._generations.get(name)
        return generation is not None and generation.awaits_value

    def victims(self, keep: Collection[str]) -> list[str]:
        """Return who may lose its KV, least harmful first: none of ``keep``."""
        others = [
            generation
            for generation in self._generations
            if generation.context.computed and generation.generation_id not in keep
        ]
        return [item.generation_id for item in sorted(others, key=self._generations.harm)]

    def spill(self, name: str) -> None:
        """Note that a generation's KV was dropped."""
        generation = self._generations.get(name)
        if generation is not None:
            self._kv.spill(generation.context)

    def begin_step(self, rows: Iterable[Work], now_s: float) -> Step:
        """Note what vLLM computes next."""
        generations, unread = [], []
        begun, parts, decodes_only = 0, 0, True
        for name, tokens, computed in rows:
            generation = self._generations.get(name)
            if generation is None:
                continue
            generations.append(generation)
            context = generation.context
            if tokens > 1 or not context.computed:
                decodes_only = False
                if computed >= context.tokens:
                    begun += 1
                else:
                    parts += 1
                    if not generation.tokens:
                        unread.append(generation)
            self._kv.compute(context, computed - context.computed)
        running = list(generations)
        for step in self._under_way:
            running += (item for item in step.generations if self._still_runs(item, running))
        self._generations.run(running)
        if not self.pipeline:
            # What is left of a prompt costs the next step as much as a new one's: it competes so.
            for generation in unread:
                self._generations.set_phase(generation, Phase.QUEUED)
        begun_step = Step(tuple(generations), begun, parts, decodes_only, now_s)
        if self.pipeline:
            self._under_way.append(begun_step)
        return begun_step

    def decides(self, news: Iterable[New]) -> bool:
        """Whether a step's tokens may change who is to run in the very next one.

        They do where a generation ends and where its robot must answer first. Whoever completes a
        segment goes on for one more token, which is not lost, and then competes anew, see
        :meth:`compete_anew`; only in a pipeline, where that token would come a round later, it
        gives way at once if others wait. Where nothing is decided, :meth:`finish_step` has time
        while the next step is computed.
        """
        for name, token_ids, reason in news:
            generation = self._generations.get(name)
            if reason is not None or generation is None:
                return True
            segmenter = generation.segmenter
            decisive = self._texts.decisive(segmenter.marks)
            if decisive is None or not decisive.isdisjoint(token_ids):
                if not self._texts.ends.isdisjoint(token_ids) or (self.pipeline and self._crowded):
                    return True
                if segmenter.may_await(self._texts.raw(token_ids)):
                    return True
        return False

    def finish_step(self, step: Step, news: Iterable[New], now_s: float) -> None:
        """Take a step's tokens."""
        if step in self._under_way:
            # Steps end in their order; what lies before this one was given up.
            del self._under_way[: self._under_way.index(step) + 1]
        # With asynchronous scheduling steps overlap: each counts from the end of the one before.
        step_s = self._generations.step_s = now_s - max(step.started_s, self._last_end_s)
        self._last_end_s = now_s
        batch = len(step.generations)
        if batch and step.decodes_only:
            self._generations.step_times.observe(batch, step_s)
        elif batch:
            self._observe_prompts(step, step_s)
        for generation in step.generations:
            generation.segment_s += step_s
            generation.total_s += step_s
        for name, token_ids, reason in news:
            generation_now = self._generations.get(name)
            if generation_now is not None:
                self._take_all(generation_now, token_ids, reason, now_s)
        alive = [generation for generation in step.generations if not generation.ended]
        self._generations.count(alive)

    def compete_anew(self, step: Step) -> None:
        """Let those compete who completed a segment in that step and were begun again since."""
        if self._generations.mode != 'segmented' or self.pipeline:
            return
        for generation in step.generations:
            between = generation.segments and not generation.segment_tokens
            if between and self._generations.phase(generation) is Phase.RUNNING:
                self._generations.set_phase(generation, Phase.SUSPENDED)

    def _observe_prompts(self, step: Step, step_s: float) -> None:
        """Learn from a step with prompts; parts of them count with the step that completes one."""
        sampling = len(step.generations) - step.parts
        if step.begun:
            self._generations.step_times.observe_prefill(
                sampling, step.begun, step_s + self._unread_s
            )
            self._unread_s = 0.0
        else:
            decode_s = self._generations.step_times.expected_s(sampling) if sampling else 0.0
            self._unread_s += max(0.0, step_s - (decode_s or 0.0))

    def _still_runs(self, generation: Generation, others: list[Generation]) -> bool:
        """Whether a generation of another step runs too; one that was held meanwhile does not."""
        runs = not generation.ended and self._generations.phase(generation) is Phase.RUNNING
        return runs and generation not in others

    def _take_all(
        self,
        generation: Generation,
        token_ids: Sequence[int],
        reason: EndReason | None,
        now_s: float,
    ) -> None:
        for token in token_ids:
            if generation.ended:
                return
            self._generations.take(
                generation, self._texts.output(generation.generation_id, token), now_s
            )
        if reason is not None and not generation.ended:
            text = '' if reason in ('length', 'canceled') else 'vLLM ended the generation'
            self._generations.end(generation, 'error' if text else reason, text)

    def _cut(self, request: GenerationRequest) -> TextSegmenter:
        if request.skill_set is UNCUT:
            return _Uncut()
        return segmenter_for(request.skill_set, request.scene, whole_plan=self._whole_plan)


class _Texts:
    """Token ids to text, as the engine core's backend; what it would free, vLLM frees."""

    def __init__(self, texts: TokenTexts, append: Callable[[str, list[int]], None]) -> None:
        self._texts = texts
        self._append = append
        self._streams: dict[str, tuple[TextStream, list[int]]] = {}
        self._decisive: dict[str, frozenset[int]] = {}
        self.prompt_tokens = 0

    def open(self, request: GenerationRequest) -> tuple[str, int, int]:
        self._streams[request.generation_id] = TextStream(), []
        return '', 0, self.prompt_tokens

    def decisive(self, marks: str | None) -> frozenset[int] | None:
        """Return the tokens that have one of the marks or end a text; None where any may decide."""
        if marks is None:
            return None
        known = self._decisive.get(marks)
        if known is None:
            texts, wanted = self._texts, set(marks.encode())
            found = {token for token in range(texts.size) if wanted & {*texts.bytes_of(token)}}
            known = self._decisive[marks] = texts.end_ids | found
        return known

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text."""
        return self._texts.end_ids

    def raw(self, token_ids: Iterable[int]) -> str:
        """Return what tokens say, as far as it can be read without those before."""
        return b''.join(map(self._texts.bytes_of, token_ids)).decode('utf-8', 'replace')

    def output(self, name: str, token: int) -> Output:
        """Return what a new token of a generation says."""
        if token in self._texts.end_ids:
            return Output('', ended=True)
        stream, generated = self._streams[name]
        generated.append(token)
        return Output(stream.push(self._texts.bytes_of(token)))

    def observe(self, generation_id: str, text: str) -> int:
        ids = self._texts.encode(text)
        self._append(generation_id, ids)
        return len(ids)

    @property
    def evicts(self) -> bool:
        """Whether parts of a prompt's KV can be given up; vLLM keeps all of it."""
        return False

    def evict(self, generation_id: str, tokens: int) -> None:
        """Is never called, since nothing evicts here."""

    def drop(self, generation_id: str) -> None:
        """Nothing is held here."""

    def drop_prefix(self, key: str) -> None:
        """Nothing is held here."""

    def close(self, generation_id: str) -> tuple[int, ...]:
        return tuple(self._streams.pop(generation_id)[1])


class _Uncut:
    """A segmenter that finds no segments."""

    marks = ''
    error: PlanError | None = None

    def may_await(self, text: str) -> bool:
        return False

    def push(self, text: str, tokens: int = 1) -> list[Segment]:
        return []

    def observe(self, value: str) -> str:
        raise RuntimeError(f'value {value!r}: no call awaits one')

    def finish(self) -> list[Segment]:
        return []
