"""The step's share of tokens in a pipeline, over requests that have what vLLM's have."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.engines.vllm.plugin.token_budget import Composed, PipelineBudget
from timely_llm_ros.scheduling.microbatch import LinearCosts, PipelineModel
from timely_llm_ros.scheduling.pipeline_times import ENOUGH, PipelineTimes


@dataclass(eq=False)
class Request:
    """One of vLLM's requests, as far as a budget looks."""

    name: str
    prompt: int
    due_s: float = 1e9
    output: int = 0
    num_computed_tokens: int = 0
    num_output_placeholders: int = 0
    inside: bool = False
    steps: list[int] = field(default_factory=list)

    @property
    def num_tokens_with_spec(self) -> int:
        return self.prompt + self.output

    @property
    def left(self) -> int:
        return self.num_tokens_with_spec - self.num_computed_tokens


class Vllm:
    """Schedules as vLLM does: those inside first, then those that enter, while tokens last."""

    def __init__(self, stages: int, *, most: int | None = None, most_tokens: int = 256) -> None:
        self.budget = PipelineBudget(
            stages,
            most_micro_batches=stages if most is None else most,
            most_tokens=most_tokens,
            due_s=lambda request: request.due_s,
        )
        self.depth = stages
        self.requests: list[Request] = []
        self.flying: list[dict[Request, int]] = []
        self.now_s = 0.0

    def schedule(self) -> dict[Request, int]:
        running = [request for request in self.requests if request.inside]
        entering = [request for request in self.requests if not request.inside]
        step = self.budget.compose(running, entering, self.now_s)
        scheduled = self._fill(step)
        tokens = sum(scheduled.values())
        known = sum(request.num_computed_tokens for request in scheduled)
        self.budget.entered(tokens, self.now_s, known - tokens)
        self.flying.append(scheduled)
        return scheduled

    def _fill(self, step: Composed) -> dict[Request, int]:
        left, scheduled = step.tokens, {}
        for request in (*step.running, *step.entering):
            tokens = min(request.left, left)
            if tokens:
                request.inside = True
                request.num_computed_tokens += tokens
                request.steps.append(tokens)
                scheduled[request] = tokens
                left -= tokens
        return scheduled

    def update(self) -> None:
        scheduled = self.flying.pop(0)
        self.budget.left(sum(scheduled.values()), self.now_s)
        for request in scheduled:
            if not request.left:
                request.output += 1

    def run(self, steps: int, step_s: float = 0.01) -> list[dict[Request, int]]:
        """Keep the pipeline full for so many steps and return them."""
        done = []
        for _ in range(steps):
            while len(self.flying) < self.depth:
                done.append(self.schedule())
            self.now_s += step_s
            self.update()
        return done


class Known(PipelineTimes):
    """Times that are known from the beginning."""

    def __init__(self, costs: LinearCosts) -> None:
        super().__init__(2)
        self._known = costs

    @property
    def costs(self) -> LinearCosts:
        return self._known


def decoding(name: str, context: int = 20) -> Request:
    return Request(name, context, num_computed_tokens=context, output=1, inside=True)


def test_those_who_decode_are_shared_evenly_between_steps() -> None:
    vllm = Vllm(4)
    vllm.requests = [decoding(f'g{number}') for number in range(8)]
    assert [len(step) for step in vllm.run(9)[:12]] == [2] * 12


def test_a_prompt_is_shared_evenly_between_steps() -> None:
    vllm = Vllm(4)
    vllm.requests = [decoding(f'g{number}') for number in range(4)]
    vllm.run(8)
    new = Request('new', 101)
    vllm.requests.append(new)
    vllm.run(8)
    assert new.steps[:4] == [26, 25, 25, 25]


def test_an_urgent_prompt_goes_first_and_whole() -> None:
    vllm = Vllm(2, most_tokens=100)
    vllm.requests = [decoding('decodes'), Request('long', 400)]
    vllm.run(3)
    long = vllm.requests[1]
    assert long.inside
    computed = long.num_computed_tokens
    urgent = Request('urgent', 70, due_s=vllm.now_s - 1.0)
    vllm.requests.append(urgent)
    vllm.run(1)
    assert urgent.steps == [70]
    assert long.num_computed_tokens == computed
    vllm.run(12)
    assert long.left <= 1


SLOW_LINKS = LinearCosts(0.001, 0.0, 0.02, 0.001)


@pytest.mark.parametrize(
    ('left_s', 'micro_batches', 'first_tokens'),
    [
        (10.0, 3, 14),  # A clearly shorter round than algorithm 2's four.
        (0.2435, 4, 10),  # Three would have the first token after 0.245 s, four after 0.242 s.
        (0.23, 3, 40),  # Late if shared out: urgent, and so in one step, after 0.229 s.
        (0.1, 4, 40),  # Late anyhow: the earliest, after 0.22 s.
    ],
)
def test_the_tightest_deadline_limits_the_micro_batches(
    left_s: float, micro_batches: int, first_tokens: int
) -> None:
    vllm = Vllm(4)
    vllm.budget.times = Known(SLOW_LINKS)
    vllm.requests = [decoding(f'g{number}', 0) for number in range(16)]
    new = Request('new', 40, due_s=left_s)
    vllm.requests.append(new)
    vllm.schedule()
    assert vllm.budget.micro_batches == micro_batches
    assert new.steps == [first_tokens]


@given(
    stages=st.integers(2, 6),
    most=st.integers(1, 10),
    decodes=st.integers(0, 40),
    prompts=st.lists(st.tuples(st.integers(2, 500), st.floats(-1.0, 5.0)), max_size=6),
    context=st.integers(0, 2000),
    costs=st.builds(
        LinearCosts,
        compute_base_s=st.floats(1e-4, 0.05),
        compute_token_s=st.floats(0.0, 1e-3),
        transfer_base_s=st.floats(0.0, 0.05),
        transfer_token_s=st.floats(0.0, 1e-3),
        context_token_s=st.floats(0.0, 1e-5),
    ),
)
def test_the_count_is_the_sure_one_unless_a_deadline_would_be_missed(
    stages: int,
    most: int,
    decodes: int,
    prompts: list[tuple[int, float]],
    context: int,
    costs: LinearCosts,
) -> None:
    vllm = Vllm(stages, most=most, most_tokens=4096)
    vllm.budget.times = Known(costs)
    vllm.requests = [decoding(f'g{number}', context) for number in range(decodes)]
    new = [Request(f'n{number}', *prompt) for number, prompt in enumerate(prompts)]
    vllm.requests += new
    scheduled = vllm.schedule()
    count = vllm.budget.micro_batches
    prefill, contexts = sum(item.prompt for item in new), decodes * context
    model = PipelineModel(stages, most, costs)
    usual = model.sure_count(decodes + prefill, contexts)

    def shared_s(number: int) -> float:
        return model.prefill_first_token_s(
            number, decodes, prefill, urgent=False, context_tokens=contexts
        )

    if not new:
        assert count == usual
        return
    due_s = min(item.due_s for item in new)
    counts = range(1, max(1, min(most, decodes + prefill)) + 1)
    in_time = [number for number in counts if shared_s(number) <= due_s]
    if shared_s(usual) <= due_s:
        assert count == usual
    elif in_time:
        assert count in in_time
    else:
        # The tightest one goes before all others, as a whole.
        first = min(new, key=lambda item: item.due_s)
        assert scheduled[first] == first.prompt
    assert all(item.due_s >= shared_s(count) or item in scheduled for item in new)


def test_what_others_share_counts_against_a_deadline() -> None:
    """Alone it could be shared out in 0.245 s; beside a long prompt it would be late."""
    vllm = Vllm(4)
    vllm.budget.times = Known(SLOW_LINKS)
    vllm.requests = [decoding(f'g{number}', 0) for number in range(16)]
    new, long = Request('new', 40, due_s=0.3), Request('long', 400)
    vllm.requests += [long, new]
    assert [request for request in vllm.schedule() if not request.output] == [new, long]
    assert new.steps == [40]


def test_long_contexts_are_spread_over_more_micro_batches() -> None:
    counts = []
    for context in (20, 10_000):
        vllm = Vllm(4, most=8)
        vllm.budget.times = Known(LinearCosts(0.001, 0.0, 0.02, context_token_s=1e-6))
        vllm.requests = [decoding(f'g{number}', context) for number in range(8)]
        vllm.schedule()
        counts.append(vllm.budget.micro_batches)
    assert counts == [3, 6]


@pytest.mark.parametrize(
    ('way_s', 'micro_batches'),
    [
        (0.064, 1),  # Links are the slower ones: four steps would take 0.08 s.
        (0.083, 4),  # Stages are: four steps fill them.
    ],
)
def test_the_count_follows_from_what_was_measured(way_s: float, micro_batches: int) -> None:
    vllm = Vllm(4)
    vllm.requests = [decoding(f'g{number}') for number in range(16)]
    for _ in range(3 * ENOUGH):
        vllm.schedule()
        vllm.now_s += way_s
        vllm.update()
    before = vllm.budget.times.costs
    assert before is None, 'no step has followed another one yet'
    assert vllm.budget.micro_batches == 4
    for _ in range(2 * ENOUGH):
        vllm.schedule()
        vllm.schedule()
        vllm.now_s += way_s
        vllm.update()
        vllm.now_s += 0.02
        vllm.update()
    assert vllm.budget.times.costs is not None
    assert vllm.budget.micro_batches == micro_batches


@given(
    stages=st.integers(2, 4),
    most_tokens=st.integers(8, 120),
    seed=st.integers(0, 9999),
)
@examples(60)
def test_everybody_is_served_and_no_step_is_too_large(
    stages: int, most_tokens: int, seed: int
) -> None:
    rng = random.Random(seed)
    vllm = Vllm(stages, most_tokens=most_tokens)
    coming = [
        Request(f'g{number}', rng.randint(1, 150), due_s=rng.uniform(-1.0, 3.0))
        for number in range(rng.randint(1, 8))
    ]
    everybody = list(coming)
    wanted = {request: rng.randint(1, 6) for request in everybody}
    for _ in range(4000):
        if coming and rng.random() < 0.3:
            vllm.requests.append(coming.pop())
        if vllm.requests and rng.random() < 0.02:
            # Cancelled: what was announced for it must not be waited for.
            gone = vllm.requests.pop(rng.randrange(len(vllm.requests)))
            everybody.remove(gone)
        for step in vllm.run(1, rng.uniform(0.001, 0.02)):
            assert sum(step.values()) <= most_tokens
        vllm.requests = [item for item in vllm.requests if item.output < wanted[item]]
        if not coming and not vllm.requests:
            break
    assert all(item.output >= wanted[item] for item in everybody)


def test_a_pool_that_gives_room_for_less_comes_back_to_the_share() -> None:
    """What vLLM could not place is announced again, not lost."""
    vllm = Vllm(2)
    new = Request('new', 90)
    vllm.requests = [new]
    step = vllm.budget.compose([], [new], 0.0)
    assert step.tokens == 45
    step = vllm.budget.compose([], [new], 0.0)
    assert step.tokens == 45
    new.inside, new.num_computed_tokens = True, 40
    assert vllm.budget.compose([new], [], 0.0).tokens == 25
