"""The ways to serve robots with vLLM that its benchmark compares, each as one coroutine per task.

A way gets a task and a function to call with every segment, and returns when the plan is complete.
All of them see the same prompts; a segment ends with a token that has a semicolon.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines import GenerationEnded, GenerationRequest, SegmentGenerated
from timely_llm_ros.engines.texts import PromptTokens, load_texts
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.vllm import (
    VllmConfig,
    VllmEngine,
    hear_no_more,
    prepare_environment,
)
from timely_llm_ros.engines.vllm.plugin import SCHEDULER
from timely_llm_ros.sample_tasks import sample_task
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import build_prompt
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from timely_llm_ros.utility import TimeUtility

URGENT_KINDS, NORMAL_KINDS = (6, 7, 8), (9, 10, 11)
"""Kinds of task whose plans are calls without conditions: one segment is one call."""

MAX_TOKENS = 160

SETTLE_S = 1.2
"""vLLM's worker goes on looking for work in a loop for a second: another engine's waits for it."""


@dataclass
class Job:
    """One task: what is asked for, and when its segments came (s, monotonic).

    Its ``rules`` are the grammar of its plan as vLLM takes it, empty for none.
    """

    name: str
    request: GenerationRequest
    ids: list[int]
    at_s: float = 0.0
    first_s: float = 0.0
    end_s: float = 0.0
    tokens: int = 0
    segments: int = 0
    plan: str = ''
    urgent: bool = False
    in_time: bool = False
    rules: str = ''
    segment_acts_s: float = 1.0
    idle_s: float = 0.0
    got: list[int] = field(default_factory=list)
    failed: bool = False
    times_s: list[float] = field(default_factory=list)

    @property
    def response_s(self) -> float:
        return self.first_s - self.at_s


class Jobs:
    """Draws tasks, constrained by a grammar or not, and knows their tokens in a model."""

    def __init__(self, model: str = SHIPPED_MODEL, *, constrained: bool = False) -> None:
        self._constrained = constrained
        self.texts = load_texts(find_model(model))
        self._prompts = PromptTokens(self.texts)
        self.ends = {t for t in range(self.texts.size) if b';' in self.texts.bytes_of(t)}
        self._count = 0
        self._drawn: dict[tuple[int, bool], Job] = {}

    def draw(self, seed: int, utility: TimeUtility, *, urgent: bool = False) -> Job:
        """Return the task of a seed, of an urgent or a normal kind; its name is new."""
        known = self._drawn.get((seed, urgent))
        if known is None:
            known = self._drawn[seed, urgent] = self._draw(seed, urgent=urgent)
        self._count += 1
        name = f'{self._count}'
        request = replace(known.request, generation_id=name, utility=utility)
        return replace(known, name=name, request=request, urgent=urgent, got=[], times_s=[])

    def _draw(self, seed: int, *, urgent: bool) -> Job:
        rng = random.Random(seed)
        sample = sample_task(rng, rng.choice(URGENT_KINDS if urgent else NORMAL_KINDS), 8)
        skill_set = find_skill_set(sample.skill_set)
        prompt = build_prompt(skill_set, sample.scene, sample.instruction)
        request = GenerationRequest(
            '', prompt, skill_set, sample.scene, NORMAL, 0.0,
            max_tokens=MAX_TOKENS, constrained=self._constrained,
        )  # fmt: skip
        grammar = decoding_grammar(skill_set, sample.scene, observations=False)
        rules = self.texts.rules(grammar) if self._constrained else ''
        return Job('', request, self.encode(request), plan=sample.plan, rules=rules)

    def encode(self, request: GenerationRequest) -> list[int]:
        """Return a prompt's tokens."""
        fixed, body = self._prompts.of(request)
        return fixed + body

    async def screen(self, client: Stock, seeds: range, *, urgent: bool = False) -> list[int]:
        """Return the seeds whose plans come out right, so that no way ends one before others."""
        drawn = {seed: self.draw(seed, NORMAL, urgent=urgent) for seed in seeds}

        async def generate(job: Job) -> None:
            async for token in client.tokens(job, client.within_grammar(job)):
                if token not in self.texts.end_ids:
                    job.got.append(token)

        await asyncio.gather(*map(generate, drawn.values()))
        texts = self.texts
        return [
            seed
            for seed, job in drawn.items()
            if b''.join(map(texts.bytes_of, job.got)).decode() == job.plan and '{' not in job.plan
        ]


def arguments(slots: int, **more: Any) -> dict[str, Any]:
    """Return vLLM's engine arguments, the same for every way."""
    return {
        'model': find_model(SHIPPED_MODEL), 'dtype': 'float32', 'max_num_seqs': slots,
        'max_num_batched_tokens': 2048, 'max_model_len': 2048, 'block_size': 32,
        'num_gpu_blocks_override': 2049, 'enable_prefix_caching': True, 'enforce_eager': True,
        'kv_cache_memory_bytes': 1 << 30, 'disable_log_stats': True, 'seed': 0,
    } | more  # fmt: skip


class Stock:
    """vLLM as it is, or with our scheduler and vLLM's own client."""

    def __init__(self, jobs: Jobs, **engine_arguments: Any) -> None:
        self.jobs, self._arguments = jobs, engine_arguments
        self.llm: Any = None

    async def start(self) -> None:
        prepare_environment(1)

        def make() -> Any:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            return AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments))

        self.llm = await asyncio.to_thread(make)

    async def close(self) -> None:
        hear_no_more(self.llm)
        await asyncio.to_thread(self.llm.shutdown)

    async def forget(self) -> None:
        """Empty the prefix cache, so that every run computes its prompts."""
        await self.llm.reset_prefix_cache()

    def parameters(self, max_tokens: int = MAX_TOKENS, **more: Any) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        kind = RequestOutputKind.DELTA
        ends = sorted(self.jobs.texts.end_ids)
        return SamplingParams(
            **{'temperature': 0.0, 'stop_token_ids': ends} | more,
            max_tokens=max_tokens, detokenize=False, output_kind=kind,
        )  # fmt: skip

    def within_grammar(self, job: Job) -> Any:
        """Return the parameters of a task's whole plan, within its grammar if it has one."""
        from vllm.sampling_params import StructuredOutputsParams

        if not job.rules:
            return self.parameters()
        return self.parameters(structured_outputs=StructuredOutputsParams(grammar=job.rules))

    async def tokens(self, job: Job, parameters: Any, priority: int = 0) -> AsyncIterator[int]:
        """Yield a request's tokens as they come."""
        prompt = {'prompt_token_ids': job.ids}
        async for out in self.llm.generate(prompt, parameters, job.name, priority=priority):
            for token in out.outputs[0].token_ids:
                job.tokens += 1
                job.times_s.append(time.monotonic())
                yield token

    async def whole(self, job: Job, on_segment: Callable[[], None], *, ranked: bool) -> None:
        """Deliver the plan when it is complete; ``ranked`` uses vLLM's priorities."""
        # Lower goes first: urgent tasks before others, as vLLM's documentation has it.
        priority = int(1000 * job.request.utility.expected_response_s) if ranked else 0
        job.ids = self.jobs.encode(job.request)  # As our engine does.
        async for token in self.tokens(job, self.within_grammar(job), priority):
            job.segments += token in self.jobs.ends
        on_segment()

    async def stream(self, job: Job, on_segment: Callable[[], None]) -> None:
        """Deliver every segment at once; the generation runs on."""
        job.ids = self.jobs.encode(job.request)
        async for token in self.tokens(job, self.within_grammar(job)):
            if token in self.jobs.ends:
                job.segments += 1
                on_segment()

    async def outside(self, job: Job, on_segment: Callable[[], None]) -> None:
        """End the request with every segment and ask anew, first due first, prefix cached.

        It has no grammar: vLLM would begin with it anew in every request.
        """
        ends, last = self.jobs.ends, self.jobs.texts.end_ids
        name, ids, left = job.name, self.jobs.encode(job.request), MAX_TOKENS
        idle_s = 0.0
        due_s = job.at_s + job.request.utility.expected_response_s
        while left > 0:
            job.ids, job.name = ids, f'{name}-{len(ids)}'
            parameters = self.parameters(left, stop_token_ids=sorted(ends | last))
            got = [
                token async for token in self.tokens(job, parameters, int(1000 * due_s) % (1 << 30))
            ]
            if not got or got[-1] not in ends:
                return
            ids, left = ids + got, left - len(got)
            job.segments += 1
            on_segment()
            idle_s = max(idle_s, time.monotonic()) + job.segment_acts_s
            due_s = idle_s


MARGIN_S = 0.03
"""What our scheduler is to reckon with beside its own work: the way of messages, and the step that
is under way. Half of an urgent task's time here."""


CHUNK = 256
"""Most tokens of a step of ours: whoever is urgent waits for the end of one. A prompt has about 150
that are its own, so that one is computed in one step beside all that run."""


async def forget_prefixes(engine: VllmEngine) -> None:
    """Empty an engine's prefix cache."""
    process = engine._process  # noqa: SLF001 (only a benchmark empties it)
    assert process is not None
    await process._llm.reset_prefix_cache()  # noqa: SLF001


class Ours:
    """The vllm engine, its scheduler as the planner node has it, and with steps that are filled."""

    def __init__(self, max_running: int) -> None:
        self._engine = VllmEngine(
            VllmConfig(
                mode='segmented',
                policy='least_loss',
                max_running=max_running,
                max_suspended=96,
                max_kv_tokens=65536,
                prefill_chunk=CHUNK,
                scheduling=SchedulingOptions(
                    admission='lookahead', interrupts=False, fills=True, network_s=MARGIN_S
                ),
            )
        )
        self._jobs: dict[str, tuple[Job, Callable[[], None], asyncio.Event]] = {}

    async def start(self) -> None:
        await self._engine.start(self._on_event)

    async def close(self) -> None:
        await self._engine.close()

    async def forget(self) -> None:
        """Empty the prefix cache, so that every run computes its prompts."""
        await forget_prefixes(self._engine)

    async def serve(self, job: Job, on_segment: Callable[[], None]) -> None:
        """Deliver every segment; who goes on is decided in vLLM."""
        done = asyncio.Event()
        self._jobs[job.name] = job, on_segment, done
        self._engine.submit(replace(job.request, arrival_s=job.at_s))
        await done.wait()

    def _on_event(self, event: Any) -> None:
        if isinstance(event, SegmentGenerated):
            job, on_segment, _ = self._jobs[event.generation_id]
            job.segments += 1
            on_segment()
            job.idle_s = max(job.idle_s, time.monotonic()) + job.segment_acts_s
            self._engine.robot_idle_at(job.name, job.idle_s)
        elif isinstance(event, GenerationEnded):
            job, _, done = self._jobs.pop(event.generation_id)
            job.tokens, job.failed = event.tokens, event.reason not in ('stop', 'invalid_plan')
            done.set()


def plugged(jobs: Jobs, running: int, *, report: str = '', **more: Any) -> Stock:
    """Return vLLM with our scheduler behind vLLM's own client, to see every token.

    Batches are as large as stock's: what is measured is segmentation, not admission.
    """
    plugin = {
        'max_running': running,
        'skill_sets': ['tello', 'arm'],
        'report': report,
        'scheduling': {'admission': 'fixed', 'interrupts': True},
    }
    further = {'scheduler_cls': SCHEDULER, 'additional_config': {'timely': plugin}} | more
    return Stock(jobs, **arguments(running + 32, **further))
