"""Plans that are written ahead of the value that they wait for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import SCENE, SKILLS, Bench, request
from support.examples import examples

from timely_llm_ros.engines import Cancel, Resume, SegmentGenerated, Submit, Suspend
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.core.step import Output
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import PlanTexts, SimulatedEngine
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.testing.exact_skills import EXACT_SCENE, EXACT_SKILLS
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineEvent

PLAN = 'takeoff;is_visible(cat_3);'
AGAIN = 'repeat(2){move_up(30);};is_visible(cat_3);'
LAST = 'land;'
KV = 400


class Asking(PlanTexts):
    """Plans that ask again as long as their robot reports ``true``."""

    share = 0.0

    def __init__(self, *_: object) -> None:
        super().__init__(lambda _: PLAN, forwarded=self.share)

    def observe(self, generation_id: str, text: str) -> int:
        plan = self._plans[generation_id]
        goes_on = AGAIN if text == '#true ' else LAST
        plan.pieces = [*plan.pieces[: plan.done], *pieces(goes_on)]
        plan.last = len(plan.pieces) + 1
        return super().observe(generation_id, text)


class Forwarded(Asking):
    """The same, where every other token must follow."""

    share = 0.5


def pieces(text: str) -> list[str]:
    texts = PlanTexts(lambda _: text)
    texts.open(request('pieces'))
    return [texts.next('pieces').text for _ in range(texts.length('pieces') - 1)]


def bench(kind: type[EngineCore] | type[LanedCore] = LanedCore, **options: object) -> Bench:  # type: ignore[type-arg]
    return Bench(kind, PLAN, **{'texts': Asking, 'max_kv_tokens': KV, **options})


def steps(run: Bench[LanedCore], number: int) -> None:
    for _ in range(number):
        run.step()


def until_it_waits(run: Bench[LanedCore]) -> None:
    while run.phase() is not Phase.HELD:
        run.step()


# Any order of things -----------------------------------------------------------------------------

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(['task', 'task', 'value', 'value', 'cancel', 'background', 'suspend']),
        st.integers(0, 12),
    ),
    max_size=30,
)


@examples(100)
@given(
    actions=ACTIONS,
    kv=st.integers(75, 400),
    chunk=st.integers(1, 30),
    running=st.integers(1, 4),
    texts=st.sampled_from([Asking, Forwarded]),
)
def test_no_order_of_things_shows_in_plans_or_delays_a_robot(
    actions: list[tuple[str, int]], kv: int, chunk: int, running: int, texts: type[Asking]
) -> None:
    run = bench(texts=texts, max_kv_tokens=kv, prefill_chunk=chunk, max_running=running)
    values: dict[str, list[str]] = {}

    def step() -> bool:
        plan = run.step()
        assert run.core.kv.used <= kv
        if plan is not None and plan.background:
            # Nothing but a robot's generation changes whether one could run.
            states = run.core.state(run.now_s).generations
            assert all(state.phase is Phase.HELD for state in states)
        return plan is not None

    def answer(name: str) -> None:
        left = values[name]
        run.core.apply(Resume(name, left.pop() if left else 'false'))

    def waiting() -> list[str]:
        states = run.core.state(run.now_s).generations
        held = {state.generation_id for state in states if state.phase is Phase.HELD}
        return [name for name in values if name in held]

    for number, (action, count) in enumerate(actions):
        name = f'{action}{number}'
        if action in ('task', 'background'):
            run.core.apply(Submit(request(name, background=action == 'background')))
            values[name] = ['true'] * (count % 3)
        elif action == 'value' and waiting():
            answer(waiting()[count % len(waiting())])
        elif values:
            name = list(values)[count % len(values)]
            if action == 'cancel':
                run.core.apply(Cancel(name))
            elif action == 'suspend' and name.startswith('task'):
                run.core.apply(Suspend(name))
        for _ in range(count):
            step()
    for _ in range(3000):
        for name in waiting():
            answer(name)
        if not step() and not waiting():
            break
    alone: dict[int, Bench[EngineCore]] = {}
    ended = run.all_ended()
    assert set(ended) == set(values)
    for name, event in ended.items():
        assert event.reason in ('stop', 'canceled', 'error')
        if event.reason == 'stop' and name.startswith('task'):
            asked = run.segments(name).count('is_visible(cat_3);') - 1
            if asked not in alone:
                alone[asked] = answered_at_once(texts, asked)
            assert run.segments(name) == alone[asked].segments()
            assert event.tokens == alone[asked].ended().tokens
            assert event.token_ids == alone[asked].ended().token_ids
            assert event.forwarded == alone[asked].ended().forwarded
    if kv >= 150:
        assert 'error' not in {event.reason for event in ended.values()}
    state = run.core.state(run.now_s)
    assert state.ahead_kv_tokens == 0
    assert state.kv_tokens <= 10
    assert not run.texts._plans


def answered_at_once(texts: type[Asking], times: int) -> Bench[EngineCore]:
    """Serve a plan whose robot reports true so often, on a core that writes nothing ahead."""
    run: Bench[EngineCore] = bench(EngineCore, texts=texts)
    run.core.apply(Submit(request('g')))
    for value in ['true'] * times + ['false']:
        run.run()
        run.core.apply(Resume('g', value))
    run.run()
    return run


# What it brings ----------------------------------------------------------------------------------


@pytest.mark.parametrize('texts', [Asking, Forwarded])
@pytest.mark.parametrize('value', ['true', 'false'])
@pytest.mark.parametrize('ahead', range(0, 14, 2))
def test_each_step_on_the_way_is_one_less_after_the_value(
    texts: type[Asking], value: str, ahead: int
) -> None:
    took: list[float] = []
    for kind in (EngineCore, LanedCore):
        run = bench(kind, texts=texts)
        run.core.apply(Submit(request('g')))
        until_it_waits(run)
        steps(run, ahead)
        told_s, known = run.now_s, len(run.segments())
        run.core.apply(Resume('g', value))
        while len(run.segments()) == known:
            run.step()
        (event,) = [it for it in run.events if isinstance(it, SegmentGenerated)][known:]
        took.append((event.token_at_s - told_s) / 0.01)
        run.core.apply(Resume('g', 'false'))
        run.run()
        if not run.all_ended():
            run.core.apply(Resume('g', 'false'))
            run.run()
    assert took[1] == pytest.approx(max(0.0, took[0] - ahead))


def test_what_was_thrown_away_is_counted_apart() -> None:
    run = bench()
    run.core.apply(Submit(request('g')))
    run.run()
    state = run.core.state(run.now_s)
    first = len(pieces(LAST)), len(pieces('repeat(2){move_up(30);};'))
    assert (state.ahead_tokens, state.ahead_dropped_tokens) == (0, 0)
    assert state.ahead_kv_tokens > sum(first)
    assert run.core.kv.spare_tokens() == state.ahead_kv_tokens
    run.core.apply(Resume('g', 'false'))
    run.run()
    state = run.core.state(run.now_s)
    assert (state.ahead_tokens, state.ahead_dropped_tokens) == first
    assert (state.ahead_kv_tokens, state.spilled) == (0, 0)
    assert run.ended().tokens == answered_at_once(Asking, 0).ended().tokens


@pytest.mark.parametrize('ahead', [0, 3, 20])
def test_nothing_else_is_learned(ahead: int) -> None:
    runs = []
    for kind in (EngineCore, LanedCore):
        run = bench(kind)
        run.core.apply(Submit(request('g')))
        for value in ('true', 'true', 'false'):
            until_it_waits(run)
            steps(run, ahead)
            run.core.apply(Resume('g', value))
        run.run()
        core = run.core._robots if isinstance(run.core, LanedCore) else run.core
        runs.append((run.ended(), core.generations))
    (plain, learned), (written, also) = runs
    assert written.generation_s == pytest.approx(plain.generation_s)
    for name in ('expected_s', 'worst_tokens'):
        before, after = (
            getattr(it._forecast._costs, name)('tello', request('g').utility, first=False)
            for it in (learned, also)
        )
        assert after == pytest.approx(before)
    assert also._forecast._tokens_per_step == pytest.approx(learned._forecast._tokens_per_step)
    rows = [it.step_times.expected_s(1) for it in (learned, also)]
    assert rows[1] == pytest.approx(rows[0])


def test_a_value_that_comes_first_is_written_for_first() -> None:
    run = bench(max_running=2)
    for name in ('late', 'soon'):
        run.core.apply(Submit(request(name)))
    while run.core.state(run.now_s).held < 2:
        run.step()
    generations = run.core._robots.generations
    generations.table.set('late', 'due_s', run.now_s + 9)
    generations.table.set('soon', 'due_s', run.now_s + 1)
    plan = run.step()
    assert plan is not None
    assert [it.generation_id for it in plan.running] == ['soon #true ', 'soon #false ']


# What gives way ----------------------------------------------------------------------------------


def test_a_task_that_needs_the_room_has_it_and_the_words_are_kept() -> None:
    run = bench(max_kv_tokens=100)
    run.core.apply(Submit(request('g')))
    run.run()
    run.core.apply(Submit(request('other', body='y' * 4 * 70)))
    plan = run.step()
    assert plan is not None
    assert not plan.background
    state = run.core.state(run.now_s)
    assert (state.spilled, state.ahead_kv_tokens) == (0, 0)
    run.core.apply(Cancel('other'))
    run.core.apply(Resume('g', 'false'))
    known = len(run.segments())
    told_s = run.now_s
    run.step()
    (event,) = [it for it in run.events if isinstance(it, SegmentGenerated)][known:]
    assert (event.segment.text, event.token_at_s) == (LAST, told_s)
    run.run()
    assert run.ended().tokens == answered_at_once(Asking, 0).ended().tokens


def test_a_plan_that_loses_its_kv_keeps_the_words_that_were_written_ahead() -> None:
    run = bench(max_kv_tokens=100)
    run.core.apply(Submit(request('g')))
    run.run()
    run.core.apply(Submit(request('other', urgent=True, body='y' * 4 * 80)))
    run.step()
    assert run.core.kv.spilled == 1
    run.core.apply(Cancel('other'))
    # There is nothing to write on top of until the KV is there again, and then nothing more.
    while (plan := run.step()) is not None:
        assert [it.generation_id for it in plan.running] == ['g']
    run.core.apply(Resume('g', 'true'))
    known = len(run.segments())
    run.step()
    assert run.segments()[known:] == ['repeat(2){move_up(30);};']
    run.run()
    run.core.apply(Resume('g', 'false'))
    run.run()
    assert run.ended().token_ids == answered_at_once(Asking, 1).ended().token_ids


@pytest.mark.parametrize('command', [Cancel('g'), Resume('g', 'maybe'), Submit(request('g'))])
@pytest.mark.parametrize('amid', [False, True])
def test_what_was_written_for_a_plan_goes_with_it(
    command: Cancel | Resume | Submit, amid: bool
) -> None:
    run = bench()
    run.core.apply(Submit(request('g')))
    until_it_waits(run)
    steps(run, 2)
    plan = run.core.plan(run.now_s)
    assert plan is not None
    assert plan.background
    if not amid:
        outputs = [run.texts.next(row.generation.generation_id) for row in plan.rows]
        run.core.complete(plan, outputs, run.now_s, run.now_s + 0.01)
    run.core.apply(command)
    assert run.core.state(run.now_s).ahead_kv_tokens == 0
    assert not any('#' in name for name in run.texts._plans)
    if amid:
        assert all(row.generation.ended for row in plan.rows)
        run.core.complete(plan, [Output('')] * sum(row.samples for row in plan.rows), 0.0, 0.01)
    run.core.apply(Cancel('g'))
    run.run()
    assert not run.texts._plans
    assert run.core.kv.used == 10


def test_a_value_that_comes_amid_a_step_finds_its_token() -> None:
    run = bench()
    run.core.apply(Submit(request('g')))
    until_it_waits(run)
    steps(run, 1)
    plan = run.core.plan(run.now_s)
    assert plan is not None
    run.core.apply(Resume('g', 'false'))
    outputs = [run.texts.next(row.generation.generation_id) for row in plan.rows]
    run.core.complete(plan, outputs, run.now_s, run.now_s + 0.01)
    run.now_s += 0.01
    run.step()
    assert run.segments()[-1] == LAST
    assert run.core.state(run.now_s).ahead_tokens == len(pieces(LAST)) == 2


def test_a_plan_that_is_suspended_beside_that_takes_its_words_when_it_goes_on() -> None:
    run = bench()
    run.core.apply(Submit(request('g')))
    run.run()
    run.core.apply(Resume('g', 'false'))
    run.core.apply(Suspend('g'))
    run.run()
    assert LAST not in run.segments()
    run.core.apply(Resume('g'))
    run.step()
    assert LAST in run.segments()


def test_a_value_of_many_possible_ones_is_waited_for() -> None:
    skills = replace(
        SKILLS,
        skills={
            **SKILLS.skills,
            'is_visible': replace(SKILLS.skills['is_visible'], returns='text'),
        },
    )
    run = bench()
    run.core.apply(Submit(replace(request('g'), skill_set=skills)))
    until_it_waits(run)
    assert run.step() is None
    assert len(SCENE.objects) == 1


def test_the_next_segment_comes_with_the_value_in_virtual_time() -> None:
    async def after_value_s() -> float:
        found: asyncio.Queue[SegmentGenerated] = asyncio.Queue()

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, SegmentGenerated):
                found.put_nowait(event)

        engine = SimulatedEngine(SimulatedConfig(plan_text=lambda _: 'look(cup_1);act(20);halt;'))
        await engine.start(on_event)
        engine.submit(replace(request('g'), skill_set=EXACT_SKILLS, scene=EXACT_SCENE))
        assert (await found.get()).segment.awaits_value
        await asyncio.sleep(5.0)
        told_s = asyncio.get_running_loop().time()
        engine.resume('g', 'true')
        assert (await found.get()).segment.text == 'act(20);'
        took_s = asyncio.get_running_loop().time() - told_s
        await engine.close()
        return took_s

    assert run_virtual(after_value_s()) == 0.0
