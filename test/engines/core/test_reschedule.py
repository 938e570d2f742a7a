"""Another policy in the middle of the work: the contract holds, and what was learned stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import Bench, request
from support.examples import examples

from timely_llm_ros.engines import Cancel, Reschedule, Resume, Submit
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.scheduling import POLICIES, SchedulingOptions

PLAN = 'takeoff;goto(cat_3);is_visible(cat_3);land;'

OPTIONS = st.builds(
    SchedulingOptions,
    admission=st.sampled_from(['lookahead', 'feasible', 'fixed', 'printed']),
    interrupts=st.booleans(),
    age_bound_s=st.sampled_from([None, 0.05, 30.0]),
    fills=st.booleans(),
)
ACTIONS = st.lists(
    st.one_of(
        st.integers(1, 8),
        st.sampled_from(['submit', 'urgent', 'background', 'cancel', 'resume']),
        st.builds(Reschedule, st.sampled_from(sorted(POLICIES)), OPTIONS),
    ),
    max_size=50,
)


@examples(150)
@given(actions=ACTIONS, kv=st.integers(100, 500), first=st.sampled_from(sorted(POLICIES)))
def test_each_generation_ends_once_within_the_bound_on_kv(
    actions: list[int | str | Reschedule], kv: int, first: str
) -> None:
    bench = Bench(LanedCore, PLAN, max_kv_tokens=kv, max_running=3, policy=first)
    names: list[str] = []
    canceled: set[str] = set()

    def step() -> bool:
        plan = bench.step()
        assert bench.core.state(bench.now_s).kv_tokens <= kv
        assert plan is None or plan.background or len(plan.running) <= 3
        return plan is not None

    for action in actions:
        if isinstance(action, Reschedule):
            bench.core.apply(action)
        elif isinstance(action, int):
            for _ in range(action):
                step()
        elif action == 'resume':
            for state in bench.core.state(bench.now_s).generations:
                bench.core.apply(Resume(state.generation_id, 'true'))
        elif action == 'cancel':
            if names:
                canceled.add(names[len(names) // 2])
                bench.core.apply(Cancel(names[len(names) // 2]))
        else:
            names.append(f'g{len(names)}')
            sent = request(
                names[-1],
                urgent=action == 'urgent',
                arrival_s=bench.now_s,
                background=action == 'background',
            )
            bench.core.apply(Submit(sent))
    for _ in range(3000):
        for state in bench.core.state(bench.now_s).generations:
            bench.core.apply(Resume(state.generation_id, 'true'))
        if not step() and not bench.core.state(bench.now_s).generations:
            break
    ended = bench.all_ended()
    assert set(ended) == set(names)
    for name, end in ended.items():
        assert end.reason == 'stop' or (end.reason == 'canceled' and name in canceled)
    assert not bench.core.state(bench.now_s).queued


def test_the_next_step_follows_the_new_policy_and_step_times_stay() -> None:
    bench = Bench(EngineCore, PLAN, max_running=1, policy='fcfs')
    bench.core.apply(Submit(request('early', arrival_s=0.0)))
    bench.core.apply(Submit(request('urgent', arrival_s=0.001, urgent=True)))
    for _ in range(4):
        plan = bench.step()
        assert plan is not None
        assert [it.generation_id for it in plan.running] == ['early']
    learned = bench.core.generations.step_times.expected_s(1)
    bench.core.apply(Reschedule('edf', SchedulingOptions(interrupts=True)))
    plan = bench.step()
    assert plan is not None
    assert [it.generation_id for it in plan.running] == ['urgent']
    assert learned is not None
    assert bench.core.generations.step_times.expected_s(1) == learned


def test_srpt_knows_how_far_plans_are_that_began_before_it() -> None:
    bench = Bench(EngineCore, 'takeoff;land;' * 8, max_running=2, policy='fcfs')
    bench.core.apply(Submit(request('g')))
    for _ in range(9):
        bench.step()
    table = bench.core.generations.table
    assert table.get('g', 'total_tokens') == 0
    bench.core.apply(Reschedule('srpt', SchedulingOptions()))
    generation = bench.core.generations.get('g')
    assert generation is not None
    assert table.get('g', 'total_tokens') == generation.tokens > 0
    expected = table.get('g', 'predicted_tokens') - generation.tokens
    assert table.get('g', 'remaining_tokens') == expected
