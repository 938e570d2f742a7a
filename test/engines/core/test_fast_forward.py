"""A core counts what steps brought, and what of it took no step of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.engines.core_bench import Bench, request

from timely_llm_ros.engines import Submit
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.simulated.engine import PlanTexts
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from timely_llm_ros.engines.core.step import Output, StepPlan

PLAN = 'goto(cat_3);turn_cw(90);land;'
STEPS = 5
"""Of this plan: its words, and its end."""


class Forwarding(PlanTexts):
    """What is no word must follow."""

    def fast_forward(self, generation_id: str) -> Output | None:
        plan = self._plans[generation_id]
        if plan.done == len(plan.pieces) or plan.pieces[plan.done][0].isalpha():
            return None
        return self.next(generation_id)


def sampling(plan: StepPlan | None) -> int:
    return 0 if plan is None else sum(row.samples for row in plan.rows)


def test_a_segment_leaves_with_the_token_that_settles_it() -> None:
    bench = Bench(EngineCore, PLAN, texts=Forwarding)
    bench.core.apply(Submit(request()))
    segments = []
    while 'g' in bench.core:
        assert sampling(bench.step()) == 1
        segments.append(len(bench.segments()))
    assert segments == [0, 1, 2, 3, 3]
    assert bench.segments() == ['goto(cat_3);', 'turn_cw(90);', 'land;']
    ended = bench.ended()
    assert (ended.reason, ended.tokens) == ('stop', len(ended.token_ids))
    assert ended.generation_s == 0.01 * STEPS


def test_what_a_step_brought_is_computed_beside_prompts_that_fill_the_chunk() -> None:
    bench = Bench(
        EngineCore,
        PLAN,
        texts=Forwarding,
        policy='fcfs',
        mode='stream',
        prefill_chunk=4,
        scheduling=SchedulingOptions(admission='fixed'),
    )
    bench.core.apply(Submit(request('a', fixed='', body='y' * 8)))
    while not sampling(bench.step()):
        pass
    bench.core.apply(Submit(request('b', fixed='', body='y' * 400)))
    sizes = []
    while (plan := bench.step()) is not None and len(plan.rows) == 2:
        sizes.append({row.generation.generation_id: row.tokens for row in plan.rows})
        assert not plan.decodes_only
    assert sizes == [{'a': tokens, 'b': 4} for tokens in (2, 4, 5, 2)]


def test_steps_are_what_is_expected_of_segments() -> None:
    bench = Bench(EngineCore, PLAN, texts=Forwarding)
    table = bench.core.generations.table
    for number in range(12):
        bench.core.apply(Submit(request(f'g{number}')))
        bench.run()
    bench.core.apply(Submit(request('last')))
    assert table.get('last', 'worst_tokens') == 2
    bench.step()
    assert table.get('last', 'generated_tokens') == 1
    bench.step()
    assert table.get('last', 'segment_index') == 1
    assert table.get('last', 'generated_tokens') == 0
    assert table.get('last', 'worst_tokens') == 1


def test_predicted_lengths_fall_by_all_that_a_step_brought() -> None:
    bench = Bench(EngineCore, PLAN, texts=Forwarding, policy='srpt')
    bench.core.apply(Submit(request()))
    bench.core.generations.predict('g', 15)
    generation = bench.core.generations.get('g')
    assert generation is not None
    while 'g' in bench.core:
        assert bench.core.generations.remaining_tokens('g') == max(1.0, 15 - generation.tokens)
        bench.step()


def test_the_background_takes_them_for_decoding() -> None:
    options = SchedulingOptions(background_batch=3)
    bench = Bench(LanedCore, PLAN, texts=Forwarding, scheduling=options)
    for number in range(3):
        bench.core.apply(Submit(request(f'g{number}', background=True)))
    sizes = []
    while (plan := bench.step()) is not None:
        if len(plan.rows) > 1:
            assert plan.decodes_only
            sizes.append([row.tokens for row in plan.rows])
    assert len(bench.all_ended()) == 3
    assert any(len(step) == 3 for step in sizes)
    assert max(map(max, sizes)) > 3
