"""The engine core inside vLLM's scheduler, without KV and model.

It has the table, policies, costs and segmenters of every other engine; vLLM does the rest. A step
is::

    ids = core.choose(now_s)            # best rank first
    step = core.begin_step(rows, now_s) # what vLLM made of them
    core.end_step(step, now_s)
    core.take(core.decisive(news), now_s)
    core.finish_step(step, others, now_s)   # now, or once the next step is computed

This module imports no vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from timely_llm_ros.engines.commands import Submit
from timely_llm_ros.engines.core import (
    CoreOptions,
    DraftCosts,
    ForeignKv,
    Generations,
    read_ahead,
)
from timely_llm_ros.engines.vllm.plugin.context_texts import ContextTexts
from timely_llm_ros.engines.vllm.uncut_text import UNCUT_TEXT, UncutText
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.skills import segmenter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core import Generation
    from timely_llm_ros.engines.engine import EndReason
    from timely_llm_ros.engines.texts import TokenCodec
    from timely_llm_ros.skills import TextSegmenter


class Work(NamedTuple):
    """One generation's part in a step.

    Attributes:
        tokens: Tokens computed for it in this step.
        computed: Its tokens whose KV is there after the step.
        drafted: Tokens that are guessed and computed behind these.
    """

    name: str
    tokens: int
    computed: int
    drafted: int = 0


class New(NamedTuple):
    """One generation's new tokens, and vLLM's reason to end it."""

    name: str
    token_ids: Sequence[int]
    reason: EndReason | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step that was begun.

    Attributes:
        begun: How many prompts it completes.
        parts: Of how many prompts something is left after it.
        decodes_only: Whether it computes only what each generation's latest step brought.
        tokens: Tokens computed, drafts included.
        started_s: When it was scheduled (s).
    """

    generations: tuple[Generation, ...]
    begun: int
    parts: int
    decodes_only: bool
    tokens: int
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
        texts: TokenCodec,
        *,
        append: Callable[[str, list[int]], None],
        kv_tokens: Callable[[], int],
        options: CoreOptions,
    ) -> None:
        self._texts = ContextTexts(texts, append)
        self._kv = ForeignKv(options.max_kv_tokens, kv_tokens)
        self._whole_plan = options.mode == 'whole_plan'
        self.generations = Generations(
            self._texts,
            self._kv,
            options,
            context_limit=options.context_limit,
            segmenter=self._segmenter,
        )
        """The generations, for commands, events and states."""
        self.draft_costs = DraftCosts()
        """Which drafts are worth their time."""
        self._last_end_s = 0.0
        self._unread_s = 0.0
        self._crowded = True
        self.pipeline = False
        """Whether several steps, each of other generations, are under way in vLLM's stages."""
        self._under_way: list[Step] = []

    def __len__(self) -> int:
        return len(self.generations)

    def __contains__(self, generation_id: object) -> bool:
        return generation_id in self.generations

    def add(self, request: GenerationRequest, prompt_tokens: int) -> None:
        """Take a generation whose prompt has that many tokens."""
        self._texts.prompt_tokens = prompt_tokens
        self.generations.apply(Submit(request))

    @property
    def competing(self) -> int:
        """Generations that could run: all but those that are held."""
        table = self.generations.table
        return len(table) - table.count(Phase.HELD)

    def choose(self, now_s: float) -> list[str]:
        """Return who is to run next, best rank first."""
        chosen = self.generations.choose(now_s)
        self._crowded = self.competing > len(chosen)
        return [generation.generation_id for generation in chosen]

    def due_s(self, name: str) -> float:
        """Return when a generation's next segment is due (s).

        Raises:
            KeyError: There is no such generation.
        """
        generation = self.generations.get(name)
        if generation is None:
            raise KeyError(name)
        return self.generations.due_s(generation)

    def awaits_value(self, name: str) -> bool:
        """Whether a generation waits for its robot's value."""
        generation = self.generations.get(name)
        return generation is not None and generation.awaits_value

    def foresee(self, name: str) -> dict[str, tuple[Generation, list[int]]]:
        """Return what a plan is behind each value that may come, by the value's text.

        Each is a branch, known here until it is closed, with the value's tokens.
        """
        found: dict[str, tuple[Generation, list[int]]] = {}
        plan = self.generations.get(name)
        if plan is None:
            return found
        for text, segmenter in plan.segmenter.foresee().items():
            branch = f'{name} {text}'
            token_ids = self._texts.fork(name, branch, text)
            context = self._kv.open(branch, '', 0, plan.context.tokens + len(token_ids))
            found[text] = plan.branch(context, segmenter), token_ids
        return found

    def read_ahead(self, branch: Generation, token_ids: Sequence[int]) -> bool:
        """Take a branch's new tokens; return whether its plan would send a segment or end."""
        outputs = (self._texts.output(branch.generation_id, token) for token in token_ids)
        return read_ahead(branch, outputs, self.generations.context_limit)[1]

    def close_branch(self, branch: Generation) -> None:
        """Forget a branch."""
        self._texts.close(branch.generation_id)

    def take_ahead(self, name: str, steps: Iterable[tuple[float, New]], now_s: float) -> None:
        """Take what steps of so long (s) brought a plan before its value came.

        What is learned of steps and segments is what it would be if the value had come first.
        """
        generation = self.generations.get(name)
        for step_s, new in steps:
            if generation is None or generation.ended:
                return
            self.generations.spend([generation], step_s)
            self._take_all(generation, new.token_ids, new.reason, now_s)
            if not generation.ended:
                self.generations.count([generation])

    def victims(self, keep: Collection[str], missing: int = 0) -> list[str]:
        """Return who may lose its KV, none of ``keep``: the first of them free so many tokens."""
        others = [
            generation
            for generation in self.generations
            if generation.context.computed and generation.generation_id not in keep
        ]
        return [item.generation_id for item in self.generations.drop_order(others, missing)]

    def spill(self, name: str) -> None:
        """Note that a generation's KV was dropped."""
        generation = self.generations.get(name)
        if generation is not None:
            self._kv.spill(generation.context)
            self.generations.lose_kv(name)

    def begin_step(self, rows: Iterable[Work], now_s: float) -> Step:
        """Note what vLLM computes next."""
        generations, unread = [], []
        begun, parts, decodes_only, total = 0, 0, True, 0
        for name, tokens, computed, drafted in rows:
            total += tokens + drafted
            generation = self.generations.get(name)
            if generation is None:
                continue
            generations.append(generation)
            context = generation.context
            if tokens > generation.brought or not context.computed:
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
        self.generations.run(running)
        if not self.pipeline:
            # The rest of a prompt costs the next step as much as a new prompt, so it is one.
            for generation in unread:
                self.generations.set_phase(generation, Phase.QUEUED)
        begun_step = Step(tuple(generations), begun, parts, decodes_only, total, now_s)
        if self.pipeline:
            self._under_way.append(begun_step)
        return begun_step

    def decisive(self, news: Iterable[New]) -> list[New]:
        """Return those of a step's news that may change who is to run in the very next one.

        They do where a generation ends or must wait for its robot's value. A generation that
        completes a segment goes on for one more token, which is not lost, and then competes anew,
        see :meth:`compete_anew`. Only in a pipeline, where that token would come a round later, it
        gives way at once if others wait.
        """
        return [new for new in news if self._decides(new)]

    def _decides(self, new: New) -> bool:
        generation = self.generations.get(new.name)
        if new.reason is not None or generation is None:
            return True
        decisive = self._texts.decisive(generation.segmenter.marks)
        if decisive is not None and decisive.isdisjoint(new.token_ids):
            return False
        if not self._texts.ends.isdisjoint(new.token_ids) or (self.pipeline and self._crowded):
            return True
        return generation.segmenter.may_await(self._texts.decode(new.token_ids))

    def end_step(self, step: Step, now_s: float) -> None:
        """Note that a step is over; its tokens are still to be taken."""
        if step in self._under_way:
            # Steps end in their order; those before this one were given up.
            del self._under_way[: self._under_way.index(step) + 1]
        # With asynchronous scheduling steps overlap: each counts from the end of the one before.
        step_s = self.generations.step_s = now_s - max(step.started_s, self._last_end_s)
        self._last_end_s = now_s
        batch = len(step.generations)
        if batch and step.decodes_only:
            self.generations.step_times.observe(batch, step_s)
            self.draft_costs.observe(step.tokens, step_s)
        elif batch:
            self._observe_prompts(step, step_s)
        self.generations.spend(step.generations, step_s)

    def take(self, news: Iterable[New], now_s: float) -> None:
        """Take some of a step's tokens."""
        for name, token_ids, reason in news:
            generation = self.generations.get(name)
            if generation is not None:
                self._take_all(generation, token_ids, reason, now_s)

    def finish_step(self, step: Step, news: Iterable[New], now_s: float) -> None:
        """Take the rest of a step's tokens; the next step may be under way by then."""
        self.take(news, now_s)
        alive = [generation for generation in step.generations if not generation.ended]
        self.generations.count(alive)

    def compete_anew(self, step: Step) -> None:
        """Let those compete that completed a segment in a step and have been begun again since."""
        if self.generations.mode != 'segmented' or self.pipeline:
            return
        for generation in step.generations:
            chosen = generation.segment_tokens - generation.segment_forwarded
            if (
                generation.segments
                and not chosen
                and self.generations.phase(generation) is Phase.RUNNING
            ):
                self.generations.set_phase(generation, Phase.SUSPENDED)

    def _observe_prompts(self, step: Step, step_s: float) -> None:
        """Learn from a step with prompts; a part's time counts with the step that completes it."""
        sampling = len(step.generations) - step.parts
        if step.begun:
            self.generations.step_times.observe_prefill(
                sampling, step.begun, step_s + self._unread_s
            )
            self._unread_s = 0.0
        else:
            decode_s = self.generations.step_times.expected_s(sampling) if sampling else 0.0
            self._unread_s += max(0.0, step_s - (decode_s or 0.0))

    def _still_runs(self, generation: Generation, others: list[Generation]) -> bool:
        """Whether a generation of another step still runs."""
        runs = not generation.ended and self.generations.phase(generation) is Phase.RUNNING
        return runs and generation not in others

    def _take_all(
        self,
        generation: Generation,
        token_ids: Sequence[int],
        reason: EndReason | None,
        now_s: float,
    ) -> None:
        for place, token in enumerate(token_ids):
            if generation.ended:
                return
            generation.brought = place + 1
            if place:
                # It took no step: nothing else could follow, or it was guessed.
                generation.forwarded += 1
                generation.segment_forwarded += 1
            self.generations.take(
                generation, self._texts.output(generation.generation_id, token), now_s
            )
        if generation.ended or reason is None:
            return
        if reason == 'length':
            self.generations.cut(generation, now_s)
        else:
            text = '' if reason == 'canceled' else 'vLLM ended the generation'
            self.generations.end(generation, 'error' if text else reason, text)

    def _segmenter(self, request: GenerationRequest) -> TextSegmenter:
        if request.skill_set is UNCUT_TEXT:
            return UncutText()
        return segmenter_for(request.skill_set, request.scene, whole_plan=self._whole_plan)
