"""Policy ``srpt`` on the engine core: limited preemption, and the queue of its theory."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import examples
from support.prediction.noisy_lengths import NoisyLengths

from benchmarks.trail.theory.queue_simulation import simulate_queue
from timely_llm_ros.engines import (
    Cancel,
    GenerationEnded,
    GenerationRequest,
    SegmentGenerated,
    Submit,
)
from timely_llm_ros.engines.core import CoreOptions
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import PlanTexts, SimulatedEngine
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.utility import NORMAL
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.scheduling import ServingMode

SKILLS = find_skill_set('tello')


def plan_of(length: int) -> list[str]:
    """A plan of that many tokens, its end included; the text is complete at the last one."""
    return [*[''] * (length - 1), 'hover;']


@dataclass
class Job:
    arrival: int
    length: int
    predicted: float


@dataclass
class Served:
    """What became of jobs on a core, one step per unit of time."""

    ended: dict[str, int] = field(default_factory=dict)
    ran: list[list[tuple[str, int]]] = field(default_factory=list)
    """Who was in each step, with its age before it."""
    plans: dict[str, int] = field(default_factory=dict)
    peak_kv: int = 0


def serve(
    jobs: list[Job],
    *,
    share: float,
    slots: int = 1,
    mode: ServingMode = 'whole_plan',
    max_kv_tokens: int = 1 << 20,
    noise: NoisyLengths | None = None,
) -> Served:
    texts = PlanTexts(lambda request: plan_of(jobs[int(request.generation_id)].length))
    core = EngineCore(
        texts,
        CoreOptions(
            mode=mode,
            policy='srpt',
            max_running=slots,
            max_kv_tokens=max_kv_tokens,
            prefill_chunk=1 << 20,
            scheduling=SchedulingOptions(
                admission='fixed', interrupts=True, age_bound_s=None, preemption_share=share
            ),
        ),
    )
    served = Served()
    waiting = sorted(range(len(jobs)), key=lambda n: (jobs[n].arrival, n))
    for now in range(10**6):
        while waiting and jobs[waiting[0]].arrival <= now:
            number = waiting.pop(0)
            core.apply(Submit(GenerationRequest(
                    f'{number}', Prompt('f', 'b'), SKILLS, Scene(), NORMAL, float(now),
                    predicted_tokens=jobs[number].predicted,
                )))  # fmt: skip
        plan = core.plan(float(now))
        if plan is None:
            if not waiting:
                return served
            continue
        rows = [row.generation for row in plan.rows]
        served.ran.append([(row.generation_id, row.tokens) for row in rows])
        served.peak_kv = max(served.peak_kv, core.kv.used)
        outputs = [texts.next(row.generation.generation_id) for row in plan.rows if row.samples]
        core.complete(plan, outputs, float(now), now + 1.0)
        if noise is not None:
            lengths = {row.generation_id: jobs[int(row.generation_id)].length for row in rows}
            left = {
                row.generation_id: noise.refine(
                    row.generation_id, row.tokens, lengths[row.generation_id]
                )
                for row in rows
            }
            core.refine({name: it for name, it in left.items() if it is not None})
        for event in core.take_events():
            if isinstance(event, GenerationEnded):
                assert event.reason == 'stop', event
                served.ended[event.generation_id] = now + 1
    raise AssertionError('no end')


def preemptions(served: Served) -> list[tuple[str, int]]:
    """Who was in a step and not in the next although it had not ended, and at which age."""
    found = []
    for number, (before, after) in enumerate(
        zip(served.ran, [*served.ran[1:], []], strict=True), 1
    ):
        inside = {name for name, _ in after}
        for name, age in before:
            if name not in inside and any(
                name == n for step in served.ran[number:] for n, _ in step
            ):
                found.append((name, age + 1))
    return found


def jobs_of(lengths: st.SearchStrategy[float]) -> st.SearchStrategy[list[Job]]:
    job = st.builds(Job, st.integers(0, 60), st.integers(1, 40), lengths)
    return st.lists(job, min_size=1, max_size=25)


@examples(60)
@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=12, unique=True).map(sorted),
    st.randoms(use_true_random=False),
    st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]),
)
def test_one_slot_without_prefill_is_the_queue_of_the_theory(
    arrivals: list[int], rng: random.Random, share: float
) -> None:
    jobs = [Job(at, rng.randint(1, 40), 10.0 * rng.randint(1, 5)) for at in arrivals]
    served = serve(jobs, share=share)
    run = simulate_queue(
        [job.arrival for job in jobs],
        [job.length for job in jobs],
        [job.predicted for job in jobs],
        share,
    )
    # Where one arrives just when another ends, the theory has no step to decide in.
    assume(not set(served.ended.values()) & set(arrivals))
    got = [served.ended[f'{number}'] - job.arrival for number, job in enumerate(jobs)]
    assert got == pytest.approx(run.responses.tolist())
    assert len(preemptions(served)) == run.preemptions


@examples(60)
@given(
    jobs_of(st.floats(0.5, 80)),
    st.floats(0, 1),
    st.integers(1, 4),
    st.none() | st.builds(NoisyLengths, refined=st.just(1.0), every=st.integers(1, 5)),
)
def test_nobody_is_preempted_beyond_its_limit(
    jobs: list[Job], share: float, slots: int, noise: NoisyLengths | None
) -> None:
    served = serve(jobs, share=share, slots=slots, noise=noise)
    assert len(served.ended) == len(jobs)
    assert max(map(len, served.ran)) <= slots
    counts: dict[str, int] = {}
    for name, age in preemptions(served):
        limit = math.floor(round(share * jobs[int(name)].predicted, 9))
        # Preempted at this age, so the age was below the limit when the step was chosen.
        assert age < limit
        counts[name] = counts.get(name, 0) + 1
        assert counts[name] <= limit


@examples(30)
@given(jobs_of(st.floats(1, 80)), st.integers(1, 3))
def test_share_0_is_shortest_predicted_first_without_preemption(
    jobs: list[Job], slots: int
) -> None:
    served = serve(jobs, share=0.0, slots=slots)
    assert not preemptions(served)
    # Written independently: whenever a slot is free, the shortest prediction begins.
    free, ends, now = slots, {}, 0
    waiting = set(range(len(jobs)))
    running: list[tuple[int, int]] = []
    while waiting or running:
        for end, number in [item for item in running if item[0] == now]:
            ends[f'{number}'] = end
            running.remove((end, number))
            free += 1
        ready = [n for n in waiting if jobs[n].arrival <= now]
        ready.sort(key=lambda n: (jobs[n].predicted, jobs[n].arrival, n))
        for number in ready[:free]:
            running.append((now + jobs[number].length, number))
            waiting.remove(number)
        free = slots - len(running)
        now += 1
    assert served.ended == ends


@examples(20)
@given(jobs_of(st.floats(1, 80)), st.floats(0, 1), st.integers(60, 200))
def test_kv_stays_within_its_bound_and_everybody_ends(
    jobs: list[Job], share: float, capacity: int
) -> None:
    served = serve(jobs, share=share, slots=4, max_kv_tokens=capacity)
    assert len(served.ended) == len(jobs)
    assert served.peak_kv <= capacity


def test_between_segments_a_late_generation_is_pausable() -> None:
    plan = 'takeoff;' + 'move_forward(50);move_left(50);' * 6 + 'land;'
    texts = PlanTexts(lambda request: plan if request.generation_id == 'long' else 'hover;')
    core = EngineCore(
        texts,
        CoreOptions(
            policy='srpt',
            max_running=1,
            scheduling=SchedulingOptions(admission='fixed', preemption_share=0.1),
        ),
    )

    def submit(name: str, predicted: float) -> None:
        core.apply(
            Submit(
                GenerationRequest(
                    name, Prompt('f', 'b'), SKILLS, Scene(), NORMAL, now, predicted_tokens=predicted
                )
            )
        )

    now = 0.0
    submit('long', 60.0)
    ran: list[str] = []
    segment_ends: list[int] = []
    submitted = 0
    for step in range(200):
        now = 0.01 * step
        if len(segment_ends) == 2 and step == segment_ends[-1] + 3:
            submit('short', 3.0)
            submitted = step
        step_plan = core.plan(now)
        if step_plan is None:
            break
        (row,) = step_plan.rows
        ran.append(row.generation.generation_id)
        core.complete(step_plan, [texts.next(ran[-1])], now, now + 0.01)
        segment_ends += [
            step
            for event in core.take_events()
            if isinstance(event, SegmentGenerated) and event.generation_id == 'long'
        ]
    began = ran.index('short')
    # It had to wait for the segment in the making, and began right after it.
    assert submitted < began
    assert began - 1 == next(end for end in segment_ends if end >= submitted)
    assert len(segment_ends) > 5


def test_a_segment_is_not_expected_to_outlast_its_plan() -> None:
    texts = PlanTexts(lambda _: 'takeoff;' + 'move_forward(50);' * 8 + 'land;')
    core = EngineCore(texts, CoreOptions(policy='utility', max_running=1))
    expected_s: dict[str, list[float]] = {}
    for name, predicted in (('plain', None), ('short', 4.0)):
        core.apply(
            Submit(
                GenerationRequest(
                    name, Prompt('f', 'b'), SKILLS, Scene(), NORMAL, 0.0, predicted_tokens=predicted
                )
            )
        )
        for step in range(12):
            plan = core.plan(0.01 * step)
            assert plan is not None
            core.complete(plan, [texts.next(name)], 0.01 * step, 0.01 * step + 0.01)
            row = core.generations.table.row(name)
            value = core.generations.table.column('expected_generation_s')[row]
            expected_s.setdefault(name, []).append(float(value))
            if step > 2 and predicted:
                # One token is left at least, at 10 ms.
                assert value <= 0.01 + 1e-9
        core.apply(Cancel(name))
    assert max(expected_s['plain'][3:]) > 0.02


def test_what_watches_a_plan_knows_better_than_its_prompt() -> None:
    core = EngineCore(PlanTexts(lambda _: plan_of(30)), CoreOptions(policy='srpt', mode='stream'))
    core.apply(Submit(GenerationRequest('g', Prompt('f', 'b'), SKILLS, Scene(), NORMAL, 0.0)))
    (before,) = core.state(0.0).generations
    assert math.isnan(before.remaining_tokens)
    core.refine({'g': 12.0, 'gone': 3.0})
    core.generations.predict('g', 50.0)
    core.generations.predict('g', 70.0)
    (after,) = core.state(0.0).generations
    assert after.remaining_tokens == 12.0
    assert core.generations.table.get('g', 'predicted_tokens') == 50.0


def test_a_prediction_that_is_none_ends_the_generation() -> None:
    core = EngineCore(PlanTexts(lambda _: 'hover;'), CoreOptions(policy='srpt'))
    core.apply(
        Submit(
            GenerationRequest(
                'g', Prompt('f', 'b'), SKILLS, Scene(), NORMAL, 0.0, predicted_tokens=math.nan
            )
        )
    )
    (event,) = core.take_events()
    assert isinstance(event, GenerationEnded)
    assert event.reason == 'error'
    assert 'nan' in event.error


@pytest.mark.parametrize('share', [-0.1, 1.1, math.nan])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(ConfigurationError, match='preemption_share'):
        SchedulingOptions(preemption_share=share)


def mean_latency_s(policy: str, **options: Any) -> float:
    """The same 60 plans at the same times on the simulated engine."""
    rng = random.Random(5)
    lengths = [rng.choice([8, 12, 80]) for _ in range(60)]
    ends: dict[str, float] = {}

    async def run() -> float:
        loop = asyncio.get_running_loop()
        engine = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda request: plan_of(lengths[int(request.generation_id)]),
                policy=policy, mode='whole_plan', max_running=2,
                scheduling=SchedulingOptions(interrupts=True),
                **options,
            )
        )  # fmt: skip

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, GenerationEnded):
                ends[event.generation_id] = loop.time()

        await engine.start(on_event)
        arrivals = {}
        for number in range(len(lengths)):
            arrivals[f'{number}'] = loop.time()
            engine.submit(
                GenerationRequest(
                    f'{number}', Prompt('f', 'b'), SKILLS, Scene(), NORMAL, loop.time()
                )
            )
            await asyncio.sleep(rng.expovariate(3.0))
        while len(ends) < len(lengths):
            await asyncio.sleep(0.5)
        await engine.close()
        return sum(ends[name] - at for name, at in arrivals.items()) / len(ends)

    return run_virtual(run())


def test_better_predictions_answer_sooner() -> None:
    fcfs = mean_latency_s('fcfs')
    perfect = mean_latency_s('srpt', lengths=NoisyLengths())
    noisy = mean_latency_s('srpt', lengths=NoisyLengths(first=1.5, refined=0.3))
    unrefined = mean_latency_s('srpt', lengths=NoisyLengths(first=1.5, refined=None))
    assert perfect < noisy < fcfs
    assert perfect < unrefined < fcfs
    assert perfect < 0.6 * fcfs
