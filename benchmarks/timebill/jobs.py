"""Jobs for the TimeBill comparison, and an engine in this process that is timed doing them."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from timely_llm_ros.engines import (
    EvictionDecided,
    GenerationEnded,
    GenerationRequest,
    Resume,
    SegmentGenerated,
    Submit,
)
from timely_llm_ros.engines.core import CoreOptions, EngineCore
from timely_llm_ros.engines.torch.compute import TorchBackend
from timely_llm_ros.sample_tasks import KINDS, sample_task
from timely_llm_ros.skills import Prompt, build_prompt
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.budget import EvictionRule
    from timely_llm_ros.engines.core import EvictionMethod
    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.skills import Scene, SkillSet

SIZES = (40, 60, 90, 130, 200)
"""Objects per scene: long prompts, which is where eviction can matter."""

skill_set = cache(find_skill_set)
"""Read once, as a planner does; reading one takes longer than computing a short prompt."""

_CALL = re.compile(r'[^;{}]+')


def skill_f1(plan: str, right: str) -> float:
    """Return the F1 of a plan's calls, each with its arguments, against those of the right one."""
    got, wanted = (Counter(map(str.strip, _CALL.findall(text))) for text in (plan, right))
    common = (got & wanted).total()
    return 2 * common / (got.total() + wanted.total()) if common else 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be generated, and what would be right.

    Attributes:
        number: Its place.
        prompt: What the model reads.
        skills: What a plan may use.
        scene: What it may name.
        right: The right plan or answer.
        score: Says what one is worth beside the right one, from 0 to 1.
    """

    number: int
    prompt: Prompt
    skills: SkillSet
    scene: Scene
    right: str
    score: Callable[[str, str], float] = skill_f1


def make_jobs(
    count: int, seed: int, *, tokens: Callable[[str], int], least_tokens: int
) -> list[Job]:
    """Return that many jobs whose right plans have at least so many tokens.

    Plans that need something seen first take no part: the engine would wait for it.
    """
    rng = random.Random(seed)
    jobs: list[Job] = []
    numbers = [kind.number for kind in KINDS.values()]
    while len(jobs) < count:
        sample = sample_task(rng, rng.choice(numbers), rng.choice(SIZES), scenes='held_out')
        if '#' in sample.plan or tokens(sample.plan) < least_tokens:
            continue
        skills = skill_set(sample.skill_set)
        prompt = build_prompt(skills, sample.scene, sample.instruction)
        jobs.append(Job(len(jobs), prompt, skills, sample.scene, sample.plan))
    return jobs


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job.

    Attributes:
        total_s: From its arrival to its end (s).
        prefill_s: Of that, until its prompt was computed and evicted (s).
        length: Tokens generated, the end included.
        evicted: The share of the prompt's KV that was evicted.
        exact: Whether the plan is exactly right.
        f1: Of its calls.
        steps_s: Single decoding steps (s).
    """

    total_s: float
    prefill_s: float
    length: int
    evicted: float
    exact: bool
    f1: float
    steps_s: list[float] = field(default_factory=list)


class Server:
    """One generation at a time on a loaded model, as the engine's worker does it.

    Prompts' shared beginnings stay computed, grammars compiled.
    """

    def __init__(
        self, loaded: LoadedModel, method: EvictionMethod, *, max_tokens: int, chunk: int
    ) -> None:
        self._texts = loaded.texts
        # TimeBill counts a step for each token.
        self._backend = TorchBackend(loaded, eviction=method, fast_forward=False)
        self._core = EngineCore(
            self._backend,
            CoreOptions(
                mode='stream',
                max_running=8,
                max_kv_tokens=loaded.pool.capacity,
                context_limit=loaded.context_limit,
                prefill_chunk=chunk,
            ),
        )
        self._max_tokens = max_tokens
        self._forced = tuple(loaded.texts.encode('move_forward(100);' * 6))[:16]

    def tokens(self, text: str) -> int:
        """Return the length of a text (tokens)."""
        return len(self._texts.encode(text))

    def fixed_tokens(self, job: Job) -> int:
        """Return the length of a prompt's shared beginning (tokens)."""
        return len(self._texts.fixed_ids(job.prompt))

    def prompt_tokens(self, job: Job) -> int:
        """Return the length of a job's prompt (tokens)."""
        fixed = self.fixed_tokens(job)
        return fixed + len(self._texts.body_ids(job.prompt, beginning=not fixed))

    def prepare(self, job: Job) -> None:
        """Compile a job's grammar and compute the beginning of its prompt that others share."""
        self._serve(job, None, most_tokens=1)

    def serve(self, job: Job, rule: EvictionRule | None) -> Outcome:
        """Do one job now; a rule's times are on ``time.monotonic``."""
        return self._serve(job, rule, most_tokens=self._max_tokens)

    def _serve(self, job: Job, rule: EvictionRule | None, *, most_tokens: int) -> Outcome:
        arrival_s = time.monotonic()
        request = GenerationRequest(
            'job',
            job.prompt,
            job.skills,
            job.scene,
            NORMAL,
            arrival_s,
            max_tokens=most_tokens,
            eviction=rule,
        )
        core, texts, evicted, steps_s = self._core, list[str](), 0.0, list[float]()
        core.apply(Submit(request))
        prefill_s, ended = 0.0, None
        while ended is None:
            started_s = time.monotonic()
            plan = core.plan(started_s)
            assert plan is not None
            outputs = self._backend.execute(plan)
            core.complete(plan, outputs, started_s, time.monotonic())
            now_s = time.monotonic()
            if plan.decodes_only:
                steps_s.append(now_s - started_s)
            else:
                prefill_s = now_s - arrival_s
            for event in core.take_events():
                match event:
                    case SegmentGenerated():
                        texts.append(event.segment.text)
                    case EvictionDecided():
                        evicted = event.share
                    case GenerationEnded():
                        ended = event
            # No robot is there that could answer.
            core.apply(Resume('job', 'true'))
        total_s = time.monotonic() - arrival_s
        text = ''.join(texts)
        exact = ended.reason == 'stop' and _plain(text) == _plain(job.right)
        return Outcome(
            total_s,
            prefill_s,
            ended.tokens + 1,
            evicted,
            exact,
            job.score(text, job.right),
            steps_s,
        )

    def steps_s(self, batch: int, context: int, rule: EvictionRule | None) -> list[float]:
        """Return times of decoding steps of ``batch`` on contexts that were evicted from (s)."""
        skills = skill_set('tello')
        prompt = Prompt('\n' * (context - 2), 'p\n')
        backend, core = self._backend, self._core
        forced = self._forced
        scene = sample_task(random.Random(0), next(iter(KINDS)), 10).scene
        for number in range(batch):
            core.apply(Submit(GenerationRequest(
                    f'g{number}', prompt, skills, scene, NORMAL, time.monotonic(),
                    forced_token_ids=forced, eviction=rule,
                )))  # fmt: skip
        times_s = []
        while (plan := core.plan(time.monotonic())) is not None:
            started_s = time.monotonic()
            outputs = backend.execute(plan)
            ended_s = time.monotonic()
            core.complete(plan, outputs, started_s, ended_s)
            if plan.decodes_only and len(plan.rows) == batch:
                times_s.append(ended_s - started_s)
            core.take_events()
        return times_s[1:]


def _plain(text: str) -> str:
    return ''.join(text.split())
